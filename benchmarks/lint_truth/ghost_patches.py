"""What a pretended CUDA device has to replace in torch itself, because no mode sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

#: Constructors that no mode sees; all of them make host tensors.
UNSEEN = ("from_numpy", "IntTensor", "LongTensor", "FloatTensor", "DoubleTensor", "BoolTensor")

CAPABILITY = (9, 0)


class _Queue:
    """A stream or an event on which nothing is left to wait for."""

    def __init__(self, **settings: Any) -> None:
        """Settings (`enable_timing`, ...) change nothing here."""

    def record(self, stream: Any = None) -> None:
        """Nothing is under way."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is under way."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def query(self) -> bool:
        """Whether everything is done."""
        return True


def _stand_in(original: Any, call: Callable[..., Any]) -> Any:
    """An object to call in place of a class, still good for `isinstance(x, torch.LongTensor)`."""

    class StandIn(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

    return StandIn(getattr(original, "__name__", "StandIn"), (), {})


@contextlib.contextmanager
def _replaced(owner: Any, replacements: dict[str, Any]) -> Iterator[None]:
    originals = {name: getattr(owner, name) for name in replacements}
    for name, value in replacements.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


@contextlib.contextmanager
def unseen_recorded(made: Callable[[torch.Tensor, str], None]) -> Iterator[None]:
    """Tell `made` each tensor that such a constructor makes, and the constructor's name."""

    def watched(name: str) -> Any:
        original = getattr(torch, name)

        def construct(*args: Any) -> torch.Tensor:
            out: torch.Tensor = original(*args)
            made(out, name)
            return out

        return _stand_in(original, construct)

    with _replaced(torch, {name: watched(name) for name in UNSEEN}):
        yield


@contextlib.contextmanager
def cuda_answered() -> Iterator[None]:
    """Answer for the device what a CPU build refuses: capability, streams, events, generators."""
    generator = torch.Generator
    host = _stand_in(generator, lambda device="cpu": generator())
    answers = {
        "get_device_capability": lambda device=None: CAPABILITY,
        "current_stream": lambda device=None: _Queue(),
        "Event": _Queue,
    }
    with (
        _replaced(torch.cuda, answers),
        _replaced(torch, {"Generator": host}),
    ):
        yield


@contextlib.contextmanager
def as_if_compiling() -> Iterator[None]:
    """Make `torch.compiler.is_compiling()` true, so that eager code takes the compiled branch."""
    with _replaced(torch.compiler, {"is_compiling": lambda: True}):
        yield
