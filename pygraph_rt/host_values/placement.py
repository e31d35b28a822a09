"""CPU values that GPU code reads: computed where eager computes them, copied over once a call.

Inductor hands a CPU scalar to a GPU kernel through `.item()`, which a graph would freeze, and moves
some CPU tensors to the GPU of its own accord, returned ones too. This pass, over the graph that
Inductor is about to compile, makes every crossing explicit instead:

- what does arithmetic stays on the CPU, where it rounds as in eager; only views, constants and what
  torch makes of Python floats are made on the GPU instead of being copied there;
- what depends on nothing but sizes is computed once for these sizes (from_sizes.py), and a number
  that is returned is made without generated code;
- all other values that cross and do not depend on the GPU cross together, from memory that nothing
  else writes to, in one copy a dtype that the CPU does not wait for;
- what eager leaves on the CPU stays there: `STAY` keeps Inductor from moving it.

It needs neither a GPU nor Inductor.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses import fake_tensor

from pygraph_rt.host_values.from_sizes import is_held, number, program, sizes_of
from pygraph_rt.host_values.ops import DTYPES, FROM_SIZES, NUMBER, STAY, TO_GPU

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
class Placement:
    """What the pass did. values, nbytes: copied to a GPU on each call, in `copies` copies.
    constants: made on a GPU instead, or computed once for the same sizes.
    """

    values: int = 0
    nbytes: int = 0
    copies: int = 0
    constants: int = 0
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class _Crossing:
    """A CPU value that a GPU operator reads. root: what is copied for it, itself or the tensor that
    it is a view of. alone: its copy owns its memory, because it is returned.
    """

    user: fx.Node
    value: fx.Node
    root: fx.Node
    device: torch.device
    alone: bool


def place(graph: fx.Graph) -> Placement:
    """Rewrite a functional ATen graph, in place, so that GPU operators read no CPU tensor.

    What can't be moved is left alone and named in the notes. Running it again changes nothing.
    """
    if not any(device.type == "cuda" for node in graph.nodes for device in _devices(node)):
        return Placement()
    unsafe = _unsafe_mutation(graph)
    if unsafe is not None:
        return Placement(notes=(unsafe,))
    crossings, notes = _find(graph)
    rewriter = _Rewriter(graph)
    once = {c for c in crossings if not c.alone and _depends_on_sizes(c.root)}
    rewriter.compute_once([c for c in crossings if c in once])
    ahead = host_only(graph)
    others = [c for c in crossings if c.root in ahead and not _is_constant(c.root)]
    rewriter.copy_ahead([c for c in others if c not in once])
    for crossing in crossings:
        rewriter.connect(crossing)
    _erase_unused(graph, {*_return_numbers(graph), *(c.value for c in crossings)})
    _pin(graph)
    return Placement(
        rewriter.values, rewriter.nbytes, rewriter.copies, rewriter.constants, tuple(notes)
    )


def _tensor(node: fx.Node) -> torch.Tensor | None:
    """The tensor that a node stands for, as metadata; None for anything else."""
    value = node.meta.get("val")
    if value is None and node.op == "get_attr" and isinstance(node.target, str):
        value = node.graph.owning_module
        for name in node.target.split("."):
            value = getattr(value, name, None)
    return value if isinstance(value, torch.Tensor) else None


def _known(node: fx.Node) -> Any:
    """The tensor or the number that a node stands for, as metadata."""
    found = _tensor(node)
    return node.meta.get("val") if found is None else found


def _devices(node: fx.Node) -> set[torch.device]:
    value = node.meta.get("val")
    items = value if isinstance(value, (tuple, list)) else (value,)
    return {item.device for item in items if isinstance(item, torch.Tensor)}


def _on_cpu(node: fx.Node) -> bool:
    value = _tensor(node)
    return value is not None and value.device.type == "cpu"


def _small(node: fx.Node) -> bool:
    """Whether a value may be copied on each call."""
    value = _tensor(node)
    return (
        value is not None
        and value.layout is torch.strided
        and value.dtype in DTYPES
        and all(isinstance(n, int) for n in value.shape)
        and _bytes(value) <= LARGEST
    )


def _bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size()


def _is_constant(node: fx.Node) -> bool:
    """Whether a value is the same on each call, so that the GPU can have it without a copy."""
    if is_held(node):
        return True
    return node.target in CONSTANTS and not node.all_input_nodes


def _source(node: fx.Node) -> str:
    """The user's line that a node comes from: "function at file:line", or nothing."""
    trace = node.meta.get("stack_trace") or ""
    found = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', trace)
    return f"{found[-1][2]} at {found[-1][0]}:{found[-1][1]}" if found else ""


