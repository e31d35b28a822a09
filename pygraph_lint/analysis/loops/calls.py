"""What the values of a training loop are, and what calls do to them: tables and small functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeGuard

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Event, Need, any_of
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.transfer.distributions import PREFIX
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, span_of

# What is called on modules only.
MODULE_MARKS = frozenset(
    ("train", "eval", "parameters", "named_parameters", "modules", "named_modules", "no_sync")
)
# Methods that trainers call on every step, by name.
_STEP_HOOKS = frozenset(
    (
        *("training_step", "compute_loss", "on_train_batch_end", "on_train_batch_start"),
        *("training_step_end", "on_before_backward", "on_after_backward", "prediction_step"),
        *("on_before_optimizer_step", "on_before_zero_grad", "optimizer_step", "on_step_end"),
        *("on_batch_end", "on_step_begin", "on_substep_end", "_training_step"),
    )
)
PREPARING = re.compile(r"(^|_)(to_(gpu|cuda|device)|move|parse_batch|prepare|transfer|place)")
"""Functions that get a batch of a loader and give it on the device."""
_NAMED_STEP_HOOK = re.compile(
    r"_?(on_)?(before|after)_(train_|training_)?(iter|iteration|step|batch|forward|backward|loss"
    r"|update|zero_grad|optimi[sz]e|optimizer_step)"
    r"|_?(on_)?(train_|training_)?(iter|iteration|step|batch|update|backward|loss|optimizer_step)"
    r"_(start|begin|end|completed|computed)|on_(step|batch|iteration|loss|update|backward|forward)(_and_[a-z_]+)?"
)
_OPTIMIZER = re.compile(r"(?i)optim|(^|_)opt($|_[a-z0-9]$)")
_HOOK = re.compile(r"_?(on|before|after)_[a-z_]+")
_TENSOR = re.compile(r"\b(Long|Int|Float|Double|Half|Bool)?Tensor\b")
_COMPUTING = re.compile(r"scaler|backward|step|update|optim")
_BATCHES = re.compile(
    r"(?i)((load|read)er|batch(es|s)?|iterator|_iter|stream|dl|prefetcher)\b(?!_size)"
)
_OF_LOSS = re.compile(r"loss(es)?$|^loss")
# Methods that give Python or NumPy values.
HOST_CASTS = frozenset(("item", "tolist", "numpy"))
COMPARING = frozenset(("equal", "allclose"))  # they give a bool of Python
# Methods that of all arrays only tensors have.
_OF_TENSORS_ONLY = frozenset(
    """
        add_ bmm clamp clamp_ clamp_min contiguous detach_ div_ eq expand expand_as float gather ge
        gt index_select isfinite isnan le log_softmax logical_and logical_not logsumexp long
        lt masked_fill masked_fill_ masked_select mul_ ne neg norm numel permute pow reshape_as
        scatter scatter_ scatter_add sigmoid softmax sub_ tanh topk type_as unbind unsqueeze
        view view_as
    """.split()
)
# Functions of torch that make tensors of anything, or give none.
_OF_ANYTHING = frozenset(
    """
        as_tensor asarray cat compile concat from_numpy is_tensor jit manual_seed save seed
        set_num_threads stack typename
    """.split()
)
# Calls that give the elements of their first argument.
WRAPPERS = frozenset(
    (
        *("tqdm", "trange", "track", "islice", "iter", "list", "tuple", "reversed", "prefetch"),
        *("chain", "cycle", "progress_bar", "ProgressBar", "MpDeviceLoader"),
    )
)
DEVICE = v.tensor("it comes from the model", device=v.ON_DEVICE)
LOSS = v.tensor("its gradients are computed", device=v.ON_DEVICE)
MOVED = v.tensor("it was moved to the device", device=v.ON_DEVICE)
GIVEN = v.tensor("the model gets it where it is", device=v.ON_DEVICE)
HOST = v.tensor("it is on the host", device=v.ON_HOST)
OF_LOADER = HOST._replace(why="a data loader gives it")  # mostly on the host
# A tensor of which nothing else is known: what a step computes with is on the device.
PRESUMED = Value(
    v.TENSOR | v.UNKNOWN,
    device=v.ON_DEVICE,
    needs=(Need("presumed", "", ""),),
    why="it is a tensor of unknown origin",
)
MOVED_LATER = Value(v.TENSOR | v.UNKNOWN, device=v.ON_HOST, why="it is moved to the device later")
# The class of what an object of the device holds: a tensor, or a number.
OF_OBJECT = "part of an object"
INDICES = Value(v.SEQUENCE, item=v.NUMBER_VALUE, cls="indices")
GRADIENT = v.tensor("it is a gradient", device=v.ON_DEVICE)
MODULE = Value(v.INSTANCE, flags=v.MODULE)
COMPILED = Value(v.INSTANCE, flags=v.MODULE, cls="torch.compile")
LOADER = Value(v.INSTANCE, cls="torch.utils.data.DataLoader")
PREPARED = Value(v.UNKNOWN, cls="prepared")  # a loader whose batches are on the device
BATCH = Value(v.TENSOR | v.UNKNOWN, device=v.ON_HOST, cls="batch")
PARAMETERS = Value(v.SEQUENCE, item=v.tensor("it is a parameter", device=v.ON_DEVICE))
NAMED_PARAMETERS = Value(
    v.SEQUENCE, item=Value(v.SEQUENCE, items=(v.TEXT_VALUE, PARAMETERS.item or v.UNKNOWN_VALUE))
)
# What classes of torch make, by their names.
_OBJECTS = {
    **dict.fromkeys(("DataLoader", "StatefulDataLoader"), LOADER),
    "BatchSampler": Value(v.SEQUENCE, item=INDICES),
    "Parameter": DEVICE,
}
_NO_TENSORS = ("device", "Size", "Generator", "no_grad", "enable_grad", "is_tensor", "finfo")
# What trainers, and what they call, are named.
_PARTS = (
    *(
        "Trainer",
        "Module",
        "Callback",
        "CallBack",
        "Hook",
        "Hooks",
        "Plugin",
        "Handler",
        "Extension",
    ),
    *("Logger", "Monitor", "Recorder", "Tracker", "Runner", "Engine", "Learner", "CB"),
)


def is_step_hook(name: str) -> bool:
    """Whether trainers call a method of this name on every step."""
    return name in _STEP_HOOKS or _NAMED_STEP_HOOK.fullmatch(name) is not None


def is_hook_name(text: object) -> TypeGuard[str]:
    """Whether a text names a hook, which is called by it: ``self.call("after_train_iter")``."""
    return isinstance(text, str) and _HOOK.fullmatch(text) is not None


def is_trainer_part(owner: ast.ClassDef) -> bool:
    """Whether a class is a module, a callback or a trainer of Lightning or transformers."""
    for base in owner.bases:
        last = last_part(base)
        if last.endswith(_PARTS):
            return True
    return owner.name.endswith(_PARTS[2:])


def says_tensor(hint: str) -> bool:
    """Whether an annotation names a tensor of torch, not a container, a function or a class of
    another kind.
    """
    others = ("list", "dict", "tuple", "callable")
    container = any(kind in hint.lower() for kind in others)
    return not container and _TENSOR.search(hint) is not None


def on_device(value: Value) -> bool:
    """Whether a value is a tensor of the device, or would be if its needs hold."""
    tensor = value.kinds & v.TENSOR and value.device != v.ON_HOST
    return bool(tensor) and (not value.kinds & v.UNKNOWN or bool(value.needs))


def of_annotation(hint: str, function: str, parameter: str) -> Value | None:
    """A parameter that an annotation says is a tensor: of the device, unless all calls pass one of
    the host. None for others.
    """
    if not says_tensor(hint):
        return None
    found = v.tensor(f"`{parameter}` is annotated as a tensor", device=v.ON_DEVICE)
    return found._replace(device_of=Need("away", function, parameter))


def is_read(value: Value) -> bool:
    """Whether Python waits for a value where it asks for a number: what an object of the device
    holds may be one.
    """
    return on_device(value) and value.cls != OF_OBJECT


def cost(
    kind: str,
    node: ast.expr,
    subject: str,
    about: Value | None = None,
    notes: tuple[tuple[str, str], ...] = (),
) -> Event:
    """The event of what an expression costs on every step, if what ``about`` rests on holds."""
    needs = about.needs if about is not None else ()
    if about is not None and about.device_of is not None and about.device_of.kind == "away":
        needs = (*needs, about.device_of)
    why = (about.why,) if about is not None and about.why else ()
    return Event(kind, span_of(node), subject, needs, why, notes)


def over_batches(iterated: ast.expr) -> bool:
    """Whether what a loop goes over is called a data loader, or batches."""
    of_epochs = isinstance(iterated, ast.Name) and "epoch" in iterated.id.lower()
    return not of_epochs and _BATCHES.search(ast.unparse(iterated)) is not None


def is_batch(value: Value) -> bool:
    """Whether a value is (a part of) what a data loader gives."""
    return value.cls == "batch"


def losses(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The expressions whose gradients these nodes compute: of ``loss.backward()``,
    ``scaler.scale(loss).backward()``, ``accelerator.backward(loss)``.
    """
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        if _is_wrapped_step(node) or _gets_optimizer(node):
            yield from _plain(node.args[0])
            continue
        if not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("backward", "manual_backward", "_backward"):
            continue
        alone = len(node.args) < 2 or node.func.attr != "backward"
        if not alone and "loss" not in ast.unparse(node).lower():
            continue  # of a transform, or of a layer that computes them by hand
        if node.args and dotted(node.func.value) != "torch.autograd":
            receiver = node.args[0]
        else:
            receiver = node.func.value
        if isinstance(receiver, ast.Call) and receiver.args:
            inner = receiver.func
            scaled = isinstance(inner, ast.Attribute) and inner.attr in ("scale", "scale_loss")
            receiver = receiver.args[0] if scaled else receiver
        if not isinstance(receiver, (ast.Constant, ast.List, ast.Tuple)):
            yield from _plain(receiver)


