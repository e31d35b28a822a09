"""Contrastive learning in which each batch decides how many pairs it has."""

import torch
import torch.nn.functional as F
from torch import nn


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def pair_loss(z, labels, margin=0.2):
    similarity = z @ z.t()
    same = labels[:, None] == labels[None, :]
    eye = torch.eye(len(labels), dtype=torch.bool, device=z.device)
    positive = similarity[same & ~eye]
    negative = similarity[~same]
    if positive.numel() == 0:
        return z.sum() * 0.0
    hard = negative[negative > negative.mean()]
    return F.relu(hard.mean() - positive.mean() + margin)


def train(model, data, labels, optimizer, steps, batch=32):
    for step in range(steps):
        rows = torch.randperm(data.shape[0], device=data.device)[:batch]
        x, y = data[rows], labels[rows]
        classes = torch.unique(y)
        if len(classes) < 2:
            continue
        loss = pair_loss(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if not (step + 1) % 10:
            print(step + 1, loss.item(), len(classes))


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Projector().to(device)
    data = torch.randn(200, 12, device=device)
    labels = torch.randint(0, 5, (200,), device=device)
    train(model, data, labels, torch.optim.Adam(model.parameters(), lr=1e-3), steps=20)


if __name__ == "__main__":
    main()
