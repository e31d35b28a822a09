"""Callbacks that decide by the step number whether they read anything."""

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class State:
    step: int = 0
    loss: torch.Tensor | None = None
    window: list[torch.Tensor] = field(default_factory=list)


class EveryN:
    def __init__(self, n):
        self.n = n

    def due(self, state):
        return state.step > 0 and state.step % self.n == 0


class LogLoss(EveryN):
    def __call__(self, state):
        state.window.append(state.loss)
        if not self.due(state):
            return
        print(f"{state.step}: {torch.stack(state.window).mean().item():.4f}")
        state.window.clear()


class CheckFinite(EveryN):
    def __call__(self, state):
        if self.due(state) and not torch.isfinite(state.loss):
            raise RuntimeError("the loss is not finite")


def train(model, optimizer, device, callbacks, steps):
    state = State()
    for _ in range(steps):
        x = torch.randn(12, 3, device=device)
        loss = (model(x).sum(dim=1) - x.prod(dim=1)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state.step += 1
        state.loss = loss.detach()
        for callback in callbacks:
            callback(state)
    return state


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    train(model, optimizer, device, [LogLoss(10), CheckFinite(10)], steps=40)


if __name__ == "__main__":
    main()
