"""Meters that callers feed once a step."""

from __future__ import annotations

import torch


class AverageMeter:
    """Running mean of a value."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sum, self.count = 0.0, 0

    def update(self, value: float, n: int = 1) -> None:
        self.sum += value * n
        self.count += n

    @property
    def avg(self) -> float:
        return self.sum / max(1, self.count)


def accuracy(
    output: torch.Tensor, target: torch.Tensor, topk: tuple[int, ...] = (1,)
) -> list[float]:
    """Precision at k for every k."""
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1))
        results = []
        for k in topk:
            hits = correct[:k].reshape(-1).float().sum(0)
            results.append(float(hits * (100.0 / target.size(0))))
        return results


class ConfusionMatrix:
    """Counts of (target, prediction), kept on the device of what it is given."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.counts: torch.Tensor | None = None

    def update(self, output: torch.Tensor, target: torch.Tensor) -> None:
        index = target * self.classes + output.argmax(dim=1)
        if self.counts is None:
            self.counts = torch.zeros(self.classes**2, dtype=torch.long, device=target.device)
        self.counts.scatter_add_(0, index, torch.ones_like(index))

    def compute(self) -> list[list[int]]:
        if self.counts is None:
            return []
        return self.counts.view(self.classes, self.classes).tolist()
