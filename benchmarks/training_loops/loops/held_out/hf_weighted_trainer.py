"""A transformers.Trainer with a loss of its own, which keeps statistics of every step."""

from collections import defaultdict

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class WeightedTrainer(Trainer):
    def __init__(self, *args, class_weights, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights.to(self.args.device)
        self.stats = defaultdict(list)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs["logits"]
        ce = nn.functional.cross_entropy(logits, labels, weight=self.class_weights)
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        loss = ce - 0.01 * entropy
        self.stats["ce"].append(ce.detach().item())
        self.stats["entropy"].append(entropy.item())
        self.stats["rows"].append(labels.shape[0])
        predictions = logits.argmax(dim=-1)
        for cls in range(self.class_weights.shape[0]):
            mask = labels == cls
            if mask.any():
                self.stats[f"hits/{cls}"].append((predictions[mask] == cls).float().mean().item())
        return (loss, outputs) if return_outputs else loss

    def log(self, logs, start_time=None):
        for name, values in self.stats.items():
            logs[name] = sum(values) / len(values)
        self.stats.clear()
        super().log(logs, start_time)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids):
        return {"logits": self.head(self.embedding(input_ids).mean(dim=1))}


def main():
    rows = [
        {"input_ids": torch.randint(0, 30, (6,)), "labels": torch.tensor(i % 3)} for i in range(48)
    ]
    arguments = TrainingArguments(
        output_dir="out", per_device_train_batch_size=8, num_train_epochs=2, logging_steps=4
    )
    trainer = WeightedTrainer(
        model=Classifier(),
        args=arguments,
        train_dataset=rows,
        class_weights=torch.tensor([1.0, 2.0, 1.0]),
    )
    trainer.train()


if __name__ == "__main__":
    main()
