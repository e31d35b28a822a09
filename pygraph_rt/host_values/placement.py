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

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses import fake_tensor

from pygraph_rt.host_values.crossings import (
    VIEWS,
    Crossing,
    Note,
    bytes_of,
    depends_on_sizes,
    devices_of,
    find_crossings,
    host_only,
    is_constant,
    is_on_cpu,
    is_returned,
    tensor_of,
    unsafe_mutation,
    value_of,
)
from pygraph_rt.host_values.from_sizes import is_held, number, program, sizes_of
from pygraph_rt.host_values.ops import FROM_SIZES, NUMBER, STAY, TO_GPU

aten, prims = torch.ops.aten, torch.ops.prims


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


def place(graph: fx.Graph) -> Placement:
    """Rewrite a functional ATen graph, in place, so that GPU operators read no CPU tensor.

    What can't be moved is left alone and named in the notes. Running it again changes nothing.
    """
    if not any(device.type == "cuda" for node in graph.nodes for device in devices_of(node)):
        return Placement()
    unsafe = unsafe_mutation(graph)
    if unsafe is not None:
        return Placement(notes=(unsafe,))
    crossings, notes = find_crossings(graph)
    rewriter = _Rewriter(graph)
    once = {c for c in crossings if not c.alone and depends_on_sizes(c.root)}
    rewriter.compute_once([c for c in crossings if c in once])
    ahead = host_only(graph)
    others = [c for c in crossings if c.root in ahead and not is_constant(c.root)]
    rewriter.copy_ahead([c for c in others if c not in once])
    for crossing in crossings:
        rewriter.connect(crossing)
    _erase_unused(graph, {*_return_numbers(graph), *(c.value for c in crossings)})
    _pin(graph)
    return Placement(
        rewriter.values, rewriter.nbytes, rewriter.copies, rewriter.constants, tuple(notes)
    )


class _Rewriter:
    """Inserts copies and lets GPU operators read them.

    made: the GPU's version of a CPU value, by value and device, or by the operator it is for.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.made: dict[fx.Node | tuple[fx.Node, torch.device], fx.Node] = {}
        self.values = self.nbytes = self.copies = self.constants = 0

    def compute_once(self, crossings: list[Crossing]) -> None:
        """Let the GPU read what is computed once for the same sizes, as soon as these are known."""
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        inputs = [node for node in order if node.op == "placeholder"]
        groups: dict[Any, dict[fx.Node, None]] = {}
        for c in crossings:
            made, sizes = tensor_of(c.root), sizes_of(c.root)
            assert made is not None
            assert sizes is not None
            known = max((*sizes, *inputs[-1:]), key=order.__getitem__, default=None)
            groups.setdefault((known, c.device, made.dtype), {})[c.root] = None
        for (known, device, _), roots in groups.items():
            if known is None:  # of a graph without inputs, where nothing comes ahead
                continue
            found, sizes = program(list(roots))
            taken = (sizes, *found, device)
            flat = self._insert(known, FROM_SIZES, taken, next(iter(roots)))
            self._split(flat, list(roots), device, None, flat)
            self.constants += len(roots)

    def copy_ahead(self, crossings: list[Crossing]) -> None:
        """Copy everything that does not depend on the GPU at the top, together where possible."""
        groups: dict[Any, list[fx.Node]] = {}
        if not crossings or not any(node.op == "placeholder" for node in self.graph.nodes):
            return
        for c in crossings:
            found = tensor_of(c.root)
            assert found is not None
            key = (c.device, c.user if c.alone else found.dtype)
            group = groups.setdefault(key, [])
            if c.root not in group:
                group.append(c.root)
        after = self._hoist([root for group in groups.values() for root in group])
        for (device, kind), roots in groups.items():
            owner = kind if isinstance(kind, fx.Node) else None
            after = self._copy(roots, device, owner, after)

    def connect(self, crossing: Crossing) -> None:
        """Let an operator read the GPU's version of a value."""
        user, device = crossing.user, crossing.device
        if crossing.alone and user not in self.made:
            if is_constant(crossing.root):
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
        self.nbytes += sum(
            bytes_of(found) for root in roots if (found := tensor_of(root)) is not None
        )
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
            found = tensor_of(root)
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
        elif is_constant(value):
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
        node.meta["val"] = _evaluate(node, tensor_of(like))
        return node


def _evaluate(node: fx.Node, like: torch.Tensor | None) -> Any:
    """The metadata of a node, from that of its inputs, in the same mode as `like`."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), value_of)
    mode = torch._guards.detect_fake_mode((args, kwargs, like)) or fake_tensor.FakeTensorMode()
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
        views = [user for user in node.users if user.target in VIEWS and is_returned(user)]
        value = None if views or not is_on_cpu(node) else number(node)
        if value is not None:
            with graph.inserting_before(output):
                made = graph.call_function(NUMBER, (value, node.meta["val"].dtype))
            made.meta = dict(node.meta)
            output.replace_input_with(node, made)
            found.append(node)
    return found


def _is_constructor(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and bool(
        fake_tensor._is_tensor_constructor(node.target)  # type: ignore[attr-defined]
    )


def _pin(graph: fx.Graph) -> None:
    """Keep what Inductor would move to the GPU, CPU scalars and constructors, on the CPU."""
    nodes = [node for node in graph.nodes if is_on_cpu(node)]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    for node in nodes:
        value = tensor_of(node)
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
