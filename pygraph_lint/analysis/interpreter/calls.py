"""Calls: who is called, and what to ask for the result."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import is_for_default
from pygraph_lint.analysis.domain.symbols import constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import arguments
from pygraph_lint.analysis.interpreter.method_calls import call_method
from pygraph_lint.analysis.interpreter.project_calls import call_project, pass_on
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.builtin_functions import call_builtin, call_math
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import call_numpy
from pygraph_lint.analysis.interpreter.transfer.torch_functions import call_torch, folded
from pygraph_lint.analysis.interpreter.value_calls import LIBRARIES, call_value
from pygraph_lint.analysis.syntax.nodes import keyword, source_of, span_of

_EINOPS = frozenset(
    ("einops.rearrange", "einops.reduce", "einops.repeat", "einops.einsum", "einops.layers.torch")
)
_CONTAINERS = {
    "collections.deque": "list",
    "collections.OrderedDict": "dict",
    "collections.defaultdict": "dict",
}
_OF_SCIPY = {"scipy.optimize.linear_sum_assignment": v.sequence([v.NUMPY_VALUE] * 2)}
# What reads its indices where no size is given.
_SPARSE = frozenset(
    ("torch.sparse_coo_tensor", *(f"torch.sparse.{name}" for name in ops.TYPED_CONSTRUCTORS))
)
_PROGRESS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "rich.progress.track")
# Classes of containers.
_GENERIC = frozenset(
    (
        *(f"builtins.{name}" for name in ("list", "dict", "set", "tuple", "frozenset")),
        *(f"collections.{name}" for name in ("OrderedDict", "defaultdict", "deque", "Counter")),
    )
)
# Beginnings of calls that read or write files, draw for somebody to look at, or start processes,
# maybe on other machines.
_FILES = (
    *("builtins.open", "glob.", "json.", "os.listdir", "os.makedirs", "os.mkdir", "os.remove"),
    *("numpy.load", "numpy.save", "torch.load", "torch.save", "torch.utils.data.DataLoader"),
    *("torch.distributed.init_process_group", "torch.multiprocessing.spawn", "torchaudio.load"),
    *("pickle.", "requests.", "shutil.", "subprocess.", "tempfile.", "urllib."),
    *("matplotlib.", "seaborn.", "plotly.", "cv2.imshow", "cv2.imwrite", "cv2.VideoWriter"),
)
# What they make gives the function that it is called with: ``torch.enable_grad()(closure)``.
_WRAPPERS = frozenset(
    (
        *("torch.enable_grad", "torch.no_grad", "torch.set_grad_enabled", "torch.inference_mode"),
        *("torch.autocast", "torch.amp.autocast", "functools.wraps"),
    )
)


def eval_call(state: State, node: ast.Call) -> Value:
    """``function(...)``."""
    function = node.func
    maker = state.qualified(function.func) if isinstance(function, ast.Call) else None
    if maker in ops.DISABLERS:
        state.event("effect.disabled-call", span_of(node), source_of(function))
    if maker in _WRAPPERS and len(node.args) == 1 and not node.keywords:
        state.ev(function)
        return arguments(state, node).first
    name = state.qualified(function)
    held = state.module.facts.instances.get(name or "")
    if held is not None:
        return call_value(state, Value(v.INSTANCE, cls=held), arguments(state, node))
    if name is not None and not _is_method_of_variable(state, node):
        return _call_named(state, name, node)
    if isinstance(function, ast.Attribute):
        return call_method(state, function, node)
    if isinstance(function, ast.Subscript) and _is_type(state, function.value):
        state.event("effect.untraced-call", span_of(node), source_of(node, 40), form="generic")
        plain = ast.Call(function.value, node.args, node.keywords)
        return eval_call(state, ast.copy_location(plain, node))
    return call_value(state, state.ev(function), arguments(state, node))


_OF_TYPES = ("builtins.isinstance", "builtins.issubclass")


def _is_type(state: State, node: ast.expr) -> bool:
    """Whether an expression names a class, which a subscript gives types: ``list[int]``."""
    name = state.qualified(node) or ""
    return name in _GENERIC or name in state.module.class_nodes


def _is_method_of_variable(state: State, node: ast.Call) -> bool:
    """Whether a dotted name is a method of a variable of the module: ``logger.info``."""
    holder = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(holder, ast.Name):
        return False
    root = holder.id
    base = None if root in state.env else state.module.module_values.get(root)
    return base is not None and base.kinds != v.CALLABLE


def _gets_host_tensors(state: State, node: ast.Call) -> bool:
    """Whether the tensors that a call gets are all on the host."""
    values = list(map(state.ev_quiet, node.args))
    tensors = [each for each in values if each.is_tensor]
    return bool(tensors) and all(each.device == v.ON_HOST and not each.needs for each in tensors)


def _call_named(state: State, name: str, node: ast.Call) -> Value:
    """A call of something with a qualified name."""
    head, _, tail = name.rpartition(".")
    if state.module.sinks.has_call(name.removeprefix("builtins.")):
        sized = name in _SPARSE and (len(node.args) > 2 or keyword(node, "size") is not None)
        notes = {"waits": "no"} if sized else {}
        if head in ("torch", "torch.linalg") and _gets_host_tensors(state, node):
            notes["lives"] = "host"
        state.event("call", span_of(node), name.removeprefix("builtins."), None, **notes)
    if name.startswith(_FILES) and not is_for_default(state.guards):
        state.function.uses_files = True
    known = folded(name)
    if known is not None:
        return known
    if name == "builtins.super":
        return Value(v.INSTANCE, cls="super")
    if name == "typing.cast" and len(node.args) > 1:  # a type, which is not made here
        return state.ev(node.args[1])
    if name in _OF_TYPES and len(node.args) == 2:  # no class is handed on
        site = CallSite(node, [state.ev(node.args[0]), state.ev_quiet(node.args[1])], {})
        return call_builtin(state, tail, site)
    site = arguments(state, node)
    if head == "builtins":
        return call_builtin(state, tail, site)
    if name.startswith("torch."):
        return call_torch(state, name, head, tail, site)
    if name.startswith("numpy."):
        return call_numpy(state, name, site)
    if head in ("math", "cmath"):
        return call_math(state, name, site)
    return _call_library(state, name, head, tail, site)


def _call_library(state: State, name: str, head: str, tail: str, site: CallSite) -> Value:
    """A call of the standard library, of einops, or of the project."""
    if name in _OF_SCIPY:
        return _OF_SCIPY[name]
    if name in _PROGRESS:
        shown = site.first if site.positional else v.OTHER_VALUE
        return shown if shown.is_tensor else shown._replace(cls=name)
    if name in _CONTAINERS:
        of_lists = site.first.cls == "builtins.list"  # defaultdict(list)
        made = call_builtin(state, _CONTAINERS[name], site)
        return Value(v.MAPPING, item=v.sequence([])) if of_lists else made
    given = _call_with_argument(state, name, site) if site.positional else None
    if given is not None:
        return given
    if tail in ops.FOLDED_TRUE_NAMES:
        return constant(True)
    if tail in ops.FOLDED_FALSE_NAMES:
        return constant(False)
    if name in ops.TRACED_DRAWS:
        return Value(v.NUMBER, flags=v.RANDOM, why=f"{name}() draws anew in each call")
    if name == "random.Random":
        return Value(v.INSTANCE, cls=name)
    if head in ("random", "time", "logging", "warnings"):
        return v.NUMBER_VALUE
    if name.partition(".")[0] in LIBRARIES:
        return v.UNKNOWN_VALUE
    return call_project(state, name, site)


def _call_with_argument(state: State, name: str, site: CallSite) -> Value | None:
    """A function that gives its argument, calls it, or computes with it; None for others."""
    if name in ("copy.copy", "copy.deepcopy"):
        if name == "copy.deepcopy" and site.first.must_be_tensor:
            state.event("effect.untraced-call", span_of(site.node), f"{name}()", form="copy")
        return site.first
    if name == "functools.reduce" and len(site.positional) > 1:
        part = v.iterate(site.positional[1])
        parts = [site.get(2, "initial", part), part]
        return pass_on(state, site.first, CallSite(site.node, parts, {}))
    if name == "functools.partial":
        pass_on(state, site.first, CallSite(site.node, site.positional[1:], site.named, True))
        return site.first
    if name in _EINOPS:
        source = v.element(site.first) if site.first.kinds & v.SEQUENCE else site.first
        return v.tensor(source.why, source.dtype, source.device, needs=source.needs)
    return None
