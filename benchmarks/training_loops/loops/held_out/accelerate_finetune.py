"""Fine-tuning with accelerate: gradient accumulation, a progress bar, a running loss."""

import math

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm


def build_loader():
    ids = torch.randint(0, 40, (64, 12))
    return DataLoader(TensorDataset(ids, ids.roll(-1, dims=1)), shuffle=True, batch_size=8)


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        hidden, _ = self.mix(self.embed(ids))
        logits = self.head(hidden)
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main(epochs=2):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, build_loader())
    progress_bar = tqdm(range(epochs * len(train_dataloader)))
    completed_steps = 0
    for epoch in range(epochs):
        model.train()
        total_loss = 0
        for ids, labels in train_dataloader:
            with accelerator.accumulate(model):
                loss = model(ids, labels)
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            avg_loss = accelerator.gather(loss.repeat(8)).mean()
            progress_bar.update(1)
            progress_bar.set_postfix(loss=avg_loss.item(), ppl=math.exp(min(20, avg_loss)))
            completed_steps += 1
        accelerator.print(
            f"epoch {epoch}: {total_loss.item() / len(train_dataloader):.3f}, step {completed_steps}"
        )


if __name__ == "__main__":
    main()
