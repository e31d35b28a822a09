"""Which CPU values cross to a GPU operator, which of them may, and what is copied for each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from pygraph_rt.host_values.from_sizes import attribute, is_held, sizes_of
from pygraph_rt.host_values.ops import DTYPES, TO_GPU

aten, prims = torch.ops.aten, torch.ops.prims

LARGEST = 64 * 1024
"""Bytes of a value up to which it is copied on each call. The driver takes up to 64 KiB of pageable
memory into buffers of its own without waiting for the GPU.
"""

VIEWS = frozenset(
    {
        aten.alias.default,
        aten.clone.default,
        aten.detach.default,
        aten.expand.default,
        aten.permute.default,
        aten.reshape.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""Operators that rearrange elements, and depend on nothing but their order."""

CONSTANTS = frozenset(
    {aten.full.default, aten.ones.default, aten.scalar_tensor.default, aten.zeros.default}
)
"""Constructors whose elements are the same bits on every device."""

TAKES_TENSORS = frozenset(
    {
        prims.device_put.default,
        aten.copy.default,
        aten.copy_.default,
        aten.index.Tensor,
        aten.index_put.default,
        aten._unsafe_index.Tensor,
        aten._unsafe_index_put.default,
        aten.select_scatter.default,
        aten.slice_scatter.default,
    }
)
"""GPU operators that take CPU tensors of any shape, and give the same from GPU tensors."""

TAKES_SCALARS = frozenset(
    {aten._foreach_add.Tensor, aten._foreach_div.Tensor, aten._foreach_mul.Tensor}
)
"""GPU operators that take a CPU scalar, beside those that are tagged as pointwise."""


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True)
class Note:
    """Something that was left as it is: why, the user's line, and the linter's rule for it."""

    text: str
    source: str
    rule: str

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.text}{where}; see {self.rule}"


@dataclass(frozen=True)
class Crossing:
    """A CPU value that a GPU operator reads. root: what is copied for it, itself or the tensor that
    it is a view of. alone: its copy owns its memory, because it is returned.
    """

    user: fx.Node
    value: fx.Node
    root: fx.Node
    device: torch.device
    alone: bool


def tensor_of(node: fx.Node) -> torch.Tensor | None:
    """The tensor that a node stands for, as metadata; None for anything else."""
    value = node.meta.get("val")
    if value is None and node.op == "get_attr":
        value = attribute(node)
    return value if isinstance(value, torch.Tensor) else None


def value_of(node: fx.Node) -> Any:
    """The tensor or the number that a node stands for, as metadata."""
    found = tensor_of(node)
    return node.meta.get("val") if found is None else found


def devices_of(node: fx.Node) -> set[torch.device]:
    value = node.meta.get("val")
    items = value if isinstance(value, (tuple, list)) else (value,)
    return {item.device for item in items if isinstance(item, torch.Tensor)}


def is_on_cpu(node: fx.Node) -> bool:
    value = tensor_of(node)
    return value is not None and value.device.type == "cpu"


def _small(node: fx.Node) -> bool:
    """Whether a value may be copied on each call."""
    value = tensor_of(node)
    return (
        value is not None
        and value.layout is torch.strided
        and value.dtype in DTYPES
        and all(isinstance(n, int) for n in value.shape)
        and bytes_of(value) <= LARGEST
    )


def bytes_of(value: torch.Tensor) -> int:
    return value.numel() * value.element_size()


def is_constant(node: fx.Node) -> bool:
    """Whether a value is the same on each call, so that the GPU can have it without a copy."""
    if is_held(node):
        return True
    return node.target in CONSTANTS and not node.all_input_nodes


def frames_of(node: fx.Node) -> list[tuple[str, str, str]]:
    """(file, line, function) of the calls that a node comes from, the innermost last."""
    found: list[tuple[str, str, str]] = _FRAME.findall(node.meta.get("stack_trace") or "")
    return found


def _source(node: fx.Node) -> str:
    """The user's line that a node comes from: "function at file:line", or nothing."""
    found = frames_of(node)
    return f"{found[-1][2]} at {found[-1][0]}:{found[-1][1]}" if found else ""


def unsafe_mutation(graph: fx.Graph) -> Note | None:
    """The reason to leave a graph alone: it writes to a CPU tensor, other than at its end."""
    written: set[fx.Node] = set()
    for node in graph.nodes:
        stale = written.intersection(node.all_input_nodes) if node.op != "output" else set()
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            if node.target is aten.copy_.default and node.args[0].op == "placeholder":
                written.add(node.args[0])
            else:
                stale = {n for n in node.all_input_nodes if is_on_cpu(n)}
        if any(is_on_cpu(n) for n in stale):
            text = f"`{node.target}` uses a CPU tensor that the graph writes to in place"
            return Note(text, _source(node), "PG105")
    return None


