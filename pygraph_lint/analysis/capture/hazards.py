"""Hazards of CUDA graphs captured by hand: what is around a capture, and what is done in it.

Unlike the rest of the analysis this looks at the code around a capture: warm-up, streams,
optimizers, outputs kept between replays. It reads one module's syntax tree, follows names inside
one function, class or module, and reports only where construction and use are both in sight.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from pygraph_lint.analysis.capture.outputs import kept_outputs, rebound_inputs
from pygraph_lint.analysis.capture.scopes import (
    MAKERS,
    Capture,
    Made,
    Scope,
    argument,
    bindings,
    end,
    is_load,
    make_event,
    scopes,
    start,
)
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.names import Names, own_nodes
from pygraph_lint.analysis.syntax.nodes import (
    dotted,
    is_constant,
    keyword,
    method_name,
    receiver,
    walk,
)

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

# The optimizers whose step() refuses a capture unless `capturable=True` was given.
_CAPTURABLE = frozenset(
    ("Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
)
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
    (
        *("bfloat16", "buffers", "children", "compile", "cpu", "cuda", "double", "eval", "float"),
        *("half", "load_state_dict", "modules", "named_buffers", "named_children"),
        *("named_modules", "named_parameters", "parameters", "requires_grad_", "share_memory"),
        *("state_dict", "to", "to_empty", "train", "type", "zero_grad"),
    )
)
_SYNC_METHODS = frozenset(("item", "tolist", "cpu", "numpy"))


def mentioned(text: str) -> bool:
    """Whether source says anything this file looks for: cheap, for before ``capture_events``."""
    return any(word in text for word in MENTIONS)


def capture_events(tree: ast.Module, names: Names) -> list[Event]:
    """Every ``capture.*`` event of a module, by position. ``names`` are the module's bindings."""
    module = Scope.of_module(tree, names)
    found: list[Event] = []
    for scope in scopes(module):
        for check in _CHECKS:
            found.extend(check(scope))
    return sorted(set(found), key=lambda event: (event.span, event.kind))


