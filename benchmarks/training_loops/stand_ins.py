"""Small stand-ins for libraries that the marked loops import, so that torch alone runs them.

Each does to tensors what the library does: a progress bar formats what it is given, accelerate
and Lightning move the batch, the Trainer calls `compute_loss`.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterable, Iterator
from numbers import Number
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _moved(batch: Any) -> Any:
    """The batch on the device, by copies that do not block."""
    if isinstance(batch, dict):
        return {key: _moved(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [_moved(value) for value in batch]
    return batch.to(_device(), non_blocking=True)


class Progress:
    """tqdm: iterates, and turns what it shows into text at once."""

    def __init__(self, iterable: Iterable[Any] = (), *args: Any, **kwargs: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def update(self, n: int = 1) -> None: ...

    def set_description(self, text: str) -> None: ...

    def set_postfix(self, **shown: Any) -> None:
        for value in shown.values():
            f"{value:.3g}" if isinstance(value, Number) else str(value)


class SummaryWriter:
    """TensorBoard's writer: reads each scalar and histogram when it is added."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def add_scalar(self, tag: str, value: Any, step: int) -> None:
        if isinstance(value, torch.Tensor):
            value.detach().cpu().numpy()

    def add_scalars(self, tag: str, values: dict[str, Any], step: int) -> None:
        for value in values.values():
            self.add_scalar(tag, value, step)

    def add_histogram(self, tag: str, values: Any, step: int) -> None:
        self.add_scalar(tag, values, step)

    def close(self) -> None: ...


class Accelerator:
    """accelerate on one device: prepared loaders move their batches."""

    sync_gradients = True

    def __init__(self, **kwargs: Any) -> None: ...

    def prepare(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(map(self._prepared, parts))

    def _prepared(self, part: Any) -> Any:
        if isinstance(part, nn.Module):
            return part.to(_device())
        return _Loader(part) if isinstance(part, DataLoader) else part

    @contextlib.contextmanager
    def accumulate(self, model: nn.Module) -> Iterator[None]:
        yield

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, max_norm: float) -> torch.Tensor:
        return nn.utils.clip_grad_norm_(parameters, max_norm)

    def gather(self, value: Any) -> Any:
        return value

    def print(self, *values: Any) -> None:
        print(*values)


class _Loader:
    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return (_moved(batch) for batch in self.loader)

    def __len__(self) -> int:
        return len(self.loader)


class LightningModule(nn.Module):
    """A Lightning module; what it logs stays a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, Any] = {}

    def log(self, name: str, value: Any, **kwargs: Any) -> None:
        self.logged[name] = value.detach() if isinstance(value, torch.Tensor) else value

    def log_dict(self, values: dict[str, Any], **kwargs: Any) -> None:
        for name, value in values.items():
            self.log(name, value)

    def on_train_epoch_end(self) -> None: ...


class Callback:
    """A Lightning callback."""

    def on_train_batch_end(self, *args: Any) -> None: ...


class LightningTrainer:
    """Lightning's loop with automatic optimisation."""

    def __init__(self, max_epochs: int = 1, callbacks: Iterable[Any] = (), **kwargs: Any) -> None:
        self.max_epochs, self.callbacks = max_epochs, list(callbacks)

    def fit(self, module: LightningModule, loader: DataLoader) -> None:
        module.to(_device())
        optimizer = module.configure_optimizers()  # type: ignore[operator]
        for _ in range(self.max_epochs):
            for index, batch in enumerate(loader):
                batch = _moved(batch)
                loss = module.training_step(batch, index)  # type: ignore[operator]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for callback in self.callbacks:
                    outputs = {"loss": loss.detach()}
                    callback.on_train_batch_end(self, module, outputs, batch, index)
            module.on_train_epoch_end()


class TrainingArguments:
    """transformers.TrainingArguments, as far as the loop below reads them."""

    def __init__(self, **settings: Any) -> None:
        self.batch = settings["per_device_train_batch_size"]
        self.epochs = settings["num_train_epochs"]
        self.logging_steps = settings["logging_steps"]

    @property
    def device(self) -> torch.device:
        return _device()


class Trainer:
    """transformers.Trainer: calls `compute_loss` in every step and `log` every n steps."""

    def __init__(self, model: nn.Module, args: TrainingArguments, train_dataset: Any) -> None:
        self.args, self.train_dataset = args, train_dataset
        self.model = model.to(args.device)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        print(logs)

    def train(self) -> None:
        loader = DataLoader(self.train_dataset, batch_size=self.args.batch)
        optimizer = torch.optim.AdamW(self.model.parameters())
        total, step = torch.zeros((), device=self.args.device), 0
        for _ in range(self.args.epochs):
            for batch in loader:
                loss = self.compute_loss(self.model, _moved(batch))  # type: ignore[attr-defined]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                total += loss.detach()
                step += 1
                if step % self.args.logging_steps == 0:
                    self.log({"loss": total.item() / self.args.logging_steps})
                    total.zero_()


def _module(name: str, **contents: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(contents)
    return module


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Put the stand-ins in the place of the libraries, whether those are installed or not."""
    nothing = {name: (lambda *args, **kwargs: None) for name in ("init", "log", "finish")}
    lightning = {
        "LightningModule": LightningModule,
        "Trainer": LightningTrainer,
        "Callback": Callback,
    }
    trainer = {"Trainer": Trainer, "TrainingArguments": TrainingArguments}
    modules = {
        "tqdm": _module("tqdm", tqdm=Progress, trange=lambda n: Progress(range(n))),
        "tqdm.auto": _module("tqdm.auto", tqdm=Progress),
        "wandb": _module("wandb", **nothing),
        "lightning": _module("lightning", **lightning),
        "transformers": _module("transformers", **trainer),
        "accelerate": _module("accelerate", Accelerator=Accelerator),
        "torch.utils.tensorboard": _module("tensorboard", SummaryWriter=SummaryWriter),
    }
    with mock.patch.dict(sys.modules, modules):
        yield


def is_stand_in(filename: str) -> bool:
    """Whether a frame's file is this one."""
    return Path(filename).name == Path(__file__).name