def _unsafe_mutation(graph: fx.Graph) -> Note | None:
    """The reason to leave a graph alone: it writes to a CPU tensor, other than at its end."""
    written: set[fx.Node] = set()
    for node in graph.nodes:
        stale = written.intersection(node.all_input_nodes) if node.op != "output" else set()
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            if node.target is aten.copy_.default and node.args[0].op == "placeholder":
                written.add(node.args[0])
            else:
                stale = {n for n in node.all_input_nodes if _on_cpu(n)}
        if any(_on_cpu(n) for n in stale):
            text = f"`{node.target}` uses a CPU tensor that the graph writes to in place"
            return Note(text, _source(node), "PG105")
    return None


def _find(graph: fx.Graph) -> tuple[list[_Crossing], list[Note]]:
    """Every CPU value that a GPU operator reads, and what is said of those that must stay."""
    reads = [
        (user, value, device)
        for user in graph.nodes
        for device in _devices(user)
        if device.type == "cuda"
        and isinstance(user.target, OpOverload)
        and user.target is not TO_GPU
        for value in user.all_input_nodes
        if _on_cpu(value)
    ]
    shared = Counter(base for value in {v for _, v, _ in reads} for base in _bases(value))
    crossings, notes = [], []
    for user, value, device in reads:
        if "attention" in str(user.target):
            continue  # It takes the seed of its random numbers from the CPU.
        copied = user.target is prims.device_put.default
        if copied and is_held(value):
            continue  # Inductor makes that copy once, when it compiles.
        alone = copied and _is_returned(user)
        root = value if alone else _root(value, shared)
        reason = _refusal(user, value, root)
        if reason is None:
            crossings.append(_Crossing(user, value, root, device, alone))
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
    source, found = value.all_input_nodes[0], _tensor(value)
    whole = _tensor(source)
    return (
        source.op == "placeholder"
        and whole is not None
        and found is not None
        and (whole.dim(), whole.dtype, found.dtype) == (0, torch.float64, torch.float32)
    )


def _root(value: fx.Node, shared: Counter[fx.Node]) -> fx.Node:
    """What to copy for a value: the first of its bases if that serves several, or is no larger."""
    *_, base = _bases(value)
    whole, part = _tensor(base), _tensor(value)
    if whole is None or part is None or not _small(base):
        return value
    if _is_constant(base) or shared[base] > 1 or not whole.dim() or _bytes(whole) <= _bytes(part):
        return base
    return value


def _refusal(user: fx.Node, value: fx.Node, root: fx.Node) -> str | None:
    """Why a CPU value can't be given to an operator as a GPU tensor."""
    target, found = user.target, _tensor(value)
    assert isinstance(target, OpOverload)
    assert found is not None
    scalars = target in TAKES_SCALARS or torch.Tag.pointwise in target.tags
    if root.op == "get_attr":
        return f"`{target}` reads a CPU tensor that was compiled in"
    if not (found.dim() == 0 and scalars) and target not in TAKES_TENSORS:
        return f"`{target}` reads a CPU tensor of shape {tuple(found.shape)}"
    if found.dtype is torch.bool and value in _indices(user):
        return f"`{target}` is indexed with a mask on the CPU"
    result = _tensor(user)
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


def _depends_on_sizes(root: fx.Node) -> bool:
    """Whether a value is the same whenever sizes are."""
    return _small(root) and not _is_constant(root) and sizes_of(root) is not None


