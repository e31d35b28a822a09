"""What the engine calls around its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .engine import Engine


class Callback:
    def on_step_end(self, engine: Engine, loss: torch.Tensor) -> None: ...

    def on_epoch_end(self, engine: Engine) -> None: ...


class TerminateOnNaN(Callback):
    """Stops training at the first loss that is not finite."""

    def on_step_end(self, engine: Engine, loss: torch.Tensor) -> None:
        if not torch.isfinite(loss).all():
            engine.should_stop = True


class GradientMonitor(Callback):
    """Keeps the largest gradient of every step."""

    def __init__(self) -> None:
        self.largest: list[float] = []

    def on_step_end(self, engine: Engine, loss: torch.Tensor) -> None:
        grads = [p.grad.abs().max() for p in engine.model.parameters() if p.grad is not None]
        self.largest.append(torch.stack(grads).max().item())


class Printer(Callback):
    """Prints the loss every n steps."""

    def __init__(self, every: int) -> None:
        self.every = every

    def on_step_end(self, engine: Engine, loss: torch.Tensor) -> None:
        if engine.step % self.every == 0:
            print(f"step {engine.step}: {loss.item():.4f}")

    def on_epoch_end(self, engine: Engine) -> None:
        print(f"epoch {engine.epoch}: loss {engine.loss_meter.avg:.4f}")
