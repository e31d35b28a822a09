"""The loop."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from .callbacks import Callback, GradientMonitor, Printer, TerminateOnNaN
from .metrics import AverageMeter, ConfusionMatrix, accuracy


class Engine:
    def __init__(
        self, model: nn.Module, device: torch.device, callbacks: Iterable[Callback] = ()
    ) -> None:
        self.model = model.to(device)
        self.device = device
        self.callbacks = list(callbacks)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.loss_meter, self.top1 = AverageMeter("loss"), AverageMeter("acc@1")
        self.confusion = ConfusionMatrix(4)
        self.epoch = self.step = 0
        self.should_stop = False

    def prepare(self, batch: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(part.to(self.device, non_blocking=True) for part in batch)

    def train_step(self, images: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        output = self.model(images)
        loss = self.criterion(output, target)
        (acc1,) = accuracy(output, target)
        self.loss_meter.update(loss.item(), images.size(0))
        self.top1.update(acc1, images.size(0))
        self.confusion.update(output.detach(), target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def fit(self, loader: DataLoader, epochs: int) -> None:
        for self.epoch in range(epochs):
            for batch in loader:
                images, target = self.prepare(batch)
                loss = self.train_step(images, target)
                self.step += 1
                for callback in self.callbacks:
                    callback.on_step_end(self, loss)
                if self.should_stop:
                    return
            for callback in self.callbacks:
                callback.on_epoch_end(self)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(64, 3, 8, 8), torch.randint(0, 4, (64,)))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 4))
    engine = Engine(model, device, [TerminateOnNaN(), GradientMonitor(), Printer(8)])
    engine.fit(loader, epochs=2)
    print(engine.confusion.compute())
