"""What an ordinary call shows: which memory a region returns, and how each output is made of it.

Library calls that return memory of their own are found too: what they return is copied into an
output inside the graph, or stays where it is (see memory/library_outputs.py).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.multiprocessing import reductions

from pygraph_rt.capture.generated import AllocationTrace, storage_id
from pygraph_rt.errors import Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.plan.memory_blocks import extent
from pygraph_rt.plan.outputs import (
    Drawn,
    Fixed,
    Fresh,
    Layout,
    OfInput,
    Output,
    OutputPlan,
    Scalar,
    Storage,
    Undefined,
)


class Draws(NamedTuple):
    """The default generator around an observed call: by how much the call moved it on, and what
    its offset was before.
    """

    increment: int = 0
    offset: int = 0


class Observed(NamedTuple):
    """What an ordinary call showed: how outputs are made, every allocation, what was drawn, and
    where its tensor arguments were.
    """

    plan: OutputPlan
    requests: Sequence[Layout]
    drawn: Draws
    addresses: Mapping[int, int]


class WeakInput:
    """A weak snapshot of an input tensor: the call may free it on its way, as a backward does with
    what was saved.

    `dtype` and `offset` (elements) are the tensor's; `span` are the addresses of its first byte and
    past its last one; `storage` is its storage's identity, which no other storage gets while this
    object lives.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.offset = int(tensor.storage_offset())
        self.span = _span(tensor)
        self.storage = storage_id(tensor)
        self._storage = reductions.StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._tensor = weakref.ref(tensor)

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.span[0]

    def same(self, tensor: torch.Tensor) -> bool:
        """Whether it is this very tensor."""
        return self._tensor() is tensor


def weak_inputs(args: Sequence[Any]) -> dict[int, WeakInput]:
    """Snapshots of a call's tensors, by position, to be taken before it is made."""
    return {i: WeakInput(value) for i, value in enumerate(args) if isinstance(value, torch.Tensor)}


def _of_input(
    tensor: torch.Tensor, inputs: Mapping[int, WeakInput], donated: Collection[int]
) -> OfInput | None:
    sharing = [i for i, value in inputs.items() if value.storage == storage_id(tensor)]
    if not sharing:
        return None
    for i in sharing:
        if inputs[i].same(tensor):
            return OfInput(i, True, (), (), 0)
    if len(sharing) > 1:  # of these, only memory that it was given is used for something else
        sharing = [i for i in sharing if i in donated and _inside(tensor, inputs[i])]
    if len(sharing) != 1 or inputs[sharing[0]].dtype != tensor.dtype:
        raise Unprovable(
            "it returns a view whose base cannot be told for certain (several inputs share memory, "
            "or the view has another dtype); clone that input or output to use a graph"
        )
    return OfInput(
        sharing[0],
        False,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        int(tensor.storage_offset()) - inputs[sharing[0]].offset,
    )


def _inside(view: torch.Tensor, source: WeakInput) -> bool:
    (a, b), (c, d) = _span(view), source.span
    return c <= a and b <= d


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + extent(tensor.shape, tensor.stride(), tensor.element_size())


@dataclass(eq=False)
class _Learner:
    """Turns the results of one ordinary call into outputs, one by one, and collects the `storages`
    behind them. `constants` are the storages of the module's.
    """

    inputs: Mapping[int, WeakInput]
    constants: Collection[int]
    trace: AllocationTrace
    donated: Collection[int]
    device_type: str
    index: dict[int, int] = field(default_factory=dict)
    storages: list[Storage] = field(default_factory=list)

    def output(self, value: Any, scalar: Scalar | None, drawn: Draws) -> Output:
        """How to make an output like `value`; `scalar` says what it may hold as a CPU scalar."""
        if value is None or isinstance(value, (int, float, bool)):
            return Fixed(value)
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise Unprovable(f"it returns a {type(value).__name__} that is no dense tensor")
        if scalar == "nothing":
            return Undefined(torch.zeros_like(value))
        if scalar is not None and value.device.type == "cpu":
            seed = scalar == "seed"
            return Drawn(seed, 0 if seed else int(value) - drawn.offset)
        if value.device.type != self.device_type:
            raise Unprovable(
                "it returns a CPU tensor; return it outside of the compiled region, or move it to "
                "the GPU"
            )
        return _of_input(value, self.inputs, self.donated) or self._own(value)

    def _own(self, value: torch.Tensor) -> Output:
        key = storage_id(value)
        if key in self.constants:
            return Fixed(value)
        if key not in self.index:
            self.index[key] = len(self.storages)
            self.storages.append(_storage_of(value, self.trace))
        return _fresh(value, self.index[key], self.storages[self.index[key]])


def learn_outputs(
    results: Sequence[Any],
    inputs: Mapping[int, WeakInput],
    constants: Sequence[torch.Tensor],
    trace: AllocationTrace,
    signature: Signature,
    drawn: Draws,
    device_type: str = "cuda",
) -> OutputPlan:
    """The output plan of one ordinary call. `inputs` are the tensors it was given (see
    `weak_inputs`); `drawn` is what the call drew.

    Raises Unprovable for outputs that cannot be rebuilt: CPU tensors, sparse tensors, unknown
    objects.
    """
    held = {storage_id(constant) for constant in constants}
    learner = _Learner(inputs, held, trace, signature.donated, device_type)
    scalars = signature.scalars
    outputs = [learner.output(value, scalars.get(i), drawn) for i, value in enumerate(results)]
    return OutputPlan(tuple(learner.storages), tuple(outputs))


def without_undefined(
    function: Callable[[list[Any]], Any], plan: OutputPlan
) -> Callable[[list[Any]], Any]:
    """`function` with stand-ins for undefined outputs, which differ from one call to the next."""
    undefined = {i: o.value for i, o in enumerate(plan.outputs) if isinstance(o, Undefined)}
    if not undefined:
        return function
    return lambda args: tuple(undefined.get(i, value) for i, value in enumerate(function(args)))


def _storage_of(tensor: torch.Tensor, trace: AllocationTrace) -> Storage:
    ordinal = trace.ordinal(tensor)
    nbytes = tensor.untyped_storage().nbytes()
    if ordinal is not None:
        size, stride, dtype = trace.requests[ordinal]
        return Storage(size, stride, dtype, nbytes, ordinal)
    elements = -(-nbytes // tensor.element_size())
    return Storage((elements,), (1,), tensor.dtype, nbytes, None)


def _fresh(tensor: torch.Tensor, number: int, storage: Storage) -> Fresh:
    if tensor.dtype != storage.dtype:
        raise Unprovable(
            "it returns memory under two dtypes; clone one of the views to use a graph"
        )
    size, stride = tuple(tensor.shape), tuple(tensor.stride())
    whole = (size, stride) == (storage.size, storage.stride) and tensor.storage_offset() == 0
    return Fresh(number, size, stride, int(tensor.storage_offset()), whole)