def _is_returned(node: fx.Node) -> bool:
    """Whether a tensor, or a view of it, leaves the graph."""
    return any(
        user.op == "output" or (user.target in VIEWS and _is_returned(user)) for user in node.users
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
        elif isinstance(node.target, OpOverload):
            inputs = (device for n in node.all_input_nodes for device in _devices(n))
            plain = not node.target._schema.is_mutable and node.target is not TO_GPU
            fixed = torch.Tag.nondeterministic_seeded not in node.target.tags
            if plain and fixed and _on_cpu(node) and all(d.type == "cpu" for d in inputs):
                found.add(node)
    return found


class _Rewriter:
    """Inserts copies and lets GPU operators read them.

    made: the GPU's version of a CPU value, by value and device, or by the operator it is for.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.made: dict[fx.Node | tuple[fx.Node, torch.device], fx.Node] = {}
        self.values = self.nbytes = self.copies = self.constants = 0

    def compute_once(self, crossings: list[_Crossing]) -> None:
        """Let the GPU read what is computed once for the same sizes, as soon as these are known."""
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        inputs = [node for node in order if node.op == "placeholder"]
        groups: dict[Any, dict[fx.Node, None]] = {}
        for c in crossings:
            found, sizes = _tensor(c.root), sizes_of(c.root)
            assert found is not None
            assert sizes is not None
            known = max((*sizes, *inputs[-1:]), key=order.__getitem__, default=None)
            groups.setdefault((known, c.device, found.dtype), {})[c.root] = None
        for (known, device, _), roots in groups.items():
            if known is None:  # of a graph without inputs, where nothing comes ahead
                continue
            name, sizes = program(list(roots))
            flat = self._insert(known, FROM_SIZES, (sizes, name, device), next(iter(roots)))
            self._split(flat, list(roots), device, None, flat)
            self.constants += len(roots)

    def copy_ahead(self, crossings: list[_Crossing]) -> None:
        """Copy everything that does not depend on the GPU at the top, together where possible."""
        groups: dict[Any, list[fx.Node]] = {}
        if not crossings or not any(node.op == "placeholder" for node in self.graph.nodes):
            return
        for c in crossings:
            found = _tensor(c.root)
            assert found is not None
            key = (c.device, c.user if c.alone else found.dtype)
            group = groups.setdefault(key, [])
            if c.root not in group:
                group.append(c.root)
        after = self._hoist([root for group in groups.values() for root in group])
        for (device, kind), roots in groups.items():
            owner = kind if isinstance(kind, fx.Node) else None
            after = self._copy(roots, device, owner, after)

    def connect(self, crossing: _Crossing) -> None:
        """Let an operator read the GPU's version of a value."""
        user, device = crossing.user, crossing.device
        if crossing.alone and user not in self.made:
            if _is_constant(crossing.root):
                self.made[user] = self._constant(crossing.root, device)
            else:
                self._copy([crossing.root], device, user, crossing.root)
        moved = self.made.get(user) or self._version(crossing.value, crossing.root, device)
        if user.target is not prims.device_put.default:
            user.replace_input_with(crossing.value, moved)
        else:
            user.replace_all_uses_with(moved)
            self.graph.erase_node(user)

    def _hoist(self, roots: list[fx.Node]) -> fx.Node:
        """Move what the roots are computed from to the top; returns the last node there."""
        needed: set[fx.Node] = set()
        while roots:
            node = roots.pop()
            if node not in needed:
                needed.add(node)
                roots += node.all_input_nodes
        nodes = list(self.graph.nodes)
        last: fx.Node = [node for node in nodes if node.op == "placeholder"][-1]
        for node in nodes:
            if node in needed and node.op != "placeholder":
                last.append(node)
                last = node
        return last

    def _copy(
        self, roots: list[fx.Node], device: torch.device, owner: fx.Node | None, after: fx.Node
    ) -> fx.Node:
        """One copy of several values, and a view of it for each; returns the last node."""
        flat = after = self._insert(after, TO_GPU, (list(roots), device), roots[0])
        self.nbytes += sum(_bytes(found) for root in roots if (found := _tensor(root)) is not None)
        self.copies += 1
        self.values += len(roots)
        return self._split(flat, roots, device, owner, after)

    def _split(
        self,
        flat: fx.Node,
        roots: list[fx.Node],
        device: torch.device,
        owner: fx.Node | None,
        after: fx.Node,
    ) -> fx.Node:
        """A view for each value of what has the elements of all; returns the last node."""
        start = 0
        for root in roots:
            found = _tensor(root)
            assert found is not None
            end = start + found.numel()
            if found.dim() == 0:
                after = self._insert(after, aten.select.int, (flat, 0, start), root)
            else:
                after = self._insert(after, aten.slice.Tensor, (flat, 0, start, end), root)
                shape = list(found.shape)
                after = self._insert(after, aten.reshape.default, (after, shape), root)
            self.made[owner or (root, device)] = after
            start = end
        return after

    def _version(self, value: fx.Node, root: fx.Node, device: torch.device) -> fx.Node:
        """The GPU's version of a value."""
        found = self.made.get((value, device))
        if found is not None:
            return found
        if value is not root:
            base = self._version(value.all_input_nodes[0], root, device)
            # What `view` asks of strides may not hold for a copy.
            target = aten.reshape.default if value.target is aten.view.default else value.target
            made = self._insert(base, target, (base, *value.args[1:]), value, value.kwargs)
        elif _is_constant(value):
            made = self._constant(value, device)
        else:
            self._copy([value], device, None, value)
            made = self.made[value, device]
        self.made[value, device] = made
        return made

    def _constant(self, value: fx.Node, device: torch.device) -> fx.Node:
        """The GPU's version of what is the same on each call."""
        self.constants += 1
        if is_held(value):
            # Inductor makes that copy once, when it compiles.
            return self._insert(value, prims.device_put.default, (value, device), value)
        kwargs = {k: v for k, v in value.kwargs.items() if k != "pin_memory"}
        return self._insert(value, value.target, value.args, value, {**kwargs, "device": device})

    def _insert(
        self, after: fx.Node, target: Any, args: Any, like: fx.Node, kwargs: Any = None
    ) -> fx.Node:
        with self.graph.inserting_after(after):
            node: fx.Node = self.graph.call_function(target, args, kwargs or {})
        if "stack_trace" in like.meta:
            node.meta["stack_trace"] = like.meta["stack_trace"]
        node.meta["val"] = _evaluate(node, _tensor(like))
        return node


def _evaluate(node: fx.Node, like: torch.Tensor | None) -> Any:
    """The metadata of a node, from that of its inputs, in the same mode as `like`."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), _known)
    mode = detect_fake_mode((args, kwargs, like)) or fake_tensor.FakeTensorMode()
    assert callable(node.target)
    with mode:
        return node.target(*args, **kwargs)


def _erase_unused(graph: fx.Graph, values: set[fx.Node]) -> None:
    """Erase CPU values that nobody reads any more, and what only they were computed from."""
    candidates = set(values)
    for node in reversed(graph.nodes):
        if node in candidates and not node.users and node.op != "placeholder":
            candidates.update(node.all_input_nodes)
            graph.erase_node(node)


def _return_numbers(graph: fx.Graph) -> list[fx.Node]:
    """Return CPU scalars that are always the same without code that computes them: before Inductor
    generates any for the CPU, it compiles programs that try it out. What was returned before.
    """
    (output,) = graph.find_nodes(op="output")
    found = []
    for node in output.all_input_nodes:
        if node.op != "call_function" or node.target in (STAY, NUMBER) or node.target in VIEWS:
            continue
        views = [user for user in node.users if user.target in VIEWS and _is_returned(user)]
        value = None if views or not _on_cpu(node) else number(node)
        if value is not None:
            with graph.inserting_before(output):
                made = graph.call_function(NUMBER, (value, node.meta["val"].dtype))
            made.meta = dict(node.meta)
            output.replace_input_with(node, made)
            found.append(node)
    return found


def _is_constructor(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and bool(
        fake_tensor._is_tensor_constructor(node.target)  # type: ignore[attr-defined]
    )


def _pin(graph: fx.Graph) -> None:
    """Keep what Inductor would move to the GPU, CPU scalars and constructors, on the CPU."""
    nodes = [node for node in graph.nodes if _on_cpu(node)]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node in nodes:
        value = _tensor(node)
        scalar = value is not None and value.dim() == 0
        if not _is_constructor(node) and not (node.op == "placeholder" and scalar):
            continue
        users = [
            user
            for user in node.users
            if user.target not in (STAY, TO_GPU)
            and not (user.target is aten.copy_.default and user.args[0] is node)
        ]
        if not users:
            continue
        with graph.inserting_after(inputs[-1] if node.op == "placeholder" else node):
            stay = graph.call_function(STAY, (node,))
        stay.meta["val"] = value
        for user in users:
            user.replace_input_with(node, stay)
