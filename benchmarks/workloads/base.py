"""What a workload is: a model, fresh inputs for it, and the way it is used.

A :class:`Workload` is data about one row of the benchmark. Its ``build`` makes a :class:`Case`, the
living thing: a module to compile, and functions that draw one batch and turn outputs into a loss. A
case is built once for each variant, from the same seed, so every compiled copy has its own
parameters and its own mutable state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import nn

Precision = Literal["bf16", "fp16", "fp32", "amp"]

_DTYPES: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "amp": torch.float32,
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where and how large a case is built.

    ``dtype`` is the type of the weights and of floating inputs; under AMP it stays float32.
    ``tiny`` shrinks depth, width and batch so that the case runs on two CPU cores in about a
    second.
    """

    device: torch.device
    dtype: torch.dtype
    tiny: bool = False

    def pick(self, full: Any, tiny: Any) -> Any:
        """``tiny`` at smoke-test size, ``full`` otherwise."""
        return tiny if self.tiny else full


class Draw:
    """Random tensors on one device from a generator of its own, so that every batch is new and
    repeatable.
    """

    def __init__(self, device: torch.device, seed: int) -> None:
        self.device = device
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Standard normal values of the given shape."""
        values = torch.randn(shape, device=self.device, generator=self._generator)
        return values.to(dtype)

    def uniform(
        self, low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """Values uniform in ``[low, high)``."""
        values = torch.rand(shape, device=self.device, generator=self._generator)
        return (values * (high - low) + low).to(dtype)

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """int64 values uniform in ``[low, high)``."""
        return torch.randint(low, high, shape, device=self.device, generator=self._generator)


@dataclasses.dataclass
class Batch:
    """One call's inputs: what the module is called with, and what the loss compares its
    outputs to.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    target: Any = None

    def nbytes(self) -> int:
        """Bytes of all tensors in the batch."""
        return sum(tensor.nbytes for tensor in tensors_in((self.args, self.kwargs, self.target)))


@dataclasses.dataclass
class Case:
    """A built workload.

    ``draw_batch(draw, index)`` makes the inputs of call number ``index``. ``loss`` is present for
    training only and runs outside the compiled region. ``optimizer`` is stepped after each backward
    where there is one; otherwise gradients are dropped. ``reset`` puts mutable state (a key/value
    cache) back to where timing starts; it is called outside timed code, at least every
    ``calls_per_reset`` calls.
    """

    module: nn.Module
    draw_batch: Callable[[Draw, int], Batch]
    loss: Callable[[Any, Any], torch.Tensor] | None = None
    optimizer: torch.optim.Optimizer | None = None
    reset: Callable[[], None] | None = None
    calls_per_reset: int = 1_000_000


def every_tensor(outputs: Any) -> list[torch.Tensor]:
    """All floating-point tensors of the outputs, in order."""
    return [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]


@dataclasses.dataclass(frozen=True)
class Workload:
    """One row of the benchmark.

    ``compared`` picks what is compared with the reference in higher precision; a relative error
    above ``tolerance`` (and above twice eager's own error) counts as a wrong result.
    ``distinct_shapes`` is how many input shapes come in turn; warm-up covers each of them.
    """

    name: str
    suite: Literal["HF", "TB", "TIMM", "today"]
    batch: int
    build: Callable[[Setting], Case]
    training: bool = False
    precision: Precision = "bf16"
    packages: tuple[str, ...] = ()
    dynamic: bool | None = None
    distinct_shapes: int = 1
    compared: Callable[[Any], list[torch.Tensor]] = every_tensor
    tolerance: float = 0.05
    traits: tuple[str, ...] = ()

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return _DTYPES[self.precision]

    @property
    def reference_dtype(self) -> torch.dtype:
        """The next higher precision, in which the reference runs, without autocast."""
        return torch.float64 if self.precision == "fp32" else torch.float32

    @property
    def autocast(self) -> bool:
        """Whether calls run under ``torch.autocast`` to bfloat16."""
        return self.precision == "amp"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor inside nested tuples, lists and mappings (model outputs are mappings), in
    order.
    """
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
