"""Functions that are run for every batch, whoever calls them: of running metrics, environments,
data sets and replay buffers, and what collates samples or moves batches.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from pygraph_lint.analysis.program.facts import ACTS_IN, COLLATES, GIVES, MOVES, UPDATES
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, walk

_OTHER_LOADERS = frozenset(("predict_dataloader", "test_dataloader"))
_UPDATING = frozenset(("update", "__call__", "add", "add_batch", "accumulate", "append"))
_ADDING = (".append", ".extend", ".update", ".add", ".add_")
_METRIC = re.compile(
    r"(Metrics?|Meter|Metre|Accuracy|Statistics|Stats|Loss|Error|Tracker|Monitor|Average)$"
)
_ACTING = frozenset(("step", "step_async", "step_wait", "observation", "action", "reward"))
_OF_ENVIRONMENT = re.compile(
    r"(Env|EnvWrapper|VecEnv|VecWrapper|ObservationWrapper|ActionWrapper)$"
)
_COLLATING = re.compile(r"_?(\w+_)?collate(_fn|_batch|_function)?$")
_MOVING = re.compile(
    r"(^|_)(move|transfer|prepare|sync|place|put)_?(\w+_)?(batch|inputs?)$"
    r"|[a-z0-9]_?(device|cuda|gpu)$"
)
_BATCH = re.compile(r"(^|_)(batch|inputs?)(_|$)")
# What agents choose actions by, and what gives batches of memories and of loaders.
_CHOOSING = re.compile(r"_?(act|(select|choose|get|take|sample|predict|explore)_?actions?(_\w+)?)")
_OF_AGENTS = re.compile(r"(Agent|Actor|Policy|Player|Algorithm|Algo)$|^(DQN|PPO|SAC|DDPG|TD3|A2C)")
_GIVING = re.compile(
    r"_?sample|_?(sample|get|next)_(batch|samples|minibatch|transitions)|__iter__|__next__"
)
_OF_BATCHES = re.compile(
    r"(Buffer|Memory|Replay|Storage|Prefetcher|Batcher|(Data|Batch|Cuda|CUDA|Device)(Loader|Iterator))$"
)
_OF_SAMPLES = re.compile(r"(Dataset|DataSet|Data_set|Collat(e|or|er|eFn)|DataPipe)$")


def per_batch(function: ast.AST, owner: ast.AST | None) -> str | None:
    """Why a function is run for every batch; None where nothing says so."""
    name = getattr(function, "name", "")
    if "collate" in name and _COLLATING.match(name):
        return COLLATES
    if isinstance(owner, ast.ClassDef) and _only_predicts(owner):
        return None
    on_its_own = not isinstance(owner, ast.ClassDef) and name.endswith(("input", "inputs"))
    if _MOVING.search(name) and (_BATCH.search(name) or _is_recursive(function, name)):
        return None if on_its_own else MOVES  # of one example
    if not isinstance(owner, ast.ClassDef):
        return None
    called = _names(owner)
    if name in _ACTING and any(map(_OF_ENVIRONMENT.search, called[1:])):
        return ACTS_IN
    if _CHOOSING.fullmatch(name) and any(map(_OF_AGENTS.search, called)):
        return ACTS_IN
    if name in _UPDATING and _is_running_metric(owner):
        return UPDATES
    if name in ("__getitem__", "__call__") and any(map(_OF_SAMPLES.search, called)):
        return COLLATES
    if _GIVING.fullmatch(name) and any(map(_OF_BATCHES.search, called)):
        return GIVES
    return None


def _only_predicts(owner: ast.ClassDef) -> bool:
    """Whether a class gives batches, and none to train with."""
    methods = {each.name for each in owner.body if isinstance(each, ast.FunctionDef)}
    return "train_dataloader" not in methods and not _OTHER_LOADERS.isdisjoint(methods)


def _is_recursive(function: ast.AST, name: str) -> bool:
    """Whether a function calls itself: for the parts of a batch."""
    return any(
        isinstance(node, ast.Call) and last_part(node.func) == name for node in walk(function)
    )


def has_per_batch(statements: Iterable[ast.AST]) -> bool:
    """Whether a file, given as all its statements, has such functions."""
    for node in statements:
        if isinstance(node, ast.ClassDef):
            if any(per_batch(each, node) for each in node.body if _is_function(each)):
                return True
        elif _is_function(node) and per_batch(node, None):
            return True
    return False


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def _names(owner: ast.ClassDef) -> list[str]:
    """The names of a class and of its bases."""
    return [owner.name, *(last_part(base) for base in owner.bases)]


def _is_running_metric(owner: ast.ClassDef) -> bool:
    """Whether a class adds up values over batches, and can begin anew."""
    own, *bases = map(_METRIC.search, _names(owner))
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    if not any(bases) and (own is None or "reset" not in methods):
        return False
    # A metric that cannot begin anew is called for what it evaluates, not for each batch.
    updating = _UPDATING if "reset" in methods else _UPDATING - {"__call__"}
    adding = (methods[name] for name in updating & methods.keys())
    return any(_adds_up(node) for method in adding for node in walk(method))


def _adds_up(node: ast.AST) -> bool:
    """Whether a node adds something to what an object holds."""
    if isinstance(node, ast.AugAssign):
        return (dotted(node.target) or "").startswith("self.")
    called = (dotted(node.func) or "") if isinstance(node, ast.Call) else ""
    return called.startswith("self.") and called.endswith(_ADDING)
