"""What one expression or statement costs on every step of a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.device_moves import moves_to_device, moves_to_host, names_cuda
from pygraph_lint.analysis.domain.events import EVERY, Event, Need, not_on_host
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.transfer.distributions import (
    CHECKED,
    PREFIX,
    checks_what_it_gets,
    is_distribution,
)
from pygraph_lint.analysis.loops.calls import (
    COMPARING,
    MOVED,
    PREPARING,
    PRESUMED,
    cost,
    is_batch,
    is_read,
    of_arguments,
    on_device,
    shown,
)
from pygraph_lint.analysis.loops.device_copies import DeviceCopies
from pygraph_lint.analysis.loops.indexing import Indexing
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.program.facts import ACTS, MAY_CALL_STEP, PER_BATCH
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, negated, source_of

_NOT_COMPUTING = PER_BATCH | {MAY_CALL_STEP, ACTS}
# Calls that turn what they get into text, by the last part of their name.
_PRINTING = frozenset(("print", "info", "debug", "warning", "write", "set_description"))
_SHOWING = frozenset(("set_postfix", "set_description", "set_postfix_str"))
_SCALARS = frozenset(("add_scalar", "add_scalars", "add_histogram", "log_metric", "log_scalar"))
_WRITERS = ("wandb.", "mlflow.", "swanlab.", "comet_ml.")
_WAITING = frozenset(
    (
        "torch.cuda.synchronize",
        "torch.xpu.synchronize",
        "torch.mps.synchronize",
        "torch.accelerator.synchronize",
    )
)
# Others raise for a tensor of a device.
_NUMPY_NUMBERS = frozenset(
    f"numpy.{name}" for name in "float32 float64 int32 int64 bool_ float16".split()
)
# Functions whose results are as large as values say.
_COUNTING = frozenset(
    f"torch.{name}" for name in "nonzero unique masked_select argwhere bincount".split()
)
_EMPTYING = frozenset(
    (
        "torch.cuda.empty_cache",
        "torch.xpu.empty_cache",
        "torch.mps.empty_cache",
        "torch.accelerator.empty_cache",
        "torch.npu.empty_cache",
    )
)
_FROM_DATA = frozenset(
    f"torch.{name}" for name in ("tensor", "as_tensor", "from_numpy", "FloatTensor")
)
_COMPARING = frozenset(f"torch.{name}" for name in COMPARING)
_OF_TENSORS = ("new_tensor", "nonzero", "unique", "masked_select")
_OF_TORCH = _EMPTYING | _WAITING | _FROM_DATA | _COMPARING | _COUNTING


class Costs:
    """Events of single expressions and statements, from what their values are."""

    def __init__(self, values: LoopValues, step: ast.AST, why: str) -> None:
        """``why`` a loop or function is run on every step; empty for one that a step may call."""
        self.values = values
        self.indexing = Indexing(values)
        self.step = step
        # Whether the code itself computes gradients on every step.
        self.in_step = bool(why) and why not in _NOT_COMPUTING
        self.copies = DeviceCopies(values, step, self.in_step, helps=not why)

    def of_statement(self, node: ast.stmt) -> Iterator[Event]:
        """A branch on a tensor."""
        if isinstance(node, (ast.If, ast.While, ast.Assert)):
            yield from self._branch(node.test)

    def of_expression(self, node: ast.expr) -> Iterator[Event]:
        """What evaluating the expression itself costs, without its operands."""
        if isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from self._shown(part.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            if self.values.of(node.left).kinds == v.TEXT:
                yield from self._shown(node.right)
        elif isinstance(node, ast.IfExp):
            yield from self._branch(node.test)
        elif isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                yield from self._branch(part)
        elif (inner := negated(node)) is not None:
            yield from self._branch(inner)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            if _is_scale_of_state(node):
                yield cost("loop.read", node, source_of(node, 40))
            yield from self.indexing.selected(node)
        elif isinstance(node, ast.Subscript):
            yield from self.indexing.stored(node)

    # -- kinds of cost

    def _branch(self, test: ast.expr) -> Iterator[Event]:
        if isinstance(test, ast.BoolOp):
            test = test.values[-1]
        if negated(test) is not None:
            return  # reported where it stands
        if isinstance(test, ast.Attribute) and self._is_called(test):
            return  # a module that may be missing
        if self.values.parameters.is_container(test):
            return
        value = self.values.of(test)
        if is_read(value):
            notes = (("inner", "yes"),) if self._turns_on_values(test) else ()
            bare = isinstance(test, (ast.Name, ast.Attribute))
            if bare and (value.needs or self._may_be_object(test, value)):
                value = value._replace(needs=(*value.needs, EVERY))  # mostly a flag
            yield cost("loop.branch", test, source_of(test, 40), value, notes)

    def _may_be_object(self, test: ast.expr, value: Value) -> bool:
        """Whether what is called a tensor by an annotation, or as it is moved to the device, may be
        another object: of a tensor few ask for the bare truth.
        """
        found = self.values.queries.definitions.reaching(test) if isinstance(test, ast.Name) else ()
        calls = (each.value for each in found if isinstance(each.value, ast.Call))
        moved = any(map(moves_to_device, calls))
        return (moved and value.why == MOVED.why) or self.values.is_only_annotated(test)

    def _turns_on_values(self, test: ast.expr) -> bool:
        """Whether a branch is in a `while` inside of the step, which it may end."""
        for each in self.values.queries.path(test):
            if each is self.step or isinstance(each, FUNCTIONS):
                return False
            if isinstance(each, ast.While):
                return True
        return False

    def _is_called(self, attribute: ast.Attribute) -> bool:
        written = dotted(attribute)
        return written is not None and written in self.values.evidence.called

    def _call(self, node: ast.Call) -> Iterator[Event]:
        name = self.values.queries.qualified(node.func) or self.values.of(node.func).cls
        if name.startswith("builtins."):
            yield from self._builtin(node, name.removeprefix("builtins."))
        elif name.startswith("math.") or name in _NUMPY_NUMBERS:
            for each in node.args:
                if is_read(self.values.of(each)):
                    yield cost("loop.read", node, name, self.values.of(each))
        elif name in _OF_TORCH or name.startswith(PREFIX):
            yield from self._torch(node, name)
        elif name.startswith("torch.cuda.") and name.rpartition(".")[2] in ops.TYPED_CONSTRUCTORS:
            yield from self._typed(node, name)
        elif isinstance(node.func, ast.Attribute):
            yield from self._method(node, node.func)
        if self.in_step and PREPARING.search(last_part(node.func)):
            self.copies.moves_batches |= any(is_batch(self.values.of(each)) for each in node.args)

    def _torch(self, node: ast.Call, name: str) -> Iterator[Event]:
        """A function or class of torch that makes the host wait."""
        if name in _EMPTYING:
            yield cost("loop.empty-cache", node, name)
        elif name in _WAITING:
            yield cost("loop.synchronize", node, name)
        elif name in _FROM_DATA:
            yield from self._made(node, name)
        elif name in _COMPARING:
            values = [self.values.of(each) for each in node.args]
            if any(on_device(value) and not value.needs for value in values):
                yield cost("loop.read", node, name)
        elif name in _COUNTING:
            value = shown(self.values.of(node.args[0])) if node.args else v.UNKNOWN_VALUE
            if on_device(value):
                yield cost("loop.read", node, name, value)
        elif name.startswith(PREFIX):
            yield from self._distribution(node, name)

    def _distribution(self, node: ast.Call, name: str) -> Iterator[Event]:
        """``Categorical(logits=x)``, which looks at the values of its arguments."""
        made = self.values.of(node)
        if is_distribution(made) and checks_what_it_gets(name.rpartition(".")[2]):
            yield from self._checked(node, made, of_arguments(self.values.of, node))

    def _checked(self, node: ast.Call, by: Value, given: Value, only: str = "") -> Iterator[Event]:
        """``only``: where no class of the project has this method."""
        if on_device(given) and not by.flags & v.LITERAL:
            about = given._replace(needs=(*given.needs, Need("checks", "", only)))
            yield cost("loop.read", node, source_of(node, 40), about, _CHECKED)

    def _builtin(self, node: ast.Call, name: str) -> Iterator[Event]:
        if name in ("float", "int", "bool", "round", "complex") and node.args:
            value = self.values.of(node.args[0])
            if is_read(value):
                yield cost("loop.read", node, f"{name}()", value)
        elif name in ("print", "str", "repr", "format"):
            for each in node.args:
                yield from self._shown(each)
        elif name in ("any", "all") and node.args:
            value = v.element(self.values.of(node.args[0]))
            if isinstance(node.args[0], _OF_EACH) and is_read(value):
                yield cost("loop.branch", node, f"{name}()", value)
        elif name in ("max", "min") and len(node.args) > 1:
            for each in node.args:
                value = self.values.of(each)
                if is_read(value):
                    yield cost("loop.branch", node, f"{name}()", value)
                    return

    def _shown(self, part: ast.expr) -> Iterator[Event]:
        """A value turned into text."""
        parts = part.elts if isinstance(part, (ast.Tuple, ast.List)) else [part]
        for each in parts:
            value = self.values.of(each)
            if is_read(value):
                yield cost("loop.print", each, source_of(each, 40), value)

    def _made(self, node: ast.Call, name: str) -> Iterator[Event]:
        """A tensor made from host data on the device."""
        placed = [item.value for item in node.keywords if item.arg == "device"]
        host = placed and isinstance(placed[0], ast.Constant) and placed[0].value in ("cpu", None)
        given = self.values.of(node.args[0]) if node.args else v.UNKNOWN_VALUE
        certain = on_device(given) and not given.needs
        if placed and not host and not certain:
            notes = (("number", "yes"),) if given.kinds == v.NUMBER else ()
            giver = _given_by(given)
            needs = (Need("not", "", "", ((giver,),)),) if giver is not None else ()
            yield cost("loop.copy", node, name, v.tensor("", needs=needs), notes)

    def _typed(self, node: ast.Call, name: str) -> Iterator[Event]:
        """``torch.cuda.FloatTensor(array)``: numbers are sizes."""
        given = self.values.of(node.args[0]) if len(node.args) == 1 else v.UNKNOWN_VALUE
        if given.kinds & (v.NUMPY | v.SEQUENCE):
            yield cost("loop.copy", node, name)

    def _method(self, node: ast.Call, function: ast.Attribute) -> Iterator[Event]:
        method, receiver = function.attr, function.value
        forced = method == "numpy" and bool(node.keywords)  # else it raises for one of a device
        if method in ("item", "tolist", "__float__", "__int__") or forced or moves_to_host(node):
            yield from self._copied_to_host(node, method, receiver)
        elif moves_to_device(node) or (method == "type" and names_cuda(self.values.of, node)):
            yield from self.copies.moved(node, receiver)
        elif method == "copy_" and node.args:
            yield from self.copies.copied(node, receiver)
        elif method in CHECKED:
            yield from self._distribution_method(node, method, receiver)
        elif method in _OF_TENSORS or method in COMPARING:
            yield from self._tensor_method(node, method, self.values.of(receiver))
        elif method == "synchronize" and "stream" in (dotted(receiver) or "").lower():
            yield cost("loop.synchronize", node, source_of(node, 40))
        elif method == "get_scale" and not node.args:
            yield cost("loop.read", node, source_of(node, 40))
        elif method in _SHOWING or method == "format" or self._writes_scalar(node, method):
            yield from self._given_to_text(node, method)
        elif method in _PRINTING and _is_logger(receiver):
            for each in node.args:
                yield from self._shown(each)

    def _distribution_method(
        self, node: ast.Call, method: str, receiver: ast.expr
    ) -> Iterator[Event]:
        """``distribution.log_prob(x)``, which looks at the values of ``x``."""
        of = self.values.of(receiver)
        if is_distribution(of):
            yield from self._checked(node, of, of_arguments(self.values.of, node))
        elif on_device(of) and not of.needs:  # no tensor has it: the model gives a distribution
            yield from self._checked(node, of, of_arguments(self.values.of, node), method)

    def _tensor_method(self, node: ast.Call, method: str, value: Value) -> Iterator[Event]:
        """``x.new_tensor(data)``, ``x.nonzero()``."""
        value = shown(value) if method == "masked_select" else value  # of tensors only
        if method == "new_tensor":
            if node.args and on_device(value) and not on_device(self.values.of(node.args[0])):
                yield cost("loop.copy", node, source_of(node, 40), value)
        elif on_device(value) and not value.flags & v.SYMBOL:
            yield cost("loop.read", node, f".{method}()", value)

    def _copied_to_host(self, node: ast.Call, method: str, receiver: ast.expr) -> Iterator[Event]:
        """``loss.item()``, ``x.cpu()``."""
        value = self.values.of(receiver)
        if method == "item" and self._may_be_on_device(receiver, value):
            value = shown(value)
            if value == PRESUMED and self._is_of_objects(node, receiver):
                value = value._replace(needs=(*value.needs, EVERY))
        open_ = bool(value.kinds & v.UNKNOWN) and not is_batch(value)
        if method == "cpu" and open_:  # nobody copies to the host what may be there
            yield cost("loop.read", node, f".{method}()")
        elif on_device(value):
            given = _given_by(value) if self.in_step and method == "item" else None
            if given is not None:
                value = v.tensor("", needs=(not_on_host(given),))
            yield cost("loop.read", node, f".{method}()", value)

    def _writes_scalar(self, node: ast.Call, method: str) -> bool:
        """Whether a writer of an unknown class gets a number: no function of a module."""
        name = self.values.queries.qualified(node.func)
        if name is None:
            return method in _SCALARS
        return name.startswith(_WRITERS) and (method in _SCALARS or method == "log")

    def _given_to_text(self, node: ast.Call, method: str) -> Iterator[Event]:
        parts = [*node.args, *(item.value for item in node.keywords)]
        for part in parts:
            for each in part.values if isinstance(part, ast.Dict) else [part]:
                yield from self._shown(each)

    def _may_be_on_device(self, node: ast.expr, value: v.Value) -> bool:
        """Whether what nothing is known of is no number of NumPy's, as in ``np.finfo(x).eps``."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            if (self.values.queries.qualified(node) or "").startswith("numpy."):
                return False
            node = node.func if isinstance(node, ast.Call) else node.value
        return bool(value.kinds & v.UNKNOWN)

    def _is_of_objects(self, item: ast.Call, receiver: ast.expr) -> bool:
        """Whether an object that another one has holds this, wherever that is, or what ``item``
        gives is no number: ``self.penalty.factor.item()``, ``schema.item().size``.
        """
        parent = self.values.queries.parent(item)
        return isinstance(parent, ast.Attribute) or (dotted(receiver) or "").count(".") > 1


def _is_scale_of_state(node: ast.Subscript) -> bool:
    """``scaler.state_dict()["scale"]``: the state of a `GradScaler` has the scale as a number."""
    key, state = node.slice, node.value
    return (
        isinstance(key, ast.Constant)
        and key.value == "scale"
        and isinstance(state, ast.Call)
        and isinstance(state.func, ast.Attribute)
        and state.func.attr == "state_dict"
    )


def _given_by(value: Value) -> Need | None:
    """The function of the project that gives a value, as a need."""
    first = value.needs[0] if value.needs else None
    inner = [each for choice in first.choices for each in choice] if first is not None else []
    return next((each for each in (first, *inner) if each and each.kind == "return"), None)


def _is_logger(receiver: ast.expr) -> bool:
    last = last_part(receiver).lower()
    return "log" in last or last in ("tqdm", "accelerator", "console", "pbar")


_OF_EACH = (ast.GeneratorExp, ast.ListComp, ast.List, ast.Tuple)
_CHECKED = (("checked", "yes"),)