def names_optimizer(node: ast.expr) -> bool:
    """Whether something is called an optimizer: ``self.optimizer``, ``G_opt``."""
    return _OPTIMIZER.search(last_part(node)) is not None


def _is_wrapped_step(call: ast.Call) -> bool:
    """``self.optim.step(loss)``: an optimizer of the project's own that computes the gradients."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "step" or len(call.args) != 1:
        return False
    given = call.args[0]
    named = isinstance(given, ast.Name) and "closure" not in given.id
    return named and names_optimizer(function.value)


def _gets_optimizer(call: ast.Call) -> bool:
    """``loss_scaler(loss, optimizer)``: an object of the project's own that computes the gradients
    and steps.
    """
    if not call.args or _COMPUTING.search(last_part(call.func).lower()) is None:
        return False
    others = [*call.args[1:], *(item.value for item in call.keywords)]
    return _OF_LOSS.search(last_part(call.args[0]).lower()) is not None and any(
        names_optimizer(each) for each in others
    )


def _plain(node: ast.expr) -> Iterator[ast.expr]:
    """``loss`` for ``(loss / n)``, ``loss.mean()``, and both of ``a + b``: what the gradients flow
    into first.
    """
    if isinstance(node, ast.BinOp):
        yield from _plain(node.left)
        if isinstance(node.op, (ast.Add, ast.Sub)) or isinstance(node.left, ast.Constant):
            yield from _plain(node.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        wrapped = node.func.attr in ("mean", "sum", "float", "to", "squeeze")
        yield from _plain(node.func.value) if wrapped else iter((node,))
    elif not isinstance(node, ast.Constant):
        yield node


def hooks(call: ast.Call) -> bool:
    """Whether a call is passed what is called with each gradient of a tensor."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "register_hook"


