"""Data loaders whose batches lie in pageable memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pygraph_lint.analysis.domain.device_moves import moves_to_device
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, span_of, statements, walk

OF_EVALUATION = re.compile(r"(?i)(^|[._])(val|valid|validation|test|eval|evaluation|predict)")
_OF_TRAINING = re.compile(r"(?i)train")
_CLASSES = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_WHY = ("without pin_memory=True its batches lie in pageable memory",)


def unpinned(call: ast.Call) -> Event | None:
    """The copy of each batch that a data loader costs, where a call does not have it pin them."""
    given = {item.arg: item.value for item in call.keywords}
    off = given.get("pin_memory", ast.Constant(False))
    if None in given or not isinstance(off, ast.Constant) or off.value:
        return None
    name = dotted(call.func) or ""
    return Event("loop.copy", span_of(call), name, (), _WHY, (("pinned", "no"),))


def is_read_once(loader: ast.expr, scope: ast.AST) -> bool:
    """Whether all that a function does with a loader is to take its first batch, outside of loops:
    ``next(iter(loader))``.
    """
    nodes = list(walk(scope)) if isinstance(loader, ast.Name) else []
    loops = (node for node in nodes if isinstance(node, (ast.For, ast.While, ast.comprehension)))
    in_loops = {inside for loop in loops for inside in walk(loop)}
    once = f"next(iter({ast.unparse(loader)}))"
    calls = (node for node in nodes if isinstance(node, ast.Call) and node not in in_loops)
    taken = [call for call in calls if dotted(call.func) == "next" and ast.unparse(call) == once]
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == dotted(loader)]
    return 0 < len(taken) == len([node for node in names if isinstance(node.ctx, ast.Load)])


def loaders_for_training(file: Module) -> Iterator[Event]:
    """The unpinned data loaders of a file that shuffle or draw what they read, or whose names say
    that they are for training: their batches may be moved in another file.
    """
    for statement in statements(file.tree.body):
        call = getattr(statement, "value", None)
        if not isinstance(call, ast.Call) or file.names.resolve(call.func) not in _CLASSES:
            continue
        targets = getattr(statement, "targets", [])
        said = " ".join([*map(ast.unparse, targets), *map(ast.unparse, call.args[:1])])
        event = None if _reads_device(file, call) else unpinned(call)
        trains = _draws(call) or _OF_TRAINING.search(said) is not None
        if event is None or not trains or OF_EVALUATION.search(said):
            continue
        holders = (node for _, node, _ in file.functions if statement in file.body(node).statements)
        if not any(is_read_once(target, next(holders, file.tree)) for target in targets):
            yield event


def _reads_device(file: Module, loader: ast.Call) -> bool:
    """Whether the data that a loader reads was moved to the device as a whole."""
    named = dotted(loader.args[0]) if loader.args else None
    makes = (
        getattr(statement, "value", None)
        for statement in statements(file.tree.body)
        if named is not None and named in map(dotted, getattr(statement, "targets", ()))
    )
    return any(
        isinstance(each, ast.Call)
        and last_part(each.func) == "TensorDataset"
        and bool(each.args)
        and all(isinstance(part, ast.Call) and moves_to_device(part) for part in each.args)
        for each in makes
    )


def _draws(call: ast.Call) -> bool:
    """Whether a loader shuffles, or has a sampler."""
    given = {item.arg: item.value for item in call.keywords}
    shuffle = given.get("shuffle", ast.Constant(False))
    drawn = not isinstance(shuffle, ast.Constant) or bool(shuffle.value)
    return drawn or "sampler" in given or "batch_sampler" in given
