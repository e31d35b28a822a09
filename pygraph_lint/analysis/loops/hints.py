"""What a file's text and syntax tree show of training loops, before any value is worked out."""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.loops.calls import is_step_hook, losses
from pygraph_lint.analysis.loops.per_batch_classes import has_per_batch
from pygraph_lint.analysis.loops.steps import COMPREHENSIONS, LOOPS, names_a_compiler
from pygraph_lint.analysis.program.facts import NO_LOOPS, LoopHints
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import statements, walk

_AROUND_A_STEP = r"\bdef _?(on_)?(train_)?(batch|iter|iteration|step)_(start|begin|end|completed)"
# What a text with a training loop has one of: first a plain part of it, which is looked for faster.
_WORDS = [
    (part, re.compile(pattern))
    for part, pattern in (
        ("backward(", r"\bbackward\("),
        ("training_step", r"\btraining_step\b"),
        ("compute_loss", r"\bcompute_loss\b"),
        ("torch.compile", r"torch\.compile\b"),
        ("on_train_", r"\bon_train_"),
        ("on_step_", r"\bon_step_"),
        ("on_batch_", r"\bon_batch_"),
        ("after_", r"\bdef _?(on_)?after_\w*(step|iter|batch|backward|update|loss)"),
        ("before_", r"\bdef _?(on_)?before_\w*(step|iter|batch|backward|update)"),
        *((end, _AROUND_A_STEP) for end in ("_start(", "_begin(", "_end(", "_completed(")),
        ("def on_", r"\bdef on_(step|batch|iteration|loss|update|backward|forward)(_and|\()"),
        (".step(", r"optim\w*\.step\(\w"),
        ("train_step", r"\btrain_step\w*\("),
        (".learn(", r"\.learn\("),
        ("train_on_batch(", r"\btrain_on_batch\("),
        ("optim", r"loss\w*,\s*(self\.)?\w*optim"),
        ("def update(", r"\bdef update\("),
        ("to_torch", r"\bdef \w*to_torch"),
        ("to_device", r"\bdef \w*to_device"),
        ("to_tensor", r"\bdef \w*to_tensor"),
    )
]
# What a script that trains by the methods of another file has both of.
_TRAINING = ("epoch", "optimizer", "episode", "env.", "envs", "loader")
_TRAINS = re.compile(
    r"\.(train|learn|fit|optimi[sz]e|update_)\w*\(\s*\w"
    r"|(agent|algo\w*|learner|policy|model|trainer|solver)\w*\.update\(\s*\w"
    r"|\benvs?\.step\(\s*\w|\bfor\b[^\n]+\bin\b[^\n]*(loader|iterator|batches)"
)
_PARTS_OF_TRAINS = (
    *("env.step(", "envs.step(", "loader", "iterator", "batches"),
    *(".train(", ".train_", ".learn", ".fit", ".optimi", ".update_", ".update("),
)
# One of these is in a function that costs something.
_HELPERS = (
    *(".to(", ".item()", ".cpu()", ".cuda(", ".tolist()", "mask]", "as_tensor(", "torch.tensor("),
    *("empty_cache", "synchronize(", "add_scalar", "new_tensor(", "isnan(", "isfinite("),
    *("torch.distributions", "bincount(", "torch.unique(", "nonzero("),
)
# One of these is in a file with functions that are run for every batch.
_PER_BATCH = (
    *("Metric", "Meter", "def reset(", "collate", "__getitem__", "Env", "device(", "cuda("),
    *("_batch(", "_input", "Agent", "Actor", "Policy", "Buffer", "Memory", "Replay", "Loader"),
    *("Iterator", "Prefetcher"),
)
# What a file has one of that moves models or batches to a device, or leaves that to a library.
_PLACES = ".to( cuda device accelerat lightning fabric deepspeed horovod".split()


def _has_words(text: str) -> bool:
    """Whether a text may have a training loop, or a step that a trainer calls."""
    return any(part in text and pattern.search(text) is not None for part, pattern in _WORDS)


def _may_be_script(text: str) -> bool:
    """Whether a text may have a loop that trains by the methods of another file."""
    for parts in (_TRAINING, _PARTS_OF_TRAINS):
        if not any(part in text for part in parts):
            return False
    return _TRAINS.search(text) is not None


def hints(text: str, file: Module) -> LoopHints:
    """What a file has of training loops, of steps that a trainer calls, or of functions for steps
    to call.
    """
    words = _has_words(text)
    helps = any(part in text for part in _HELPERS)
    batches = helps and "torch" in text and any(part in text for part in _PER_BATCH)
    batches = batches and has_per_batch(statements(file.tree.body))
    if not words and not _may_be_script(text):
        return LoopHints(True, batches, places=_places(text)) if helps else NO_LOOPS
    nodes = file.nodes
    loops = [node for node in nodes if isinstance(node, LOOPS)]
    starts = batches or (
        words
        and (
            any(True for _ in losses(nodes))
            or any(is_step_hook(node.name) for node in nodes if isinstance(node, ast.FunctionDef))
            or (bool(loops) and any(names_a_compiler(node) for node in nodes))
        )
    )
    over = (*loops, *(node for node in nodes if isinstance(node, COMPREHENSIONS)))
    called = {_last_name(inner) for loop in over for inner in walk(loop)}
    if called:
        called |= {
            _last_name(node.value)  # of a function that returns what a loop calls
            for node in nodes
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in called
        }
        called |= {node.name for node in nodes if isinstance(node, ast.alias) and node.asname}
    return LoopHints(True, starts, frozenset(called - {""}), words, _places(text))


def _places(text: str) -> bool:
    plain = text.lower()
    return any(part in plain for part in _PLACES)


def _last_name(node: ast.AST) -> str:
    """The last part of the name that a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def has_modulo(test: ast.expr) -> bool:
    """Whether a condition asks for a remainder: ``step % n == 0``."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and not isinstance(node.left, (ast.Constant, ast.JoinedStr))
        for node in walk(test)
    )
