"""Runs code before and after a rewrite, and compares all that a caller can see.

Values (bit for bit, nan equal to nan), dtypes, shapes, devices, gradients, exceptions, which
outputs are which inputs, what happened to the inputs, the random stream, and under Dynamo the
number of graph breaks.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_flatten, tree_map

_counter = itertools.count()


def module_of(text: str) -> types.ModuleType:
    """Source run as a module, kept so that Dynamo can find its lines."""
    name = f"rewritten_{next(_counter)}"
    module = types.ModuleType(name)
    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    sys.modules[name] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


@dataclass
class Seen:
    """What one run showed. ``outputs`` are detached copies; ``aliases`` pairs of (output, input)
    that share memory.
    """

    error: type[BaseException] | None = None
    outputs: list[Any] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    aliases: list[tuple[int, int]] = field(default_factory=list)
    random_state: torch.Tensor | None = None


def run(function: Callable[..., Any], arguments: tuple[Any, ...], seed: int = 0) -> Seen:
    """Call a function on copies of the arguments and look at everything."""
    mine = tree_map(_copied, arguments)
    torch.manual_seed(seed)
    seen = Seen()
    try:
        result = function(*mine)
    except Exception as error:
        seen.error = type(error)
        return seen
    seen.random_state = torch.get_rng_state()
    outputs, _ = tree_flatten(result)
    inputs, _ = tree_flatten(mine)
    tensors = [item for item in inputs if isinstance(item, torch.Tensor)]
    seen.aliases = [
        (row, column)
        for row, output in enumerate(outputs)
        for column, given in enumerate(tensors)
        if isinstance(output, torch.Tensor) and _share(output, given)
    ]
    leaves = [item for item in tensors if item.is_leaf and item.requires_grad]
    wanted = [item for item in outputs if isinstance(item, torch.Tensor) and item.requires_grad]
    if leaves and wanted:
        weights = [torch.ones_like(item) for item in wanted]
        try:
            found = torch.autograd.grad(wanted, leaves, weights, allow_unused=True)
        except RuntimeError as error:  # what was saved for it is overwritten
            seen.error = type(error)
            return seen
        seen.gradients = list(found)
    seen.outputs = [_copied(item) for item in outputs]
    seen.inputs = [_copied(item) for item in inputs]
    return seen


def _copied(item: Any) -> Any:
    """A copy with the same strides, that is a leaf if the original asks for gradients."""
    if not isinstance(item, torch.Tensor):
        return copy.deepcopy(item)
    if 0 in item.stride():  # expanded: its elements share memory
        return item.detach().clone().requires_grad_(item.requires_grad)
    strided = torch.empty_strided(item.shape, item.stride(), dtype=item.dtype, device=item.device)
    result = strided.copy_(item.detach())
    return result.requires_grad_(item.requires_grad)


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.device != other.device or one.device.type == "meta":
        return one is other
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0


def _kind(error: type[BaseException] | None) -> object:
    """What is compared of an error: a class that the program itself defines is there twice."""
    own = error is not None and error.__module__.startswith("rewritten_")
    return error.__qualname__ if error is not None and own else error


def assert_same(before: Seen, after: Seen, strides: bool = True) -> None:
    """Assert that two runs showed the same; ``strides``: also how results lie in memory."""
    assert _kind(after.error) == _kind(before.error), (before.error, after.error)
    if before.error is not None:
        return
    _assert_items(before.outputs, after.outputs, strides)
    _assert_items(before.inputs, after.inputs)
    _assert_items(before.gradients, after.gradients)
    assert after.aliases == before.aliases, (before.aliases, after.aliases)
    assert before.random_state is not None and after.random_state is not None
    assert torch.equal(before.random_state, after.random_state)


def _assert_items(before: list[Any], after: list[Any], strides: bool = True) -> None:
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        if not isinstance(old, torch.Tensor):
            same = np.array_equal(old, new) if isinstance(old, np.ndarray) else old == new
            assert type(old) is type(new) and (same or old != old), (old, new)
            continue
        assert isinstance(new, torch.Tensor)
        assert (old.dtype, old.shape, old.device) == (new.dtype, new.shape, new.device)
        assert not strides or old.stride() == new.stride(), (old.stride(), new.stride())
        assert old.requires_grad == new.requires_grad
        if old.device.type != "meta":
            assert torch.equal(torch.isnan(old), torch.isnan(new)), (old, new)
            assert torch.equal(old[~torch.isnan(old)], new[~torch.isnan(new)]), (old, new)
            assert torch.equal(_signs(old), _signs(new)), (old, new)


def _signs(item: torch.Tensor) -> torch.Tensor:
    if not item.is_floating_point():
        return torch.zeros(())
    return torch.signbit(item) & ~torch.isnan(item)


def breaks(function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """How many graph breaks Dynamo makes in a function, on the CPU, with the eager backend."""
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(function, backend="eager")
    compiled(*tree_map(_copied, arguments))
    return sum(counters["graph_break"].values()) + sum(counters["unimplemented"].values())


def graphs(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[list[str]]:
    """What each graph that Dynamo makes of a function calls."""
    found: list[list[str]] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
        found.append([str(node.target) for node in calls])
        return graph.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*tree_map(_copied, arguments))
    return found


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function under Dynamo with the eager backend, from a clean start."""
    torch._dynamo.reset()
    return torch.compile(function, backend="eager")


def assert_near(old: Seen, new: Seen) -> None:
    """The same up to rounding, gradients included."""
    assert (old.error, new.error) == (None, None)
    for name in ("outputs", "inputs", "gradients"):
        pairs = zip(getattr(old, name), getattr(new, name), strict=True)
        for one, two in pairs:
            torch.testing.assert_close(one, two, equal_nan=True)
