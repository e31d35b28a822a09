"""A Lightning module that logs numbers, and a callback that prints after every batch."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitClassifier(L.LightningModule):
    def __init__(self, classes: int = 4, lr: float = 1e-2):
        super().__init__()
        self.lr = lr
        self.layer_1 = nn.Linear(10, 16)
        self.layer_2 = nn.Linear(16, classes)
        self.seen_losses = []

    def forward(self, x):
        return self.layer_2(torch.relu(self.layer_1(x)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(dim=1) == y).float().mean().item()
        self.log("train_acc", acc, prog_bar=True)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        self.seen_losses.append(loss.detach().cpu().numpy())
        return loss

    def on_train_epoch_end(self):
        print("mean loss", sum(self.seen_losses) / len(self.seen_losses))
        self.seen_losses.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class PrintLoss(L.Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        print(f"batch {batch_idx}: {outputs['loss']}")


def main():
    dataset = TensorDataset(torch.randn(64, 10), torch.randint(0, 4, (64,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True)
    trainer = L.Trainer(max_epochs=2, callbacks=[PrintLoss()])
    trainer.fit(LitClassifier(), loader)


if __name__ == "__main__":
    main()
