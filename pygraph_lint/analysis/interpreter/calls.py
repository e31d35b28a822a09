"""Calls: who is called, and what to ask for the result."""

from __future__ import annotations

import ast
import sys

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import constant, extend, is_given, is_result, symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import arguments, note_formatted
from pygraph_lint.analysis.interpreter.attributes import PARAMETER, RECURRENT
from pygraph_lint.analysis.interpreter.inference_from_uses import is_of_tensors
from pygraph_lint.analysis.interpreter.project_calls import (
    call_project,
    pass_on,
    result_of,
    returned,
)
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import merge_device
from pygraph_lint.analysis.interpreter.transfer.builtin_functions import call_builtin, call_math
from pygraph_lint.analysis.interpreter.transfer.containers import mapping_method, sequence_method
from pygraph_lint.analysis.interpreter.transfer.distributions import (
    distribution_method,
    is_distribution,
)
from pygraph_lint.analysis.interpreter.transfer.layers import apply_layer
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import array_method, call_numpy
from pygraph_lint.analysis.interpreter.transfer.tensor_methods import tensor_method
from pygraph_lint.analysis.interpreter.transfer.torch_functions import call_torch, folded
from pygraph_lint.analysis.program.facts import ANY_NAME
from pygraph_lint.analysis.syntax.nodes import (
    are_classes,
    dotted,
    keyword,
    short,
    source_of,
    span_of,
)

