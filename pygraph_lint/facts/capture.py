"""Hazards of CUDA graphs captured by hand, and of keeping what a replay overwrites.

Unlike the rest of the analysis this looks at the code *around* a capture: warm-up, streams, optimizers, outputs kept
between replays. It reads one module's syntax tree, follows names inside one function, class or module, and reports only
where construction and use are both in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from pygraph_lint.facts.events import Event, Span
from pygraph_lint.facts.names import FunctionNode, Names

MENTIONS = (
    "cuda.graph",
    "CUDAGraph",
    "make_graphed_callables",
    "reduce-overhead",
    "max-autotune",
    "triton.cudagraphs",
    "MemPool",
    "import graph",
)

_GRAPH_CONTEXTS = ("torch.cuda.graph", "torch.cuda.graphs.graph")
_MAKERS = {
    "torch.cuda.CUDAGraph": "graph",
    "torch.cuda.graphs.CUDAGraph": "graph",
    "torch.cuda.make_graphed_callables": "graphed",
    "torch.cuda.graphs.make_graphed_callables": "graphed",
    "torch.compile": "compiled",
    "torch.Generator": "generator",
    "torch.cuda.Stream": "stream",
    "torch.amp.GradScaler": "scaler",
    "torch.amp.grad_scaler.GradScaler": "scaler",
    "torch.cuda.amp.GradScaler": "scaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "scaler",
}
# The optimizers whose step() refuses a capture unless `capturable=True` was given.
_CAPTURABLE = frozenset(
    ("Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
)
_GRAPH_MODES = ("reduce-overhead", "max-autotune")
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast")
_HOOKS = frozenset(
    (
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_backward_hook",
    )
)
_CHECKPOINTS = ("torch.utils.checkpoint.checkpoint",)
# Methods of a module that do not run its forward.
_QUIET_METHODS = frozenset(
    """bfloat16 compile cpu cuda double eval float half load_state_dict modules named_modules named_parameters parameters
    buffers named_buffers children named_children requires_grad_ share_memory state_dict to to_empty train type
    zero_grad""".split()
)
_SYNC_METHODS = frozenset(("item", "tolist", "cpu", "numpy"))


def mentioned(text: str) -> bool:
    """Whether a module's source says anything this file looks for; cheap, to be asked before ``capture_events``."""
    return any(word in text for word in MENTIONS)


def capture_events(tree: ast.Module, names: Names) -> list[Event]:
    """Every ``capture.*`` event of a module, in order of position. ``names`` are the module's bindings."""
    module = Scope.of_module(tree, names)
    found: list[Event] = []
    for scope in _scopes(module, tree.body, None):
        for check in _CHECKS:
            found.extend(check(scope))
    return sorted(set(found), key=lambda event: (event.span, event.kind))


@dataclass(frozen=True)
class Made:
    """What a name was bound to: ``kind`` is a value of ``_MAKERS``, ``optimizer``, or ``call`` for any other call."""

    kind: str
    name: str
    call: ast.Call
    graphs: bool = False

    def has(self, keyword: str, value: object) -> bool:
        """Whether the call has ``keyword=value``, or may have (``**options``, a value not written out)."""
        for given in self.call.keywords:
            if given.arg is None:
                return True
            if given.arg == keyword:
                return not isinstance(given.value, ast.Constant) or given.value.value == value
        return False


