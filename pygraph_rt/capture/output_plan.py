"""Which memory a partition returns: learnt from an ordinary call, rebuilt on every served one.

The generated code takes the memory of its buffers from one function of its module. Running the
same code object over a copy of the module's namespace, with that function replaced, tells which
allocation became which output, and lets a capture put exactly these allocations where the runtime
wants them. Library calls that return memory of their own are found too: what they return is
copied into an output inside the graph, or stays where it is (see memory/library_outputs.py).
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.capture.placeholders import extent
from pygraph_rt.errors import Unprovable
from pygraph_rt.host_values import ops
from pygraph_rt.inductor.runner_inlining import Inlined

ALLOCATE = "empty_strided_cuda"

# What a small output holds: the seed or the offset that an attention drew with, for its backward,
# or nothing that was ever written.
Scalar = Literal["seed", "offset", "nothing"]
Sizes = tuple[int, ...]
Allocate = Callable[[Sizes, Sizes, torch.dtype], torch.Tensor]


@dataclass(frozen=True)
class Storage:
    """Memory behind one or more outputs. `allocation` is the ordinal of the allocation in the
    generated code, or None for memory that a library call returned; sizes and strides in
    elements.
    """

    size: Sizes
    stride: Sizes
    dtype: torch.dtype
    nbytes: int
    allocation: int | None


@dataclass(frozen=True)
class Fresh:
    """An output in new memory: a view of storage number `storage`, or all of it when `whole`."""

    storage: int
    size: Sizes
    stride: Sizes
    offset: int
    whole: bool


@dataclass(frozen=True)
class OfInput:
    """An output: input `index`, or (not `same`) a view of it `offset` elements further on."""

    index: int
    same: bool
    size: Sizes
    stride: Sizes
    offset: int


@dataclass(frozen=True)
class Fixed:
    """An output that is the same object on every call: None, a number, a constant of the module."""

    value: Any


@dataclass(frozen=True)
class Drawn:
    """An output: the seed that a call drew with, or the offset, `addend` past the generator's, as a
    CPU scalar.
    """

    seed: bool
    addend: int


@dataclass(frozen=True)
class Undefined:
    """An output that nothing fills or reads; `value` stands in for it."""

    value: torch.Tensor


Output = Fresh | OfInput | Fixed | Drawn | Undefined


class Draws(NamedTuple):
    """The default generator around an observed call: by how much the call moved it on, and what
    its offset was before.
    """

    increment: int = 0
    offset: int = 0


@dataclass(frozen=True)
class OutputPlan:
    """How to make a partition's outputs, in order."""

    storages: tuple[Storage, ...]
    outputs: tuple[Output, ...]
    allocations: int


def with_allocator(function: Callable[..., Any], allocate: Allocate) -> Callable[..., Any]:
    """The same code over a copy of its module's namespace in which buffers come from `allocate`."""
    if isinstance(function, Inlined):
        return function.over(with_allocator(function.generated, allocate))
    if not isinstance(function, types.FunctionType):
        raise Unprovable(
            "its generated code is not a Python function (cpp_wrapper?); switch that option off to "
            "use graphs"
        )
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, ALLOCATE: allocate},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def allocator_of(function: Callable[..., Any]) -> Allocate:
    """The allocation function of a partition's generated module."""
    found: Allocate | None = getattr(function, "__globals__", {}).get(ALLOCATE)
    if found is None:
        raise Unprovable(
            f"its generated module has no {ALLOCATE}; this version of Inductor is not known to "
            "pygraph"
        )
    return found


def constants_of(function: Callable[..., Any]) -> list[torch.Tensor]:
    """GPU tensors that the generated module holds itself, or that are kept for it."""
    values = getattr(function, "__globals__", {}).values()
    held = [v for v in values if isinstance(v, torch.Tensor) and v.is_cuda and v.numel()]
    return [*held, *ops.kept()]


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a live tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


class AllocationTrace:
    """Passes allocations on and notes which storage each one made."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self.requests: list[tuple[Sizes, Sizes, torch.dtype]] = []
        self._owner: dict[int, int] = {}
        self._storages: list[StorageWeakRef] = []

    def __call__(self, size: Sizes, stride: Sizes, dtype: torch.dtype) -> torch.Tensor:
        tensor = self._allocate(size, stride, dtype)
        # Held weakly, a dead storage's identity is not given to memory of a library call.
        self._storages.append(StorageWeakRef(tensor.untyped_storage()))  # type: ignore[no-untyped-call]
        self._owner[storage_id(tensor)] = len(self.requests)
        self.requests.append((tuple(size), tuple(stride), dtype))
        return tensor

    def ordinal(self, tensor: torch.Tensor) -> int | None:
        """Which allocation a live tensor's storage came from."""
        return self._owner.get(storage_id(tensor))


