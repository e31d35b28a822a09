"""The operators that placement puts into graphs.

They are operators of our own because Inductor moves CPU tensors to the GPU on its own account where
it sees only operators that it knows; `lowerings.py` says what they compile to. Inductor's cache
keys graphs by the names of their operators: a change of what these compile to needs a new
namespace.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.shared_state import Shared

# Results of FROM_SIZES that are kept, and their bytes, of which the smallest take 512 on the GPU.
_MOST_KEPT, _MOST_BYTES = 4096, 16 << 20
# So many elements may be filled one by one in a graph of the caller's own.
_MOST_FILLS = 64

DTYPES = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    }
)
"""Of what is copied, and of numbers."""

_LIBRARY: Any = torch.library.Library("pygraph_3", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("to_gpu(Tensor[] values, Device device) -> Tensor")
_LIBRARY.define("stay(Tensor(a) value) -> Tensor(a)")
_LIBRARY.define(
    "from_sizes(SymInt[] sizes, str source, int elements, ScalarType dtype, Device device)"
    " -> Tensor"
)
_LIBRARY.define("number(Scalar value, ScalarType dtype) -> Tensor")

TO_GPU = torch.ops.pygraph_3.to_gpu.default
"""Elements of CPU tensors of one dtype, one after the other, in fresh memory of a GPU."""

STAY = torch.ops.pygraph_3.stay.default
"""A CPU tensor, which stays where it is."""

FROM_SIZES = torch.ops.pygraph_3.from_sizes.default
"""Elements of tensors of one dtype, one after the other, on a GPU, which a `Program` computes on
the CPU from sizes alone; compiled code holds all of it, as caches give that to any process. It
reads them from memory that nobody writes to: that of the same sizes is the same from the second
call on, for good, so that a graph may hold its address.
"""

NUMBER = torch.ops.pygraph_3.number.default
"""A CPU scalar, always the same number, in memory of its own; no code is generated for it."""


MODULES = ("builtins", "_operator", "math", "torch")
"""Those of functions of numbers that a program may call."""

# What generated code calls them, and what it writes.
_NAMES: dict[str, Any] = {
    "torch": torch,
    "device": torch.device,
    "inf": math.inf,
    "nan": math.nan,
    **{f"math_{name}": value for name, value in vars(math).items()},
    **{f"_operator_{name}": value for name, value in vars(operator).items()},
}


class Program(NamedTuple):
    """What computes CPU tensors (of so many elements together, of one `dtype`) from integers:
    `source` is a method that fx has generated, as JSON: Inductor writes the arguments of operators
    into comments, a line each.
    """

    source: str
    elements: int
    dtype: torch.dtype


_Key = tuple[str, tuple[int, ...], torch.device]


class SizeValues:
    """What is computed from sizes alone. kept: every tensor that FROM_SIZES may return again."""

    def __init__(self) -> None:
        self.kept: dict[_Key, torch.Tensor] = {}
        self._nbytes = 0
        self._functions: dict[str, Callable[..., tuple[torch.Tensor, ...]]] = {}
        self._seen: set[_Key] = set()

    def compute(self, source: str, sizes: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """What a program computes from these sizes, on the CPU."""
        if source not in self._functions:
            names = dict(_NAMES)
            exec(json.loads(source), names)
            self._functions[source] = names["forward"]
        with torch.inference_mode(False), torch.no_grad():
            return self._functions[source](None, *sizes)

    def has_room(self, made: torch.Tensor) -> bool:
        """Whether one more tensor may be kept."""
        return len(self.kept) < _MOST_KEPT and self._nbytes + made.nbytes <= _MOST_BYTES

    def keep(self, key: _Key, made: torch.Tensor) -> torch.Tensor:
        """The tensor that is kept: another thread may have been faster, and a graph may hold the
        address of its one.
        """
        found = self.kept.setdefault(key, made)
        self._nbytes += made.nbytes if found is made else 0
        return found

    def came_up_before(self, key: _Key) -> bool:
        """Whether these sizes are not ever new ones: a program whose sizes never come again is not
        to wait for the GPU. The last few thousand are remembered.
        """
        if key in self._seen:
            return True
        if len(self._seen) >= _MOST_KEPT:
            self._seen.clear()
        self._seen.add(key)
        return False


SIZE_VALUES = Shared(SizeValues)


def kept() -> list[torch.Tensor]:
    """Every tensor that FROM_SIZES may return again."""
    return list(SIZE_VALUES().kept.values())


def _to_gpu(values: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    flat = torch.cat([value.reshape(-1) for value in values])
    return flat.to(device, non_blocking=True)


def _fake_to_gpu(values: Sequence[torch.Tensor], device: torch.device) -> torch.Tensor:
    count = sum(value.numel() for value in values)
    return values[0].new_empty((count,), device=device)


def _stay(value: torch.Tensor) -> torch.Tensor:
    return value.view_as(value)


def _from_sizes(
    sizes: Sequence[int], source: str, elements: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    key = (source, tuple(sizes), device)
    values = SIZE_VALUES()
    found = values.kept.get(key)
    if found is not None:
        return found
    # Kept, so of no use if it were an inference tensor.
    with torch.inference_mode(False), torch.no_grad():
        made = torch.cat([value.reshape(-1) for value in values.compute(source, sizes)])
        capturing = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if capturing and made.numel() <= _MOST_FILLS:
            # No memory of the CPU's is read, and the caller's graph owns what it writes to.
            ones = [torch.full((1,), v, dtype=made.dtype, device=device) for v in made.tolist()]
            return torch.cat(ones)
        new = sizes and not values.came_up_before(key)
        if capturing or new or not values.has_room(made) or _waits_are_told(device):
            # During a capture torch refuses the other copy.
            return made.to(device, non_blocking=True, copy=True)
        moved = made.to(device, copy=True)  # waits: any stream may read it from now on
    return values.keep(key, moved)


def _waits_are_told(device: torch.device) -> bool:
    """Whether the program is told of each wait for the GPU, or forbids them."""
    return device.type == "cuda" and torch.cuda.get_sync_debug_mode() != 0


def _fake_from_sizes(
    sizes: Sequence[int], source: str, elements: int, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    return torch.empty((elements,), dtype=dtype, device=device)


def _number(value: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.scalar_tensor(value, dtype=dtype, device="cpu")


_LIBRARY.impl("to_gpu", _to_gpu, "CPU")
_LIBRARY.impl("from_sizes", _from_sizes, "CompositeExplicitAutograd")
_LIBRARY.impl("number", _number, "CompositeExplicitAutograd")
_LIBRARY.impl("stay", _stay, "CPU")
torch.library.register_fake("pygraph_3::to_gpu", _fake_to_gpu, lib=_LIBRARY)
torch.library.register_fake("pygraph_3::stay", _stay, lib=_LIBRARY)
torch.library.register_fake("pygraph_3::from_sizes", _fake_from_sizes, lib=_LIBRARY)
torch.library.register_fake("pygraph_3::number", _number, lib=_LIBRARY)
