"""Mixup and random erasing drawn on the device; soft accuracy kept as a tensor."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mixup(images, targets, alpha=0.4):
    weight = torch._standard_gamma(torch.full((2, images.shape[0]), alpha, device=images.device))
    share = weight[0] / weight.sum(dim=0)
    order = torch.rand(images.shape[0], device=images.device).argsort()
    mixed = share[:, None] * images + (1 - share[:, None]) * images[order]
    return mixed, share[:, None] * targets + (1 - share[:, None]) * targets[order]


def erase(images, share=0.2):
    return torch.where(torch.rand_like(images) < share, torch.zeros_like(images), images)


class Accuracy(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("hits", torch.zeros(()))
        self.rows = 0

    def update(self, logits, targets):
        self.hits += (logits.argmax(dim=1) == targets.argmax(dim=1)).sum()
        self.rows += logits.shape[0]

    def result(self):
        return float(self.hits) / self.rows


def main(epochs=2):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(72, 20), torch.randint(0, 4, (72,)))
    loader = DataLoader(dataset, batch_size=9, shuffle=True, pin_memory=device.type == "cuda")
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        accuracy = Accuracy().to(device)
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            targets = F.one_hot(labels.to(device, non_blocking=True), num_classes=4).float()
            images, targets = mixup(erase(images), targets)
            logits = model(images)
            loss = F.cross_entropy(logits, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            accuracy.update(logits.detach(), targets)
        print(f"epoch {epoch}: accuracy {accuracy.result():.3f}")


if __name__ == "__main__":
    main()