class PlacedAllocator:
    """Serves chosen allocations with given tensors, the rest from the ordinary function."""

    def __init__(
        self,
        allocate: Allocate,
        requests: Sequence[tuple[Sizes, Sizes, torch.dtype]],
        placed: dict[int, torch.Tensor],
    ) -> None:
        self._allocate = allocate
        self._requests = requests
        self._placed = placed
        self.count = 0

    def __call__(self, size: Sizes, stride: Sizes, dtype: torch.dtype) -> torch.Tensor:
        n = self.count
        self.count += 1
        if n >= len(self._requests) or self._requests[n] != (tuple(size), tuple(stride), dtype):
            raise Unprovable(
                "it allocates other memory than on the call before; code that depends on data "
                "cannot be replayed"
            )
        placed = self._placed.get(n)
        return self._allocate(size, stride, dtype) if placed is None else placed


class Given:
    """A tensor that a call was given, known without being held: the call may free it on its way, as
    a backward does with what was saved. All of it is from before the call.

    `dtype` and `offset` (elements) are the tensor's; `span` are the addresses of its first byte and
    past its last one; `storage` is its storage's identity, which no other storage gets while this
    object lives.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.offset = int(tensor.storage_offset())
        self.span = _span(tensor)
        self.storage = storage_id(tensor)
        self._storage = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._tensor = weakref.ref(tensor)

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.span[0]

    def same(self, tensor: torch.Tensor) -> bool:
        """Whether it is this very tensor."""
        return self._tensor() is tensor


def given(args: Sequence[Any]) -> dict[int, Given]:
    """What is to be known of a call's tensors, by position, before it is made."""
    return {i: Given(value) for i, value in enumerate(args) if isinstance(value, torch.Tensor)}


def _of_input(
    tensor: torch.Tensor, inputs: Mapping[int, Given], donated: Collection[int]
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
            "or the view has "
            "another dtype); clone that input or output to use a graph"
        )
    return OfInput(
        sharing[0],
        False,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        int(tensor.storage_offset()) - inputs[sharing[0]].offset,
    )


def _inside(view: torch.Tensor, source: Given) -> bool:
    (a, b), (c, d) = _span(view), source.span
    return c <= a and b <= d


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + extent(tensor.shape, tensor.stride(), tensor.element_size())


def learn_outputs(
    results: Sequence[Any],
    inputs: Mapping[int, Given],
    constants: Sequence[torch.Tensor],
    trace: AllocationTrace,
    scalars: Mapping[int, Scalar],
    drawn: Draws,
    donated: Collection[int] = (),
    device_type: str = "cuda",
) -> OutputPlan:
    """The output plan of one ordinary call. `inputs` are the tensors it was given (see `given`);
    `scalars` are outputs that may be CPU scalars, and what they hold; `drawn` is what the call
    drew; `donated` are inputs whose memory it may use for something else.

    Raises Unprovable for outputs that cannot be rebuilt: CPU tensors, sparse tensors, unknown
    objects.
    """
    storages: list[Storage] = []
    index: dict[int, int] = {}
    outputs: list[Output] = []
    for i, value in enumerate(results):
        if value is None or isinstance(value, (int, float, bool)):
            outputs.append(Fixed(value))
            continue
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            raise Unprovable(f"it returns a {type(value).__name__} that is no dense tensor")
        if scalars.get(i) == "nothing":
            outputs.append(Undefined(torch.zeros_like(value)))
            continue
        if i in scalars and value.device.type == "cpu":
            seed = scalars[i] == "seed"
            outputs.append(Drawn(seed, 0 if seed else int(value) - drawn.offset))
            continue
        if value.device.type != device_type:
            raise Unprovable(
                "it returns a CPU tensor; return it outside of the compiled region, or move it to "
                "the GPU"
            )
        alias = _of_input(value, inputs, donated)
        if alias is not None:
            outputs.append(alias)
            continue
        if any(storage_id(value) == storage_id(c) for c in constants):
            outputs.append(Fixed(value))
            continue
        key = storage_id(value)
        if key not in index:
            index[key] = len(storages)
            storages.append(_storage_of(value, trace))
        outputs.append(_fresh(value, index[key], storages[index[key]]))
    return OutputPlan(tuple(storages), tuple(outputs), len(trace.requests))


def direct(plan: OutputPlan) -> OutputPlan:
    """The same plan, where memory that is returned once, and in full, is asked for in the output's
    own shape, so that no view of it has to be made.
    """
    users = [o.storage for o in plan.outputs if isinstance(o, Fresh)]
    storages, outputs = list(plan.storages), list(plan.outputs)
    for i, output in enumerate(outputs):
        if not isinstance(output, Fresh) or output.offset or users.count(output.storage) > 1:
            continue
        storage = storages[output.storage]
        if extent(output.size, output.stride, storage.dtype.itemsize) == storage.nbytes:
            storages[output.storage] = replace(storage, size=output.size, stride=output.stride)
            outputs[i] = replace(output, whole=True)
    return OutputPlan(tuple(storages), tuple(outputs), plan.allocations)


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