@dataclass(frozen=True)
class Capture:
    """One ``with torch.cuda.graph(...)`` block."""

    block: ast.With
    item: ast.withitem
    graph: str | None
    nodes: tuple[ast.AST, ...]

    @property
    def call(self) -> ast.Call:
        """The call of ``torch.cuda.graph``."""
        assert isinstance(self.item.context_expr, ast.Call)
        return self.item.context_expr

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Names and attributes bound in the block."""
        return frozenset(key for node in self.nodes for key, _ in _bindings(node))

    def is_argument(self, key: str) -> bool:
        """Whether ``key`` is read in the block other than as the thing that is called or as a root of a longer name."""
        used = [node for node in self.nodes if _key(node) == key and _is_load(node)]
        heads = set()
        for node in self.nodes:
            if isinstance(node, ast.Call):
                heads.add(id(node.func))
            elif isinstance(node, ast.Attribute):
                heads.add(id(node.value))
        return any(id(node) not in heads for node in used)


@dataclass
class Scope:
    """A function's or the module's own statements, and what its names hold.

    ``nodes`` are in order of the source, nested functions and classes left out.
    """

    names: Names
    nodes: list[ast.AST]
    outer: dict[str, Made] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    owner: ClassFacts | None = None

    @classmethod
    def of_module(cls, tree: ast.Module, names: Names) -> Scope:
        """The module's own scope."""
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        scope = cls(names, list(_own_nodes(tree.body)), classes=classes)
        scope.outer = _decorated(tree.body, names)
        return scope

    def child(self, function: FunctionNode, owner: ClassFacts | None) -> Scope:
        """The scope of a function directly inside this one."""
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = self.names.scope(function)
        outer = {**self.outer, **self.own_made, **_decorated(function.body, names)}
        if owner is not None:
            outer.update(owner.made)
        return Scope(
            names,
            list(_own_nodes(function.body)),
            outer,
            frozenset(argument.arg for argument in given),
            self.classes,
            owner,
        )

    @cached_property
    def bound(self) -> dict[str, list[ast.expr | None]]:
        """What each name or attribute is assigned in this scope; None where it is not a plain assignment."""
        bound: dict[str, list[ast.expr | None]] = {}
        for node in self.nodes:
            for key, value in _bindings(node):
                bound.setdefault(key, []).append(value)
        return bound

    @cached_property
    def own_made(self) -> dict[str, Made]:
        """What is known of names that this scope assigns exactly once, from a call."""
        made = {}
        for key, values in self.bound.items():
            if len(values) == 1 and isinstance(values[0], ast.Call):
                made[key] = _made(values[0], self.names)
        return made

    @cached_property
    def captures(self) -> list[Capture]:
        """The captures in this scope, in order."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.With):
                for item in node.items:
                    call = item.context_expr
                    if (
                        isinstance(call, ast.Call)
                        and self.names.resolve(call.func) in _GRAPH_CONTEXTS
                    ):
                        graph = _key(_argument(call, 0, "cuda_graph"))
                        found.append(Capture(node, item, graph, tuple(_own_nodes(node.body))))
        return found

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call in this scope."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def made(self, node: ast.AST | None) -> Made | None:
        """What the name or attribute ``node`` holds, where it is bound once and to a call."""
        key = _key(node)
        if key is None:
            return None
        if key in self.bound:
            return self.own_made.get(key)
        if key.partition(".")[0] in self.parameters and not key.startswith("self."):
            return None
        return self.outer.get(key)

    def is_call(self, node: ast.AST, *qualified: str) -> bool:
        """Whether ``node`` calls one of the functions named."""
        return isinstance(node, ast.Call) and self.names.resolve(node.func) in qualified


@dataclass
class ClassFacts:
    """What the methods of one class agree on: attributes of self, and the captures made with them."""

    made: dict[str, Made] = field(default_factory=dict)
    captures: list[Capture] = field(default_factory=list)


def _scopes(scope: Scope, body: list[ast.stmt], owner: ClassFacts | None) -> Iterator[Scope]:
    yield scope
    yield from _inner_scopes(scope, body, owner)


def _inner_scopes(scope: Scope, body: list[ast.stmt], owner: ClassFacts | None) -> Iterator[Scope]:
    for node in _definitions(body):
        if isinstance(node, ast.ClassDef):
            yield from _inner_scopes(scope, node.body, _class_facts(node, scope))
        else:
            yield from _scopes(scope.child(node, owner), node.body, owner)


def _class_facts(node: ast.ClassDef, outer: Scope) -> ClassFacts:
    facts = ClassFacts()
    bound: dict[str, list[tuple[ast.expr | None, Names]]] = {}
    for method in _definitions(node.body):
        if isinstance(method, ast.ClassDef):
            continue
        scope = outer.child(method, None)
        facts.captures.extend(scope.captures)
        for key, values in scope.bound.items():
            if key.startswith("self."):
                bound.setdefault(key, []).extend((value, scope.names) for value in values)
    for key, pairs in bound.items():
        kept = [(value, names) for value, names in pairs if not _is_none(value)]
        if len(kept) == 1 and isinstance(kept[0][0], ast.Call):
            facts.made[key] = _made(kept[0][0], kept[0][1])
    return facts


def _definitions(body: list[ast.stmt]) -> Iterator[FunctionNode | ast.ClassDef]:
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.stmt, ast.ExceptHandler)):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node below ``body`` in order of the source; nested functions and classes are not entered."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _key(node: ast.AST | None) -> str | None:
    """``name`` or ``self.graph`` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _key(node.value)
        return f"{head}.{node.attr}" if head else None
    return None


