"""Why compiled code is cut where it is, with the user's line and the linter's rule.

Two cuts make regions smaller: Dynamo ends a graph (a graph break), and Inductor leaves operations
out of what can be captured (a split). Both know the operation and the line; a rule is named only
where the operation alone says which one it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from pygraph_rt.host_values.crossings import devices_of, frames_of
from pygraph_rt.host_values.ops import TO_GPU
from pygraph_rt.inductor.collectives import effectful, is_collective

_TORCH = f"{Path(torch.__file__).parent}{os.sep}"

# How Dynamo's reasons begin or what they mention, and the rule for it.
_BREAKS = (
    (r"Tensor\.item\(\)", "PG201"),
    (r"Tensor\.tolist|\.tolist\(\)", "PG203"),
    (r"generic_jump TensorVariable|[Dd]ata-dependent branching", "PG301"),
    (r"[Dd]ata-dependent assertion", "PG304"),
    (r"builtin operator `print`", "PG501"),
    (r"builtin operator `(float|int|bool)`", "PG202"),
    (r"logging\.Logger", "PG502"),
    (r"warnings\.warn", "PG503"),
    (r"aten\.nonzero", "PG401"),
    (r"aten\.masked_select", "PG402"),
    (r"aten\._?unique", "PG403"),
    (r"aten\.repeat_interleave", "PG404"),
)

# Operators that Inductor keeps out of a capture: what they do, and the rule for it.
_OPERATORS = {
    "aten::_local_scalar_dense": ("reads a tensor's value on the host", "PG201"),
    "aten::nonzero": ("makes a tensor whose size comes from values on the GPU", "PG401"),
    "aten::masked_select": ("makes a tensor whose size comes from values on the GPU", "PG402"),
    "aten::_unique2": ("makes a tensor whose size comes from values on the GPU", "PG403"),
    "aten::unique_dim": ("makes a tensor whose size comes from values on the GPU", "PG403"),
    "aten::repeat_interleave": ("makes a tensor whose size comes from values", "PG404"),
}
_FACTORIES = {"aten::full", "aten::arange", "aten::empty", "aten::zeros", "aten::ones"}


@dataclass(frozen=True)
class Cut:
    """One place where compiled code was cut.

    kind: "graph break" or "split". why: a clause. source: the user's line as `file:line`, empty
    where unknown. rule: the linter's code, empty where no rule is about this.
    """

    kind: str
    why: str
    source: str = ""
    rule: str = ""

    @property
    def command(self) -> str:
        """The command that shows what to write instead."""
        if not self.rule:
            return ""
        path = self.source.rsplit(":", 1)[0]
        if path:
            return f"pygraph-lint check {path} --select {self.rule}"
        return f"pygraph-lint rule {self.rule}"

    def to_dict(self) -> dict[str, str]:
        """The cut as plain data."""
        return {**asdict(self), "command": self.command}


def graph_break(gm: Any) -> Cut | None:
    """What ended a Dynamo graph early; None when nothing did, or this torch does not say."""
    found = getattr(gm, "compile_subgraph_reason", None)
    if found is None or not getattr(found, "graph_break", False):
        return None
    lines = [line.strip() for line in str(found.reason).splitlines() if line.strip()]
    first = lines[0] if lines else "for an unknown reason"
    if first.startswith("generic_jump"):
        first = "a branch on a tensor's value"
    stack = getattr(found, "user_stack", None) or []
    source = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else ""
    text = str(found.reason)
    rule = next((code for pattern, code in _BREAKS if re.search(pattern, text)), "")
    return Cut("graph break", first, source, rule)


def splits(nodes: Iterable[Any]) -> list[Cut]:
    """Why Inductor splits a graph into partitions: FX nodes whose operation cannot be captured, or
    runs on the CPU. One for each line and reason.
    """
    found: dict[Cut, None] = {}
    for node in nodes:
        if node.op == "call_function":
            why, rule = _why_split(node)
            if why:
                found[Cut("split", why, _line(node), rule)] = None
    return list(found)


def _why_split(node: Any) -> tuple[str, str]:
    target = node.target
    if name := effectful(node):
        return f"{name} has an effect, which it has to have on each call", ""
    if not isinstance(target, torch._ops.OpOverload):
        higher = isinstance(target, torch._ops.HigherOrderOperator)
        if higher and node.target.name() in ("cond", "while_loop"):
            return f"torch.{node.target.name()} chooses on the host", ""
        return "", ""
    name = str(target._schema.name)
    if name.startswith(f"{TO_GPU.namespace}::"):
        return "", ""  # what the placement of CPU values has added; it has notes of its own
    if is_collective(target):
        return f"{name} communicates with other ranks", ""
    if name in _OPERATORS:
        why, rule = _OPERATORS[name]
        return f"{name} {why}", rule
    if torch.Tag.cudagraph_unsafe in target.tags:
        return f"{name} says that it cannot be captured", ""
    made = {device.type for device in devices_of(node)}
    read = {device.type for source in node.all_input_nodes for device in devices_of(source)}
    if "cpu" in made and "cuda" in read:
        return f"{name} copies a GPU tensor to the host", "PG204"
    if "cuda" in made and "cpu" in read and name in ("prims::device_put", "aten::_to_copy"):
        return f"{name} copies a host tensor to the GPU", "PG106"
    if "cpu" in made:
        return f"{name} works on the CPU", "PG102" if name in _FACTORIES else ""
    return "", ""


def lines_of(module: torch.nn.Module) -> frozenset[str]:
    """Every line, as file:line, that a traced module and the graphs in it come from."""
    graphs = [each.graph for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    nodes = (node for graph in graphs for node in graph.nodes)
    return frozenset(f"{file}:{line}" for node in nodes for file, line, _ in frames_of(node))


def _line(node: Any) -> str:
    """The innermost line outside of torch, as file:line; torch's own where there is no other."""
    frames = frames_of(node)
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    return "{}:{}".format(*(users or frames)[-1][:2]) if frames else ""