def of_torch(of: Callable[[ast.expr], Value], name: str, node: ast.Call) -> Value:
    """The result of a function or class of torch."""
    head, _, last = name.rpartition(".")
    if name == "torch.autograd.Variable" and node.args:
        return of(node.args[0])
    if last == "TensorDataset" and node.args:
        there = all(on_device(each) and not each.needs for each in map(of, node.args))
        return PREPARED if there else v.OTHER_VALUE
    if last in _OBJECTS:
        data = of(node.args[0]) if node.args else v.UNKNOWN_VALUE
        return data if data == PREPARED else _OBJECTS[last]
    if head.startswith("torch.nn") and last[:1].isupper():
        return MODULE
    if last in ops.TYPED_CONSTRUCTORS:
        return HOST if head == "torch" else MOVED
    if name.startswith(PREFIX) and last[:1].isupper():
        return _distribution(of, name, node)
    return _of_torch_function(of, name, node)


def _of_torch_function(of: Callable[[ast.expr], Value], name: str, node: ast.Call) -> Value:
    head, _, last = name.rpartition(".")
    if last.startswith("clip_grad_norm") or last == "get_total_norm":
        return v.tensor("it is the norm of all gradients", device=v.ON_DEVICE)
    if name == "torch.autograd.grad":
        return Value(v.SEQUENCE, item=GRADIENT)
    if head == "torch" and last in ops.FACTORIES | ops.FROM_DATA | ops.INT_FACTORIES:
        return _made(of, node, last)
    if last == "default_collate":  # of torch.utils.data
        return BATCH
    if name.startswith(ops.OTHER_NAMESPACES) or head.startswith("torch.optim"):
        return v.OTHER_VALUE
    if last in _NO_TENSORS:
        return v.OTHER_VALUE
    if last in ("equal", "allclose") or last.startswith("is_"):
        return v.NUMBER_VALUE
    if last in ("load", "is_grad_enabled", "get_default_dtype", "set_grad_enabled"):
        return v.UNKNOWN_VALUE
    return _of_operands(of, node)


