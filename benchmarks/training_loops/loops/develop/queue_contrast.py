"""Momentum contrast: a queue of keys on the device, its place counted on the host."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class Queue(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("keys", F.normalize(torch.randn(size, width), dim=1))
        self.place = 0

    @torch.no_grad()
    def push(self, keys):
        size = self.keys.shape[0]
        end = self.place + keys.shape[0]
        if end > size:
            self.place, end = 0, keys.shape[0]
        self.keys[self.place : end] = keys
        self.place = end % size


@torch.no_grad()
def follow(slow, fast, momentum=0.99):
    torch._foreach_lerp_(list(slow.parameters()), list(fast.parameters()), 1 - momentum)


def main(steps=24, batch=8):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    query = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8)).to(device)
    key = copy.deepcopy(query).requires_grad_(False)
    queue = Queue(32, 8).to(device)
    optimizer = torch.optim.SGD(query.parameters(), lr=0.05)
    labels = torch.zeros(batch, dtype=torch.long, device=device)
    losses = []
    for step in range(steps):
        x = torch.randn(batch, 10, device=device)
        q = F.normalize(query(x + 0.1 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            follow(key, query)
            k = F.normalize(key(x), dim=1)
        positive = (q * k).sum(dim=1, keepdim=True)
        logits = torch.cat([positive, q @ queue.keys.t().clone()], dim=1) / 0.07
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue.push(k)
        losses.append(loss.detach())
        if len(losses) == 12:
            print(f"step {step + 1}: {torch.stack(losses).mean().item():.4f}")
            losses.clear()


if __name__ == "__main__":
    main()
