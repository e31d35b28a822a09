"""Data loaders whose batches lie in pageable memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import dotted, span_of, statements

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
        event = unpinned(call)
        trains = _draws(call) or _OF_TRAINING.search(said) is not None
        if event is not None and trains and not OF_EVALUATION.search(said):
            yield event


def _draws(call: ast.Call) -> bool:
    """Whether a loader shuffles, or has a sampler."""
    given = {item.arg: item.value for item in call.keywords}
    shuffle = given.get("shuffle", ast.Constant(False))
    drawn = not isinstance(shuffle, ast.Constant) or bool(shuffle.value)
    return drawn or "sampler" in given or "batch_sampler" in given