def _made(of: Callable[[ast.expr], Value], node: ast.Call, name: str) -> Value:
    placed = [item.value for item in node.keywords if item.arg == "device"]
    if not placed:
        data = of(node.args[0]) if node.args and name in ("as_tensor", "asarray") else HOST
        return data if data.is_tensor else HOST
    host = isinstance(placed[0], ast.Constant) and placed[0].value in ("cpu", None)
    return HOST if host else MOVED


def _distribution(of: Callable[[ast.expr], Value], name: str, node: ast.Call) -> Value:
    """An object of a class of torch.distributions: it is where its arguments are."""
    given = of_arguments(of, node)
    said = [item.value for item in node.keywords if item.arg == "validate_args"]
    unchecked = bool(said) and isinstance(said[0], ast.Constant) and said[0].value is False
    return given._replace(kinds=v.INSTANCE, cls=name, flags=v.LITERAL if unchecked else 0)


def of_arguments(of: Callable[[ast.expr], Value], node: ast.Call) -> Value:
    """The tensors that a call gets, as one value; on the device where nothing says where."""
    found = _of_operands(of, node)
    values = map(of, (*node.args, *(item.value for item in node.keywords)))
    open_ = found == v.UNKNOWN_VALUE and any(each.kinds == v.UNKNOWN for each in values)
    return PRESUMED if open_ else _opened(found)


def _of_operands(of: Callable[[ast.expr], Value], node: ast.Call) -> Value:
    """On the device where an operand is, on the host where all are."""
    values = [of(each) for each in (*node.args, *(item.value for item in node.keywords))]
    parts = [each if each.is_tensor else v.element(each) for each in values]
    for found in (
        [each for each in parts if on_device(each) and not each.needs],
        [each for each in parts if on_device(each)],
    ):
        if found:
            return found[0]._replace(flags=found[0].flags & ~v.SYMBOL, cls="")
    if any(each.kinds & v.TENSOR for each in parts):
        return HOST
    return v.UNKNOWN_VALUE


def computed(found: Value, values: list[Value], name: str) -> Value:
    """What a function of torch gives, where nothing says what it computes with."""
    head, _, last = name.rpartition(".")
    if head not in ("torch", "torch.nn.functional", "torch.linalg") or last in _OF_ANYTHING:
        return found
    if found == v.UNKNOWN_VALUE:
        open_ = any(each.kinds == v.UNKNOWN for each in values)
        return PRESUMED if open_ else found
    return _opened(found)


def of_tensors_only(call: ast.Call, method: str) -> bool:
    """Whether a method is called that of all arrays only tensors have."""
    return method in _OF_TENSORS_ONLY or any(item.arg == "dim" for item in call.keywords)


def shown(value: Value) -> Value:
    """A value that is used as only tensors are."""
    return PRESUMED if value.kinds == v.UNKNOWN and not value.cls else _opened(value)


def _opened(value: Value) -> Value:
    """What a function is passed, or gets where no caller says what it passes; and what a function
    gives, or one that is not of the project.
    """
    need = value.needs[0] if len(value.needs) == 1 else None
    if need is not None and need.kind == "any":
        need = need.choices[0][0]
    if need is None or need.kind not in ("param", "return"):
        return value
    name = need.name.partition("|")[0] if need.kind == "param" else ""
    open_ = Need("open", need.owner, name)
    return value._replace(needs=any_of(value.needs, (open_,)), flags=value.flags & ~v.SYMBOL)