def _is_load(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Names and attributes that a statement binds, each with the value where it is a plain assignment."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from _targets(node.target, node.value)
    elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)):
        yield from _targets(node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, None)


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _targets(element, None)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None)
    else:
        key = _key(target)
        if key is not None:
            yield key, value


def _argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    if position < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args):
        return call.args[position]
    return None


def _made(call: ast.Call, names: Names) -> Made:
    name = names.resolve(call.func) or ""
    kind = _MAKERS.get(name, "call")
    if kind == "compiled":
        return Made(kind, name, call, _uses_graphs(call))
    if isinstance(call.func, ast.Call) and names.resolve(call.func.func) == "torch.compile":
        return Made("compiled", "torch.compile", call, _uses_graphs(call.func))
    if name.startswith("torch.optim.") and name.rpartition(".")[2][:1].isupper():
        kind = "optimizer"
    return Made(kind, name, call)


def _uses_graphs(compile_call: ast.Call) -> bool:
    mode = _argument(compile_call, 99, "mode")
    if isinstance(mode, ast.Constant):
        return mode.value in _GRAPH_MODES
    options = _argument(compile_call, 99, "options")
    if isinstance(options, ast.Dict):
        for key, value in zip(options.keys, options.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "triton.cudagraphs":
                return isinstance(value, ast.Constant) and value.value is True
    return False


def _decorated(body: list[ast.stmt], names: Names) -> dict[str, Made]:
    """Functions decorated with torch.compile, by name."""
    made = {}
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    if names.resolve(decorator.func) == "torch.compile":
                        graphs = _uses_graphs(decorator)
                        made[node.name] = Made("compiled", "torch.compile", decorator, graphs)
    return made


def _start(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def _end(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))


def _event(kind: str, node: ast.expr | ast.stmt, *evidence: str) -> Event:
    span = Span(
        node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0
    )
    return Event(kind, span, _short(node), evidence=evidence)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- the checks: each looks at one scope and yields what is certain ---------------------------------------


def _kept_outputs(scope: Scope) -> Iterator[Event]:
    for loop in scope.nodes:
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            yield from _kept_in_loop(scope, loop)
        elif isinstance(loop, (ast.ListComp, ast.DictComp)):
            element = loop.elt if isinstance(loop, ast.ListComp) else loop.value
            reason = _overwritten(scope, _unwrapped(element), {})
            if reason:
                yield _event("capture.kept-output", element, reason)


def _kept_in_loop(scope: Scope, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[Event]:
    nodes = list(_own_nodes(loop.body))
    bound_inside = {key for node in [loop, *nodes] for key, _ in _bindings(node)}
    outputs = _replayed_outputs(scope, nodes)
    for node in nodes:
        for key, value in _bindings(node):
            outputs.pop(key, None)
            reason = _overwritten(scope, _unwrapped(value), outputs) if value else ""
            if reason:
                outputs[key] = reason
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            reason = _overwritten(scope, node.value, {})
            for target in node.targets:
                if reason and isinstance(target, ast.Tuple):
                    outputs.update({key: reason for key, _ in _targets(target, None)})
        for kept, container in _kept_by(node):
            if container is not None and container not in bound_inside:
                reason = _overwritten(scope, _unwrapped(kept), outputs)
                if reason:
                    yield _event("capture.kept-output", kept, reason)


def _kept_by(node: ast.AST) -> Iterator[tuple[ast.expr, str | None]]:
    """Values that a statement puts into a container, with the container's name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("append", "appendleft", "add") and len(node.args) == 1:
            yield node.args[0], _key(node.func.value)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
                if isinstance(node.value, (ast.Name, ast.Call, ast.Attribute)):
                    yield node.value, _dict_like(target)


def _dict_like(target: ast.Subscript) -> str | None:
    """The container of ``kept[key] = value`` where the key is text: a tensor would copy, not keep."""
    is_text = isinstance(target.slice, ast.JoinedStr) or (
        isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    )
    return _key(target.value) if is_text else None


def _unwrapped(node: ast.expr) -> ast.expr:
    """``y`` for ``y.detach()``: another tensor object over the same memory."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("detach", "view", "squeeze", "unsqueeze")
    ):
        node = node.func.value
    return node


def _overwritten(scope: Scope, node: ast.expr, outputs: dict[str, str]) -> str:
    """Why the next replay writes over ``node``'s memory, or an empty text."""
    key = _key(node)
    if key is not None:
        return outputs.get(key, "")
    if not isinstance(node, ast.Call):
        return ""
    made = scope.made(node.func)
    if made is None:
        return ""
    if made.kind == "compiled" and made.graphs:
        return f"`{_short(node.func)}` is compiled with CUDA graphs on line {made.call.lineno}"
    if made.kind == "graphed":
        return (
            f"`{_short(node.func)}` was made by make_graphed_callables on line {made.call.lineno}"
        )
    return ""


def _replayed_outputs(scope: Scope, nodes: list[ast.AST]) -> dict[str, str]:
    """Tensors bound inside captures whose graph is replayed among ``nodes``."""
    replayed = {_replay_of(node) for node in nodes} - {None}
    captures = [*scope.captures, *(scope.owner.captures if scope.owner else ())]
    return {
        key: f"`{key}` is bound in the capture of `{capture.graph}` on line {capture.block.lineno}"
        for capture in captures
        if capture.graph in replayed
        for key in capture.assigned
    }


def _replay_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "replay" and not node.args:
            return _key(node.func.value)
    return None


def _rebound_inputs(scope: Scope) -> Iterator[Event]:
    captures = list(scope.captures)
    if scope.owner is not None:
        captures.extend(c for c in scope.owner.captures if c.block not in scope.nodes)
    for capture in captures:
        local = capture.block in scope.nodes
        for node in scope.nodes:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            if local and _start(node) < _end(capture.block):
                continue
            key = _key(node.targets[0])
            if key is None or key in capture.assigned or not capture.is_argument(key):
                continue
            if not local and (not key.startswith("self.") or scope.captures):
                continue
            if _is_none(node.value) or not _replayed_unread(scope, capture, node, key):
                continue
            line = capture.block.lineno
            yield _event(
                "capture.input-rebound",
                node,
                f"the capture on line {line} reads `{key}`'s old tensor",
            )


def _replayed_unread(scope: Scope, capture: Capture, assign: ast.Assign, key: str) -> bool:
    """Whether the graph is replayed after ``assign`` and nothing in between reads the new value."""
    for node in scope.nodes:
        if _start(node) <= _end(assign):
            continue
        if capture.graph is not None and _replay_of(node) == capture.graph:
            return True
        if _key(node) == key:
            return False
    return False


def _optimizers(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call, made in _steps(scope, capture, "optimizer"):
            name = made.name.rpartition(".")[2]
            if name in _CAPTURABLE and not made.has("capturable", True):
                yield _event(
                    "capture.optimizer",
                    call,
                    f"`{name}` on line {made.call.lineno} has no capturable=True",
                )


def _scalers(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call, made in _steps(scope, capture, "scaler"):
            optimizer = scope.made(_argument(call, 0, "optimizer"))
            if optimizer is None or optimizer.kind != "optimizer" or optimizer.has("fused", True):
                continue
            yield _event(
                "capture.scaler",
                call,
                f"a GradScaler is made on line {made.call.lineno}; step() reads on the host whether to skip",
            )


def _steps(scope: Scope, capture: Capture, kind: str) -> Iterator[tuple[ast.Call, Made]]:
    for node in capture.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "step":
                made = scope.made(node.func.value)
                if made is not None and made.kind == kind:
                    yield node, made


def _autocasts(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for block in scope.nodes:
            if not isinstance(block, ast.With):
                continue
            outside = _start(block) <= _start(capture.block) and _end(capture.block) <= _end(block)
            for item in block.items if outside else ():
                call = item.context_expr
                if block is capture.block and _start(call) > _start(capture.call):
                    continue
                if isinstance(call, ast.Call) and _caches_casts(scope, call):
                    yield _event(
                        "capture.autocast-cache",
                        call,
                        f"the capture on line {capture.block.lineno} is inside this autocast",
                    )


def _caches_casts(scope: Scope, call: ast.Call) -> bool:
    name = scope.names.resolve(call.func)
    if name not in _AUTOCASTS:
        return False
    made = Made("autocast", name, call)
    if made.has("cache_enabled", False) or made.has("enabled", False):
        return False
    device = _argument(call, 0, "device_type")
    if name == "torch.cuda.amp.autocast":
        return not call.args
    return isinstance(device, ast.Constant) and device.value == "cuda"


def _generators(scope: Scope) -> Iterator[Event]:
    registered = {
        _key(call.args[0])
        for call in scope.calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "register_generator_state"
        and call.args
    }
    for capture in scope.captures:
        for node in capture.nodes:
            if not isinstance(node, ast.Call):
                continue
            given = _argument(node, 99, "generator")
            made = scope.made(given)
            if made is None or made.kind != "generator" or _key(given) in registered:
                continue
            yield _event(
                "capture.generator",
                node,
                f"`{_key(given)}` is made on line {made.call.lineno} and never registered with the graph",
            )


def _side_streams(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        own = _key(_argument(capture.call, 2, "stream"))
        for block in scope.nodes:
            if not isinstance(block, ast.With) or block is capture.block:
                continue
            for item in block.items:
                call = item.context_expr
                if not isinstance(call, ast.Call):
                    continue
                if not scope.is_call(call, "torch.cuda.stream", "torch.cuda.StreamContext"):
                    continue
                key = _key(_argument(call, 0, "stream"))
                made = scope.made(_argument(call, 0, "stream"))
                if key is None or made is None or made.kind != "stream" or key == own:
                    continue
                reason = _unordered(scope, capture, block, key)
                if reason:
                    yield _event("capture.side-stream", call, reason)


def _unordered(scope: Scope, capture: Capture, block: ast.With, stream: str) -> str:
    """Why the work in ``block`` on ``stream`` has no order with the capture; empty if it has."""
    inside = block in capture.nodes
    if not inside and _start(block) > _start(capture.block):
        return ""
    nodes: list[ast.AST] = list(capture.nodes) if inside else list(scope.nodes)
    before = [node for node in nodes if _start(node) < _start(block)]
    if not any(_waits(node, stream) or _syncs(scope, node) for node in before):
        return f"`{stream}` does not wait for the current stream before this block"
    after = [node for node in nodes if _start(node) > _end(block)]
    if inside and not any(_waited_for(node, stream) for node in after):
        return f"no stream waits for `{stream}` before the capture ends"
    return ""


def _waits(node: ast.AST, stream: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("wait_stream", "wait_event", "wait")
        and (_key(node.func.value) == stream or node.func.attr == "wait")
    )


def _waited_for(node: ast.AST, stream: str) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("wait_event", "wait"):
        return True
    return node.func.attr == "wait_stream" and _key(_argument(node, 0, "stream")) == stream


def _syncs(scope: Scope, node: ast.AST) -> bool:
    if scope.is_call(node, "torch.cuda.synchronize", "torch.accelerator.synchronize"):
        return True
    return isinstance(node, ast.Call) and _key(node.func) in ("synchronize",)


def _missing_warmups(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call in capture.nodes:
            if not isinstance(call, ast.Call):
                continue
            made = scope.made(call.func)
            if made is None or made.kind not in ("call", "compiled"):
                continue
            key = _key(call.func)
            if key not in scope.own_made or not _untouched(scope, key, made, capture):
                continue
            if made.kind == "compiled":
                reason = f"`{key}` is compiled on line {made.call.lineno} and first called in the capture"
                yield _event("capture.first-compile", call, reason)
            elif _is_module(scope, made):
                reason = (
                    f"`{key}` is made on line {made.call.lineno} and first called in the capture"
                )
                yield _event("capture.no-warmup", call, reason)


def _untouched(scope: Scope, key: str, made: Made, capture: Capture) -> bool:
    """Whether nothing between making ``key`` and the capture can have run it."""
    heads: dict[int, str] = {}
    for node in scope.nodes:
        if isinstance(node, ast.Attribute):
            heads[id(node.value)] = node.attr
    for node in scope.nodes:
        if _key(node) != key or not _is_load(node):
            continue
        if _end(made.call) <= _start(node) < _start(capture.block):
            if heads.get(id(node)) not in _QUIET_METHODS:
                return False
    return True


def _is_module(scope: Scope, made: Made) -> bool:
    """Whether a call constructs a module: ``Net()``, ``torch.nn.Linear(8, 8)``, also with ``.cuda()`` behind."""
    call = made.call
    while isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        if call.func.attr not in _QUIET_METHODS:
            return False
        call = call.func.value
    name = scope.names.resolve(call.func) or ""
    if name.startswith("torch.nn."):
        return name.rpartition(".")[2][:1].isupper()
    return name.rpartition(".")[2] in scope.classes and isinstance(call.func, ast.Name)


def _reentrant_checkpoints(scope: Scope) -> Iterator[Event]:
    for call in scope.calls:
        if scope.is_call(call, *_CHECKPOINTS) and _is_true(_argument(call, 99, "use_reentrant")):
            made = scope.made(_argument(call, 0, "function"))
            if made is not None and made.kind == "graphed":
                yield _event(
                    "capture.reentrant-checkpoint",
                    call,
                    f"the function was made by make_graphed_callables on line {made.call.lineno}",
                )


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _early_hooks(scope: Scope) -> Iterator[Event]:
    for graphing in scope.calls:
        if _MAKERS.get(scope.names.resolve(graphing.func) or "") != "graphed":
            continue
        given = _argument(graphing, 0, "callables")
        elements = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
        keys = {_key(element) for element in elements} - {None}
        for call in scope.calls:
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in _HOOKS:
                continue
            if _key(call.func.value) in keys and _start(call) < _start(graphing):
                if not _removes_hooks(scope, call, graphing):
                    yield _event(
                        "capture.hooks-before",
                        call,
                        f"`{_key(call.func.value)}` goes to make_graphed_callables on line {graphing.lineno}",
                    )


def _removes_hooks(scope: Scope, hook: ast.Call, graphing: ast.Call) -> bool:
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "remove"
        and _start(hook) < _start(call) < _start(graphing)
        for call in scope.calls
    )


def _process_groups(scope: Scope) -> Iterator[Event]:
    for call in scope.calls:
        if not scope.is_call(call, "torch.distributed.destroy_process_group"):
            continue
        for capture in scope.captures:
            if _start(capture.block) > _start(call) or not _is_collective(scope, capture):
                continue
            if not _released(scope, capture, call):
                yield _event(
                    "capture.process-group",
                    call,
                    f"`{capture.graph}` captured a collective on line {capture.block.lineno} and is still alive",
                )
                break


def _is_collective(scope: Scope, capture: Capture) -> bool:
    for node in capture.nodes:
        if isinstance(node, ast.Call):
            name = scope.names.resolve(node.func) or ""
            if name.startswith("torch.distributed."):
                return True
    return False


def _released(scope: Scope, capture: Capture, call: ast.Call) -> bool:
    for node in scope.nodes:
        if not _end(capture.block) < _start(node) < _start(call):
            continue
        if isinstance(node, ast.Delete) and any(_key(t) == capture.graph for t in node.targets):
            return True
        if any(key == capture.graph for key, _ in _bindings(node)):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "reset" and _key(node.func.value) == capture.graph:
                return True
    return False


def _user_pools(scope: Scope) -> Iterator[Event]:
    for block in scope.nodes:
        if not isinstance(block, ast.With):
            continue
        pools = [
            item.context_expr
            for item in block.items
            if scope.is_call(
                item.context_expr, "torch.cuda.use_mem_pool", "torch.cuda.memory.use_mem_pool"
            )
        ]
        for node in _own_nodes(block.body) if pools else ():
            made = scope.made(node.func) if isinstance(node, ast.Call) else None
            if made is not None and made.kind == "compiled" and made.graphs:
                yield _event(
                    "capture.user-pool",
                    pools[0],
                    f"`{_short(node.func)}` is compiled with CUDA graphs on line {made.call.lineno}",  # type: ignore[attr-defined]
                )
                break


def _synchronising(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for node in capture.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            is_read = node.func.attr in _SYNC_METHODS and not node.args and not node.keywords
            if is_read and scope.names.resolve(node.func) is None:
                yield _event(
                    "capture.sync",
                    node,
                    f"inside the capture on line {capture.block.lineno}",
                )


_CHECKS: tuple[Callable[[Scope], Iterator[Event]], ...] = (
    _kept_outputs,
    _rebound_inputs,
    _optimizers,
    _scalers,
    _autocasts,
    _generators,
    _side_streams,
    _missing_warmups,
    _reentrant_checkpoints,
    _early_hooks,
    _process_groups,
    _user_pools,
    _synchronising,
)