_OUTSIDE = frozenset(sys.stdlib_module_names) | {
    *("torch", "numpy", "builtins", "einops", "PIL", "scipy", "jax"),
}
_LOG_METHODS = frozenset(
    """
        debug info warning warn error critical exception log warning_once info_once debug_once
        warning_advice warning_rank0 info_rank0 error_once fatal
    """.split()
)
_EINOPS = frozenset(
    ("einops.rearrange", "einops.reduce", "einops.repeat", "einops.einsum", "einops.layers.torch")
)
_REGISTER = ("register_buffer", "register_parameter", "add_module", "register_module", "add_state")
# Methods of modules that give their tensors.
_HELD: dict[str, Value] = {
    **dict.fromkeys(("parameters", "buffers"), Value(v.SEQUENCE, item=PARAMETER)),
    **dict.fromkeys(
        ("named_parameters", "named_buffers"),
        Value(v.SEQUENCE, item=v.sequence([v.TEXT_VALUE, PARAMETER])),
    ),
}
_CONTAINERS = {
    "collections.deque": "list",
    "collections.OrderedDict": "dict",
    "collections.defaultdict": "dict",
}
_OF_SCIPY = {"scipy.optimize.linear_sum_assignment": v.sequence([v.NUMPY_VALUE] * 2)}
_SPARSE = ("torch.sparse_coo_tensor",)  # reads its indices where no size is given
_PROGRESS = ("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "rich.progress.track")
_TENSOR_KINDS = {
    "register_buffer": "buffer",
    "register_parameter": "parameter",
    "add_state": "state",
}
_TEXT_TO_NUMBER = ("startswith", "endswith", "find", "count")
_OWN_METHODS = ("get_", "compute_", "_", "prepare_", "forward")
# Classes of containers.
_GENERIC = frozenset(
    (
        *(f"builtins.{name}" for name in ("list", "dict", "set", "tuple", "frozenset")),
        *(f"collections.{name}" for name in ("OrderedDict", "defaultdict", "deque", "Counter")),
    )
)
# Beginnings of calls that read or write files, or start processes, maybe on other machines.
_FILES = (
    *("builtins.open", "glob.", "json.", "os.listdir", "os.makedirs", "os.mkdir", "os.remove"),
    *("numpy.load", "numpy.save", "torch.load", "torch.save", "torch.utils.data.DataLoader"),
    *("torch.distributed.init_process_group", "torch.multiprocessing.spawn", "torchaudio.load"),
    *("pickle.", "requests.", "shutil.", "subprocess.", "tempfile.", "urllib."),
)


# What they make gives the function that it is called with: ``torch.enable_grad()(closure)``.
_WRAPPERS = frozenset(
    (
        *("torch.enable_grad", "torch.no_grad", "torch.set_grad_enabled", "torch.inference_mode"),
        *("torch.autocast", "torch.amp.autocast", "functools.wraps"),
    )
)


def eval_call(state: State, node: ast.Call) -> Value:
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
        return _call_value(state, Value(v.INSTANCE, cls=held), arguments(state, node))
    if name is not None and not _is_method_of_variable(state, node):
        return _call_named(state, name, node)
    if isinstance(function, ast.Attribute):
        return _call_method(state, function, node)
    if isinstance(function, ast.Subscript) and _is_type(state, function.value):
        state.event("effect.untraced-call", span_of(node), source_of(node, 40), form="generic")
        plain = ast.Call(function.value, node.args, node.keywords)
        return eval_call(state, ast.copy_location(plain, node))
    return _call_value(state, state.ev(function), arguments(state, node))


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


# -- by qualified name


def _call_named(state: State, name: str, node: ast.Call) -> Value:
    """A call of something with a qualified name."""
    head, _, tail = name.rpartition(".")
    if state.module.sinks.has_call(name.removeprefix("builtins.")):
        sized = name in _SPARSE and (len(node.args) > 2 or keyword(node, "size") is not None)
        notes = {"waits": "no"} if sized else {}
        state.event("call", span_of(node), name.removeprefix("builtins."), None, **notes)
    if name.startswith(_FILES):
        state.function.uses_files = True
    known = folded(name)
    if known is not None:
        return known
    if name == "builtins.super":
        return Value(v.INSTANCE, cls="super")
    site = arguments(state, node)
    if head == "builtins":
        return call_builtin(state, tail, site)
    if name.startswith("torch."):
        return call_torch(state, name, head, tail, site)
    if name.startswith("numpy."):
        return call_numpy(state, name, site)
    if head in ("math", "cmath"):
        return call_math(state, tail, site)
    return _call_library(state, name, head, tail, site)


def _call_library(state: State, name: str, head: str, tail: str, site: CallSite) -> Value:
    """A call of the standard library, of einops, or of the project."""
    if name in _OF_SCIPY:
        return _OF_SCIPY[name]
    if name in ("copy.copy", "copy.deepcopy") and site.positional:
        if name == "copy.deepcopy" and site.first.must_be_tensor:
            state.event("effect.untraced-call", span_of(site.node), f"{name}()", form="copy")
        return site.first
    if name in _PROGRESS:
        shown = site.first if site.positional else v.OTHER_VALUE
        return shown if shown.is_tensor else shown._replace(cls=name)
    if name == "typing.cast" and site.positional:
        return site.positional[-1]
    if name in _CONTAINERS:
        of_lists = site.first.cls == "builtins.list"  # defaultdict(list)
        made = call_builtin(state, _CONTAINERS[name], site)
        return Value(v.MAPPING, item=v.sequence([])) if of_lists else made
    if name == "functools.reduce" and len(site.positional) > 1:
        part = v.iterate(site.positional[1])
        parts = [site.get(2, "initial", part), part]
        return pass_on(state, site.first, CallSite(site.node, parts, {}))
    if name == "functools.partial" and site.positional:
        pass_on(state, site.first, CallSite(site.node, site.positional[1:], site.named, True))
        return site.first
    if name in _EINOPS and site.positional:
        source = v.element(site.first) if site.first.kinds & v.SEQUENCE else site.first
        return v.tensor(source.why, source.dtype, source.device, needs=source.needs)
    if tail in ops.FOLDED_TRUE_NAMES:
        return constant(True)
    if tail in ops.FOLDED_FALSE_NAMES:
        return constant(False)
    if name in ops.TRACED_DRAWS:
        return Value(v.NUMBER, flags=v.RANDOM, why=f"{name}() draws anew in each call")
    if head in ("random", "time", "logging", "warnings"):
        return v.NUMBER_VALUE
    if name.partition(".")[0] in _OUTSIDE:
        return v.UNKNOWN_VALUE
    return call_project(state, name, site)


# -- methods


def _call_method(state: State, function: ast.Attribute, node: ast.Call) -> Value:
    """``value.method(...)``."""
    holder = function.value
    maker = holder.func if isinstance(holder, ast.Call) else None
    if isinstance(maker, ast.Name) and maker.id == "super":
        return _call_on_super(state, function.attr, arguments(state, node))
    if state.is_self(holder):
        return _call_on_self(state, function.attr, node)
    base = state.ev(holder)
    method = function.attr
    if method in ops.HOOK_METHODS:
        state.event("effect.module-hook", span_of(node), method)
    site = arguments(state, node)
    if base.flags & v.LOGGER:
        if method in _LOG_METHODS:
            form = {"form": "loguru"} if base.cls == "loguru.logger" else {}
            state.event(
                "effect.log", span_of(node), dotted(function) or f"logger.{method}", None, **form
            )
        return v.NONE_VALUE
    if base.cls and state.module.sinks.has_call(f"{base.cls}.{method}"):
        state.event("call", span_of(node), f"{base.cls}.{method}")
    first, known = site.first, base.cls or not base.kinds & v.UNKNOWN
    if method in ops.OF_ARRAYS and first.must_be_tensor and not known:
        return v.tensor(first.why, device=first.device, device_of=first.device_of)
    return _method_on(state, base, method, holder, site)


def _call_on_super(state: State, method: str, site: CallSite) -> Value:
    state.record_call("super", state.owner, method, site.node, site)
    if method == "__init__" and state.owner:
        about = Value(v.TENSOR, needs=(Need("module", state.owner, ""),))
        subject, form = "super().__init__()", "module"
        state.event("effect.parameter-made", span_of(site.node), subject, about, form=form)
    need = result_of(state, f"super:{state.owner}.{method}", site.node)
    return symbol(need, f"super().{method}() returns a tensor")


def _call_on_self(state: State, name: str, node: ast.Call) -> Value:
    """``self.method(...)`` and ``self.layer(...)``."""
    owner = state.owner
    stored = state.env.get("self." + name) or state.module.class_attribute(owner, name)
    site = arguments(state, node)
    if stored is not None and not (
        stored.kinds == v.CALLABLE and stored.cls.startswith(owner + ".")
    ):
        return _call_value(state, stored, site)
    if name in _REGISTER:
        _register(state, name, site)
        return v.NONE_VALUE
    if name in _HELD and not state.module.has_method(owner, name):
        return _HELD[name]
    state.record_call("method", owner, name, node, site)
    if name.startswith(_OWN_METHODS) or state.module.has_method(owner, name):
        need = result_of(state, f"{owner}.{name}", node)
        return returned(state, need, f"self.{name}() returns a tensor")
    return extend(symbol(Need("attr", owner, name), f"`self.{name}` returns a tensor"), "()")


def _register(state: State, how: str, site: CallSite) -> None:
    """``self.register_buffer(name, tensor)`` makes an attribute."""
    node = site.node
    if not node.args:
        return
    name = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ANY_NAME
    names = ("tensor", "param", "default")
    given = next((site.named[each] for each in names if each in site.named), v.NONE_VALUE)
    value = site.get(1, "", given)
    if how in _TENSOR_KINDS and not value.kinds & v.SEQUENCE:
        kind = _TENSOR_KINDS[how]
        why = f"`self.{name}` is a {kind}"
        held = v.tensor(why, value.dtype, v.ON_DEVICE, value.ndim, v.BUFFER)
        value = held._replace(kinds=held.kinds | (value.kinds & v.NONE))
    state.module.set_attribute(state.owner, name, value)


def _method_on(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> Value:
    """A method of a value."""
    if is_distribution(base):
        return distribution_method(state, base, method, site)
    if base.kinds == v.INSTANCE and base.cls == "numpy.random.Generator":
        state.event("effect.numpy-random", span_of(site.node), f"{base.cls}.{method}")
        return v.NUMBER_VALUE
    if method in _HELD and not any(state.module.has_method(c, method) for c in v.classes(base)):
        return _HELD[method]
    base = _by_method(state, base, method, holder, site)
    if base.is_tensor:
        if method in ops.TENSOR_METHODS or not base.flags & v.SYMBOL:
            known = method in ops.TENSOR_METHODS or method in state.module.sinks.methods
            if known or base.needs or base.kinds & v.UNKNOWN:
                return tensor_method(state, base, method, site)
            return v.UNKNOWN_VALUE  # it is none, whatever its annotation says
        if base.cls and base.kinds & v.INSTANCE:
            state.record_call("object", base.cls, method, site.node, site)
        else:
            _note_named(state, method, site)
        return extend(extend(base, "." + method), "()")
    if base.kinds & v.INSTANCE and base.flags & v.MODULE:
        if method in ("forward", "__call__"):
            return _call_value(state, base, site)
        if base.cls in RECURRENT:
            state.event("effect.rnn", span_of(site.node), base.cls)
        return base if method in ops.GIVE_THE_MODULE else v.UNKNOWN_VALUE
    if base.kinds & v.INSTANCE and base.cls:
        return _method_of_object(state, base, method, site)
    if base.kinds & v.SEQUENCE:
        return sequence_method(state, base, method, holder, site)
    if base.kinds & v.MAPPING:
        return mapping_method(state, base, method, holder, site)
    if base.kinds & v.TEXT and not base.kinds & v.UNKNOWN:
        return _text_method(state, method, site)
    if base.kinds & v.NUMPY:
        return array_method(state, base, method, holder, site)
    return _method_on_other(state, base, method, site)


def _by_method(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> Value:
    """The value, after what calling this method on it says."""
    fits = not (site.node.args and method in ops.WITHOUT_ARGUMENTS)
    if method in ("item", "tolist") and not site.everything and is_given(base):
        state.function.takes_tensors |= bool(base.kinds & v.UNKNOWN)
        base = base._replace(needs=(), why=f"only a tensor has .{method}()")
    if fits and method in ops.ARRAY_METHODS and _is_computed(base, holder):
        base = base._replace(needs=(), why=f"only an array has .{method}()")
    if (base.needs or base.kinds & v.UNKNOWN) and (
        is_of_tensors(method, site.node)
        or (fits and method in ops.ARRAY_METHODS and is_result(base))
    ):
        base = _learned(state, base, method, holder)
    return base


def _is_computed(value: Value, node: ast.expr) -> bool:
    """Whether a value is calculated from others, at least one of which may be a tensor: it is a
    tensor or a number.
    """
    written = isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp))
    return written and value.kinds == v.TENSOR and bool(value.needs)


def _learned(state: State, base: Value, method: str, holder: ast.expr) -> Value:
    """The value whose method only a tensor has; so it is a tensor from here on."""
    if base.kinds & ~(v.UNKNOWN | v.TENSOR | v.NONE) or not (base.needs or base.kinds == v.UNKNOWN):
        return base
    state.function.takes_tensors = True
    state.note_shown(base)
    why = base.why if base.is_tensor and not base.needs else f"only a tensor has .{method}()"
    flags = base.flags & v.FLOW
    known = v.tensor(why, base.dtype, base.device, base.ndim, flags, device_of=base.device_of)
    place = state.place(holder)
    if place is not None:
        state.env[place] = known
    return known


def _method_of_object(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of an object of the project's classes."""
    if base.flags & v.MADE:
        _note_bound(state, base.cls, method, site)
    given = [_method_of(state, cls, method, site) for cls in v.classes(base)]
    itself = method in ops.GIVE_THE_MODULE and _gives_itself(state, base, method)
    return base if itself else v.join_all(given)


def _gives_itself(state: State, base: Value, method: str) -> bool:
    """Whether an object's method is that of nn.Module, which gives the object, as far as this file
    says: ``train`` of other files' classes may be anything.
    """
    own = state.module.class_nodes
    return all(
        not state.module.has_method(cls, method) if cls in own else method != "train"
        for cls in v.classes(base)
    )


def _method_of(state: State, cls: str, method: str, site: CallSite) -> Value:
    """A method of an object of a class."""
    state.record_call("object", cls, method, site.node, site)
    need = result_of(state, f"{cls}.{method}", site.node)
    return returned(state, need, f"{short(cls)}.{method}() returns a tensor")


def _note_bound(state: State, classes: str, method: str, site: CallSite) -> None:
    """Record a method call on an object that the function itself makes: where the graph ends in the
    method, the bound method cannot be handed on to the code behind.
    """
    why = f"the graph ends in {short(classes.partition(',')[0])}.{method}()"
    about = Value(v.OTHER, needs=(Need("ends", classes, method),), why=why)
    subject = source_of(site.node.func, 40)
    state.event("effect.made-object", span_of(site.node), subject, about)


def _text_method(state: State, method: str, site: CallSite) -> Value:
    if method == "format":
        for value in site.everything:
            note_formatted(state, value, site.node)
    return v.NUMBER_VALUE if method in _TEXT_TO_NUMBER else v.TEXT_VALUE


def _method_on_other(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of a function, a class, or of something nobody knows."""
    if base == v.GENERATOR_VALUE and method == "manual_seed":
        return base
    if base.kinds & v.CALLABLE and base.cls:
        if base.cls.partition(".")[0] in _OUTSIDE:
            return v.UNKNOWN_VALUE
        name = f"{base.cls}.{method}"
        state.record_call("function", name, "", site.node, site)
        need = result_of(state, name, site.node)
        return symbol(need, f"{short(name)}() returns a tensor")
    if base.kinds & v.UNKNOWN:
        reads = method in ops.READING_METHODS and not site.node.args
        other = site.node.args and method in ops.WITHOUT_ARGUMENTS
        reads |= method in ops.PRODUCTS and site.first.must_be_tensor and not base.cls
        if reads or (method in ops.TENSOR_ONLY_METHODS and not other):
            believed = v.tensor(f"only a tensor has .{method}()", device=v.ANYWHERE)
            return tensor_method(state, believed, method, site)
        if base.cls:
            state.record_call("object", base.cls, method, site.node, site)
        elif _note_named(state, method, site):
            need = Need("return", "", f"|.{method}|()")
            return symbol(need, f".{method}() of the project returns a tensor")
    return v.UNKNOWN_VALUE


def _note_named(state: State, method: str, site: CallSite) -> bool:
    """Record the call of a method by its name, unless other objects than the project's have it."""
    common = method in ops.COMMON_METHODS and not (method == "step" and len(site.node.args) > 1)
    if method.startswith("__") or method in ops.TENSOR_METHODS or common:
        return False
    state.record_call("by name", _kept_argument(state, site.node.func), method, site.node, site)
    return True


def _kept_argument(state: State, called: ast.expr) -> str:
    """``Class.attribute`` for ``self.attribute.method``; empty for methods of other objects."""
    holder = called.value if isinstance(called, ast.Attribute) else None
    if not isinstance(holder, ast.Attribute) or not state.is_self(holder.value):
        return ""
    return f"{state.owner}.{holder.attr}" if state.owner else ""


# -- values called


def _call_value(state: State, value: Value, site: CallSite) -> Value:
    """Something held in a variable is called."""
    if value.flags & v.MADE and not value.kinds & v.INSTANCE:
        owner, _, method = value.cls.rpartition(".")
        if value.needs and value.needs[0].kind == "attr":
            owner, method = value.needs[0].owner, value.needs[0].name
        _note_bound(state, owner, method, site)
    if value.flags & v.MODULE:
        return apply_layer(state, value, site)
    if value.kinds == v.CALLABLE and value.item is not None:  # a tensor's method, bound before
        return tensor_method(state, value.item, value.cls.rpartition(".")[2], site)
    if value.kinds & v.CALLABLE and value.cls:
        return _call_one_of(state, value, site)
    if value.kinds & v.INSTANCE and value.cls:
        return pass_on(state, value, site)
    if value.flags & v.SYMBOL and value.needs:
        need = value.needs[0]
        if need.kind == "attr":
            state.record_call("attribute", need.owner, need.name, site.node, site)
        elif (
            need.kind == "return"
            and (place := need.name.removeprefix("|")).strip("0123456789") == ""
        ):
            state.record_call("result", need.owner, f"{place}|", site.node, site)
        return extend(value, "()")
    return v.UNKNOWN_VALUE


def _call_one_of(state: State, value: Value, site: CallSite) -> Value:
    """A function, or one of several: those of the project say what the call gives."""
    names = v.classes(value)
    own = [name for name in names if name.partition(".")[0] not in _OUTSIDE]
    if own:
        return pass_on(state, value._replace(cls=",".join(own)), site)
    if not all(name.startswith("torch.") for name in names):
        return v.UNKNOWN_VALUE
    if are_classes(names):
        head, _, tail = names[0].rpartition(".")
        return call_torch(state, names[0], head, tail, site)
    return v.tensor(f"{names[0]} returns a tensor", device=merge_device(site.everything))
