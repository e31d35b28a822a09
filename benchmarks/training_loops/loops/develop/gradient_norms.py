"""Clipping written by hand: the norm of all gradients as a Python number."""

import math
import statistics

import torch
from torch import nn


def grad_norm(parameters):
    total_norm = 0.0
    for p in parameters:
        if p.grad is None:
            continue
        param_norm = p.grad.detach().norm(2)
        total_norm += param_norm.item() ** 2
    return math.sqrt(total_norm)


def clip_(parameters, max_norm):
    parameters = list(parameters)
    norms = torch.stack([p.grad.norm() for p in parameters])
    total = norms.norm()
    if total > max_norm:
        scale = max_norm / (total + 1e-6)
        for p in parameters:
            p.grad.mul_(scale)


class Residual(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def main(iterations=24):
    use_cuda = torch.cuda.is_available()
    device = "cuda" if use_cuda else "cpu"
    model = Residual(12, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs = torch.randn(128, 12, device=device)
    targets = inputs.roll(1, dims=1)
    norms = []
    for iteration in range(iterations):
        rows = torch.randint(0, 128, (16,), device=device)
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        norms.append(grad_norm(model.parameters()))
        clip_(model.parameters(), 1.0)
        optimizer.step()
        if iteration % 12 == 11:
            print(f"{iteration + 1}: loss {loss.item():.4f}, norm {statistics.median(norms):.3f}")


if __name__ == "__main__":
    main()