def find_crossings(graph: fx.Graph) -> tuple[list[Crossing], list[Note]]:
    """Every CPU value that a GPU operator reads, and what is said of those that must stay."""
    reads = [
        (user, value, device)
        for user in graph.nodes
        for device in devices_of(user)
        if device.type == "cuda"
        and isinstance(user.target, torch._ops.OpOverload)
        and user.target is not TO_GPU
        for value in user.all_input_nodes
        if is_on_cpu(value)
    ]
    shared = Counter(base for value in {v for _, v, _ in reads} for base in _bases(value))
    crossings, notes = [], []
    for user, value, device in reads:
        if "attention" in str(user.target):
            continue  # It takes the seed of its random numbers from the CPU.
        copied = user.target is prims.device_put.default
        if copied and is_held(value):
            continue  # Inductor makes that copy once, when it compiles.
        alone = copied and is_returned(user)
        root = value if alone else _root(value, shared)
        reason = _refusal(user, value, root)
        if reason is None:
            crossings.append(Crossing(user, value, root, device, alone))
        else:
            notes.append(Note(reason, _source(user), "PG106" if copied else "PG105"))
    return crossings, notes


def _bases(value: fx.Node) -> Iterator[fx.Node]:
    """A value, the tensor that it is a view of, and so on."""
    yield value
    while _is_rounded_float(value) or (
        value.target in VIEWS and value.all_input_nodes == [value.args[0]]
    ):
        value = value.all_input_nodes[0]
        yield value


def _is_rounded_float(value: fx.Node) -> bool:
    """Whether a value is a double among the inputs, rounded to a float, which is the same on every
    device. With dynamic shapes, torch makes inputs of Python floats.
    """
    if value.target is not prims.convert_element_type.default:
        return False
    source, found = value.all_input_nodes[0], tensor_of(value)
    whole = tensor_of(source)
    return (
        source.op == "placeholder"
        and whole is not None
        and found is not None
        and (whole.dim(), whole.dtype, found.dtype) == (0, torch.float64, torch.float32)
    )


def _root(value: fx.Node, shared: Counter[fx.Node]) -> fx.Node:
    """What to copy for a value: the first of its bases if that serves several, or is no larger."""
    *_, base = _bases(value)
    whole, part = tensor_of(base), tensor_of(value)
    if whole is None or part is None or not _small(base):
        return value
    if (
        is_constant(base)
        or shared[base] > 1
        or not whole.dim()
        or bytes_of(whole) <= bytes_of(part)
    ):
        return base
    return value


def _refusal(user: fx.Node, value: fx.Node, root: fx.Node) -> str | None:
    """Why a CPU value can't be given to an operator as a GPU tensor."""
    target, found = user.target, tensor_of(value)
    assert isinstance(target, torch._ops.OpOverload)
    assert found is not None
    scalars = target in TAKES_SCALARS or torch.Tag.pointwise in target.tags
    if root.op == "get_attr":
        return f"`{target}` reads a CPU tensor that was compiled in"
    if not (found.dim() == 0 and scalars) and target not in TAKES_TENSORS:
        return f"`{target}` reads a CPU tensor of shape {tuple(found.shape)}"
    if found.dtype is torch.bool and value in _indices(user):
        return f"`{target}` is indexed with a mask on the CPU"
    result = tensor_of(user)
    if target is prims.device_put.default and (result is None or not result.is_contiguous()):
        return f"`{target}` copies a CPU tensor that is not contiguous"
    if not _small(root):
        return (
            f"`{target}` copies a CPU tensor of shape {tuple(found.shape)} and {found.dtype} on "
            f"each call, which is not small and of fixed size"
        )
    return None


def _indices(user: fx.Node) -> list[fx.Node]:
    """What an operator such as `index` is indexed with."""
    given = user.args[1] if len(user.args) > 1 else ()
    return [n for n in given if isinstance(n, fx.Node)] if isinstance(given, (list, tuple)) else []


def depends_on_sizes(root: fx.Node) -> bool:
    """Whether a value is the same whenever sizes are."""
    return _small(root) and not is_constant(root) and sizes_of(root) is not None


def is_returned(node: fx.Node) -> bool:
    """Whether a tensor, or a view of it, leaves the graph."""
    return any(
        user.op == "output" or (user.target in VIEWS and is_returned(user)) for user in node.users
    )


def host_only(graph: fx.Graph) -> set[fx.Node]:
    """Nodes that can be computed before any GPU operator: CPU tensors and sizes made from inputs
    and constants alone, without random numbers and without reading values.
    """
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            found.add(node)
        elif node.op != "call_function" or not found.issuperset(node.all_input_nodes):
            continue
        elif isinstance(node.target, torch._ops.OpOverload):
            inputs = (device for n in node.all_input_nodes for device in devices_of(n))
            plain = not node.target._schema.is_mutable and node.target is not TO_GPU
            fixed = torch.Tag.nondeterministic_seeded not in node.target.tags
            if plain and fixed and is_on_cpu(node) and all(d.type == "cpu" for d in inputs):
                found.add(node)
    return found