def _optimizers(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call, made in _steps(scope, capture, "optimizer"):
            name = made.name.rpartition(".")[2]
            if name in _CAPTURABLE and not made.has("capturable", True):
                yield make_event(
                    "capture.optimizer",
                    call,
                    f"`{name}` on line {made.call.lineno} has no capturable=True",
                )


def _scalers(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call, made in _steps(scope, capture, "scaler"):
            optimizer = scope.made(argument(call, 0, "optimizer"))
            if optimizer is None or optimizer.kind != "optimizer" or optimizer.has("fused", True):
                continue
            yield make_event(
                "capture.scaler",
                call,
                f"the GradScaler of line {made.call.lineno} reads on the host whether to skip",
            )


def _steps(scope: Scope, capture: Capture, kind: str) -> Iterator[tuple[ast.Call, Made]]:
    for call in capture.calls:
        made = scope.made(receiver(call, ("step",)))
        if made is not None and made.kind == kind:
            yield call, made


def _autocasts(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for block, call in scope.contexts:
            outside = start(block) <= start(capture.block) and end(capture.block) <= end(block)
            inside = block is capture.block and start(call) > start(capture.call)
            if outside and not inside and _caches_casts(scope, call):
                yield make_event(
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
    device = argument(call, 0, "device_type")
    if name == "torch.cuda.amp.autocast":
        return not call.args
    return isinstance(device, ast.Constant) and device.value == "cuda"


def _generators(scope: Scope) -> Iterator[Event]:
    registered = {
        dotted(call.args[0])
        for call in scope.calls
        if method_name(call) == "register_generator_state" and call.args
    }
    for capture in scope.captures:
        for call in capture.calls:
            given = keyword(call, "generator")
            made = scope.made(given)
            if made is not None and made.kind == "generator" and dotted(given) not in registered:
                line = made.call.lineno
                reason = f"`{dotted(given)}` of line {line} is never registered with the graph"
                yield make_event("capture.generator", call, reason)


def _side_streams(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        own = dotted(argument(capture.call, 2, "stream"))
        for block, call in scope.contexts:
            asked = scope.is_call(call, "torch.cuda.stream", "torch.cuda.StreamContext")
            if block is capture.block or not asked:
                continue
            key = dotted(argument(call, 0, "stream"))
            made = scope.made(argument(call, 0, "stream"))
            if key is None or made is None or made.kind != "stream" or key == own:
                continue
            reason = _unordered(scope, capture, block, key)
            if reason:
                yield make_event("capture.side-stream", call, reason)


def _unordered(scope: Scope, capture: Capture, block: ast.With, stream: str) -> str:
    """Why the work in ``block`` on ``stream`` has no order with the capture; empty if it has."""
    inside = block in capture.nodes
    if not inside and start(block) > start(capture.block):
        return ""
    nodes: list[ast.AST] = list(capture.nodes) if inside else list(scope.nodes)
    before = [node for node in nodes if start(node) < start(block)]
    if not any(_waits(node, stream) or _syncs(scope, node) for node in before):
        return f"`{stream}` does not wait for the current stream before this block"
    after = [node for node in nodes if start(node) > end(block)]
    if inside and not any(_waited_for(node, stream) for node in after):
        return f"no stream waits for `{stream}` before the capture ends"
    return ""


def _waits(node: ast.AST, stream: str) -> bool:
    waiting = receiver(node, ("wait_stream", "wait_event"))
    return method_name(node) == "wait" or (waiting is not None and dotted(waiting) == stream)


def _waited_for(node: ast.AST, stream: str) -> bool:
    if isinstance(node, ast.Call) and method_name(node) == "wait_stream":
        return dotted(argument(node, 0, "stream")) == stream
    return method_name(node) in ("wait_event", "wait")


def _syncs(scope: Scope, node: ast.AST) -> bool:
    if scope.is_call(node, "torch.cuda.synchronize", "torch.accelerator.synchronize"):
        return True
    return isinstance(node, ast.Call) and dotted(node.func) == "synchronize"


def _missing_warmups(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call in capture.calls:
            key, made = dotted(call.func), scope.made(call.func)
            if made is None or key not in scope.bound or not _untouched(scope, key, made, capture):
                continue
            reason = f"`{key}` of line {made.call.lineno} is first called in the capture"
            if made.kind == "compiled":
                yield make_event("capture.first-compile", call, reason)
            elif made.kind == "call" and _is_module(scope, made):
                yield make_event("capture.no-warmup", call, reason)


def _untouched(scope: Scope, key: str, made: Made, capture: Capture) -> bool:
    """Whether nothing between making ``key`` and the capture can have run it."""
    heads: dict[int, str] = {}
    for node in scope.nodes:
        if isinstance(node, ast.Attribute):
            heads[id(node.value)] = node.attr
    for node in scope.nodes:
        if dotted(node) != key or not is_load(node):
            continue
        between = end(made.call) <= start(node) < start(capture.block)
        if between and heads.get(id(node)) not in _QUIET_METHODS:
            return False
    return True


def _is_module(scope: Scope, made: Made) -> bool:
    """Whether a call constructs a module: ``Net()``, ``torch.nn.Linear(8, 8).cuda()``."""
    call = _constructor(made)
    if call is None:
        return False
    name = scope.names.resolve(call.func) or ""
    if name.startswith("torch.nn."):
        return name.rpartition(".")[2][:1].isupper()
    own = _own_class(scope, made)
    bases = own.bases if own is not None else []
    return any((scope.names.resolve(base) or "").startswith("torch.nn.") for base in bases)


def _constructor(made: Made) -> ast.Call | None:
    """``Net(8)`` of ``Net(8).cuda().eval()``."""
    call = made.call
    while isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        if call.func.attr not in _QUIET_METHODS:
            return None
        call = call.func.value
    return call


def _own_class(scope: Scope, made: Made) -> ast.ClassDef | None:
    """The class of this module that ``made`` is an instance of."""
    call = _constructor(made)
    if call is None or not isinstance(call.func, ast.Name):
        return None
    name = scope.names.resolve(call.func) or ""
    return scope.classes.get(call.func.id) if name.endswith(f".{call.func.id}") else None


def _reentrant_checkpoints(scope: Scope) -> Iterator[Event]:
    for graphing in scope.calls:
        for given in _graphed(scope, graphing):
            made = scope.made(given)
            owner = _own_class(scope, made) if made is not None else None
            for call in walk(owner) if owner is not None else ():
                if not isinstance(call, ast.Call) or not scope.is_call(call, *_CHECKPOINTS):
                    continue
                if is_constant(keyword(call, "use_reentrant"), True):
                    reason = f"`{dotted(given)}` is graphed on line {graphing.lineno}"
                    yield make_event("capture.reentrant-checkpoint", call, reason)


def _graphed(scope: Scope, call: ast.Call) -> list[ast.expr]:
    """What a call of make_graphed_callables is given to graph."""
    if MAKERS.get(scope.names.resolve(call.func) or "") != "graphed":
        return []
    given = argument(call, 0, "callables")
    if isinstance(given, (ast.Tuple, ast.List)):
        return given.elts
    return [given] if given is not None else []


def _early_hooks(scope: Scope) -> Iterator[Event]:
    for graphing in scope.calls:
        keys = {dotted(given) for given in _graphed(scope, graphing)}
        if not keys:
            continue
        for call in scope.calls:
            key = dotted(receiver(call, _HOOKS))
            if key is None or key not in keys or start(call) > start(graphing):
                continue
            if not _removes_hooks(scope, call, graphing):
                reason = f"`{key}` is graphed on line {graphing.lineno}"
                yield make_event("capture.hooks-before", call, reason)


def _removes_hooks(scope: Scope, hook: ast.Call, graphing: ast.Call) -> bool:
    return any(
        receiver(call, ("remove",)) is not None and start(hook) < start(call) < start(graphing)
        for call in scope.calls
    )


def _process_groups(scope: Scope) -> Iterator[Event]:
    for call in scope.calls:
        if not scope.is_call(call, "torch.distributed.destroy_process_group"):
            continue
        for capture in scope.captures:
            if start(capture.block) > start(call) or not _is_collective(scope, capture):
                continue
            if not _released(scope, capture, call):
                yield make_event(
                    "capture.process-group",
                    call,
                    f"`{capture.graph}` captured a collective on line {capture.block.lineno}",
                )
                break


def _is_collective(scope: Scope, capture: Capture) -> bool:
    names = (scope.names.resolve(call.func) or "" for call in capture.calls)
    return any(name.startswith("torch.distributed.") for name in names)


def _released(scope: Scope, capture: Capture, call: ast.Call) -> bool:
    for node in scope.nodes:
        deleted = node.targets if isinstance(node, ast.Delete) else []
        gone = [*map(dotted, deleted), *(key for key, _ in bindings(node))]
        gone.append(dotted(receiver(node, ("reset",))))
        if end(capture.block) < start(node) < start(call) and capture.graph in gone:
            return True
    return False


def _user_pools(scope: Scope) -> Iterator[Event]:
    for block, pool in scope.contexts:
        if not scope.is_call(pool, "torch.cuda.use_mem_pool", "torch.cuda.memory.use_mem_pool"):
            continue
        for call in (node for node in own_nodes(block) if isinstance(node, ast.Call)):
            made = scope.made(call.func)
            if made is not None and made.kind == "compiled" and made.graphs:
                line = made.call.lineno
                reason = f"`{dotted(call.func)}` is compiled with CUDA graphs on line {line}"
                yield make_event("capture.user-pool", pool, reason)
                break


def _synchronising(scope: Scope) -> Iterator[Event]:
    for capture in scope.captures:
        for call in capture.calls:
            is_read = method_name(call) in _SYNC_METHODS and not call.args and not call.keywords
            if is_read and scope.names.resolve(call.func) is None:
                reason = f"inside the capture on line {capture.block.lineno}"
                yield make_event("capture.sync", call, reason)


_CHECKS: tuple[Callable[[Scope], Iterator[Event]], ...] = (
    kept_outputs,
    rebound_inputs,
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
