"""Every private name of torch that the recorder touches; nothing else in the trace does.

Each hook calls the original with unchanged arguments and returns its result, so what is compiled
stays the same. `tests/trace/test_torch_hooks.py` is the contract that each version of torch has to
keep; `missing()` names what the installed version lacks.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import pkgutil
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from pygraph_rt.trace.model import Frame

LIMIT_TYPE = "Dynamo recompile limit exceeded"
_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_GRAPH_NAME = "__compiled_fn_"
_CAUSED = "*** While handling this graph break, another graph break occurred: ***"


@dataclass
class Break:
    """One graph break as torch reports it; `stack` is outermost first.

    cause: torch's text on the break that led to this one; empty where none did.
    """

    stack: tuple[Frame, ...]
    gb_type: str
    reason: str
    cause: str = ""
    frame_skipped: bool = False
    raised: bool = False


@dataclass
class Compile:
    """One attempt of torch to compile a frame, with everything that happened in it.

    called_by: the innermost frame around that torch compiled, or tried to, as its own one.
    """

    frame: Frame
    compile_id: str
    began: float
    full_graph: bool
    breaks: list[Break] = field(default_factory=list)
    recompile_reasons: list[str] = field(default_factory=list)
    limit: str = ""
    skip_reason: str = ""
    error: str = ""
    error_place: tuple[Frame, ...] = ()
    raised: bool = False
    ended: float = 0.0
    graphs: list[Graph] = field(default_factory=list)
    called_by: Frame | None = None


@dataclass
class Graph:
    """A compiled callable that generated code reaches through a global name."""

    name: str
    scope: dict[str, Any]
    compile_id: str
    frame: Frame


def original_name(function: str) -> str:
    """The user's name of a function; Dynamo renames what continues after a break."""
    found = _RESUME.match(function)
    return found.group(1) if found else function


def _places(stack: Any) -> tuple[Frame, ...]:
    found = [Frame(f.filename, f.lineno or 0, original_name(f.name)) for f in stack or ()]
    return tuple(found)


def _type_name(error: BaseException) -> str:
    return str(getattr(error, "gb_type", None) or type(error).__name__)


def _message(error: BaseException) -> str:
    """An error's text, without the stack that torch appends and the break that led to it."""
    text = str(getattr(error, "msg", None) or error)
    return text.split("\n\nfrom user code:", 1)[0].rpartition(_CAUSED)[2].strip()


def _cause_text(error: BaseException) -> str:
    """What torch says of the break that led to this one; empty where none did."""
    before = str(getattr(error, "msg", None) or error).rpartition(_CAUSED)[0]
    return before.rpartition(_CAUSED)[2].strip()


def _break_of(error: BaseException, code: CodeType, *, skipped: bool) -> Break:
    stack = _places(getattr(error, "real_stack", None))
    if not stack:
        stack = (_frame_of(code),)
    return Break(
        stack, _type_name(error), _message(error), _cause_text(error), frame_skipped=skipped
    )


def _frame_of(code: CodeType) -> Frame:
    return Frame(code.co_filename, code.co_firstlineno, original_name(code.co_name))


@functools.cache
def gb_ids() -> dict[str, str]:
    """torch's number of each kind of graph break, by its name; empty where torch has no table."""
    file = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    try:
        table = json.loads(file.read_text("utf-8"))
        return {str(versions[0]["Gb_type"]): key for key, versions in table.items()}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


_SKIPS = ("torch._inductor.cudagraph_utils", "log_cudagraph_skip_and_bump_counter")
NAMES = {
    "graph breaks": ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.log_graph_break"),
    "frames": ("torch._dynamo.convert_frame", "_compile"),
    "refused frames": ("torch._dynamo.convert_frame", "ConvertFrameAssert.__call__"),
    "recompilations": ("torch._dynamo.convert_frame", "get_and_maybe_log_recompilation_reasons"),
    "restarts": ("torch._dynamo.symbolic_convert", "SpeculationLog.clear"),
    "traced lines": ("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.starts_line"),
    "compiled callables": ("torch._dynamo.utils", "CleanupManager.instance"),
    "functions left out": ("torch._C._dynamo.eval_frame", "set_code_exec_strategy"),
    "CUDA graph skips": _SKIPS,
    "graphs": ("torch._dynamo.output_graph", "OutputGraph.call_user_compiler"),
    "kernels": ("torch.library", "get_kernel"),
}


def missing() -> list[str]:
    """Hooks that the installed torch does not have, by what they report."""
    lacking = list(NAMES)
    for what, place in NAMES.items():
        with contextlib.suppress(ImportError, AttributeError):
            _found(*place)
            lacking.remove(what)
    return lacking


def _found(module: str, path: str) -> Any:
    return pkgutil.resolve_name(f"{module}:{path}")


def _called_by_torch(frame: FrameType | None) -> bool:
    """Whether what Dynamo is asked about was called as a compiled function: what other code calls
    meanwhile, torch looks at, too.
    """
    while frame is not None and frame.f_code.co_filename.endswith("convert_frame.py"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("eval_frame.py")


class DynamoHooks:
    """Reports what Dynamo compiles to a `Recorder`, from `install` to `remove`."""

    def __init__(self, recorder: Any, syncs: Any) -> None:
        """The recorder must not raise and must not call torch. The wrappers of `Syncs` are away
        while Dynamo compiles.
        """
        self._recorder = recorder
        self._syncs = syncs
        self._undo = contextlib.ExitStack()
        self._local = threading.local()
        self._frames: dict[tuple[str, int], Frame] = {}

    def install(self) -> None:
        """Put the hooks in place. What this torch lacks is left out; see `missing()`."""
        lacking = frozenset(missing())
        table = {
            "graph breaks": self._on_break,
            "traced lines": self._on_line,
            "restarts": self._on_restart,
            "graphs": self._on_graph,
            "frames": self._on_compile,
            "refused frames": self._on_frame,
            "recompilations": self._on_recompile,
        }
        for what, make in table.items():
            if what not in lacking:
                module, path = NAMES[what]
                owner, _, name = path.rpartition(".")
                self._replace(_found(module, owner), name, make)
        if "CUDA graph skips" not in lacking:
            original = _found(*_SKIPS)
            skip = self._on_skip(original)
            self._undo.callback(_exchange, skip, original)
            _exchange(original, skip)
        self._correct_lines()

    def remove(self) -> None:
        """Put torch back as it was."""
        self._undo.close()

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in an attribute's place."""
        original = getattr(owner, name)
        self._undo.callback(setattr, owner, name, original)
        setattr(owner, name, make(original))

    def _stack(self) -> list[Compile]:
        found: list[Compile] | None = getattr(self._local, "stack", None)
        if found is None:
            found = self._local.stack = []
        return found

    def _on_break(self, original: Any) -> Any:
        def log_graph_break(
            translator: Any, code_options: Any, reason: str, *args: Any, **named: Any
        ) -> Any:
            error = named.get("exc", args[0] if args else None)
            stack = self._stack()
            if stack and error is not None and not getattr(error, "logged", False):
                stack[-1].breaks.append(_break_of(error, translator.f_code, skipped=False))
            return original(translator, code_options, reason, *args, **named)

        return log_graph_break

    def _on_line(self, original: Any) -> Any:
        traced = self._recorder.traced

        def starts_line(translator: Any, lineno: int) -> Any:
            if lineno:
                traced(translator.f_code.co_filename, lineno)
            return original(translator, lineno)

        return starts_line

    def _on_restart(self, original: Any) -> Any:
        """Breaks found before the log is cleared are looked for again in the next attempt."""

        def clear(log: Any) -> Any:
            stack = self._stack()
            if stack:
                stack[-1].breaks.clear()
            return original(log)

        return clear

    def _on_recompile(self, original: Any) -> Any:
        @functools.wraps(original)
        def reasons(*args: Any, **named: Any) -> Any:
            found = original(*args, **named)
            stack = self._stack()
            if stack and not stack[-1].recompile_reasons:
                stack[-1].recompile_reasons = [str(reason) for reason in found] or [""]
            return found

        return reasons

    def _on_frame(self, original: Any) -> Any:
        """A frame may be refused before `_compile` sees it: a generator, for example."""

        def call(converter: Any, frame: Any, *args: Any, **named: Any) -> Any:
            self._local.entered = False
            try:
                return original(converter, frame, *args, **named)
            except Exception as error:
                if not self._local.entered and _called_by_torch(sys._getframe(1)):
                    now = time.perf_counter()
                    one = bool(getattr(converter, "_one_graph", False))
                    done = Compile(_frame_of(frame.f_code), "", now, one)
                    done.skip_reason = _message(error)
                    done.raised = one
                    done.ended = now
                    self._recorder.compiled(done)
                raise
            finally:
                self._local.entered = True

        return call

    def _on_graph(self, original: Any) -> Any:
        def call_user_compiler(output: Any, graph: Any, *args: Any, **named: Any) -> Any:
            stack = self._stack()
            if stack:
                self._recorder.graph(graph, stack[-1])
            return original(output, graph, *args, **named)

        return call_user_compiler

    def _on_skip(self, original: Any) -> Any:
        def skip(message: str) -> Any:
            stack = self._stack()
            self._recorder.cudagraph_skipped(message, stack[-1].frame if stack else None)
            return original(message)

        return skip

    def _on_compile(self, original: Any) -> Any:
        @functools.wraps(original)
        def compile_frame(code: CodeType, *args: Any, **named: Any) -> Any:
            self._local.entered = True
            stack = self._stack()
            done = Compile(
                _frame_of(code),
                str(named.get("compile_id") or ""),
                time.perf_counter(),
                bool(args[5]) if len(args) > 5 else False,
                called_by=self._caller(sys._getframe(1)),
            )
            self._frames[code.co_filename, code.co_firstlineno] = done.frame
            stack.append(done)
            try:
                with self._syncs.compiling():
                    result = original(code, *args, **named)
                _note_result(done, code, result)
                return result
            except Exception as error:
                _note_error(done, error, code)
                raise
            finally:
                stack.pop()
                done.ended = time.perf_counter()
                self._recorder.compiled(done)

        return compile_frame

    def _caller(self, frame: FrameType | None) -> Frame | None:
        """The innermost frame from here on that torch has met; generated code has its place."""
        while frame is not None:
            found = self._frames.get((frame.f_code.co_filename, frame.f_code.co_firstlineno))
            if found is not None:
                return found
            frame = frame.f_back
        return None

    def _correct_lines(self) -> None:
        """Write each step of a line table once.

        For an instruction of more than 8 code units Dynamo writes the step to the next line once
        per entry, so every later line of a function that continues after a break is off. Only line
        tables change; bytecode, graphs and guards do not.
        """
        from torch._dynamo import bytecode_transformation

        if sys.version_info >= (3, 11) and hasattr(bytecode_transformation, "linetable_311_writer"):
            self._replace(bytecode_transformation, "linetable_311_writer", _by_entries)


_TABLE_ENTRY = 8  # code units that one entry of a line table can cover


def _by_entries(original: Any) -> Any:
    def writer(first_line: int) -> Any:
        table, update = original(first_line)

        def one_by_one(positions: Any, size: int) -> None:
            while size > _TABLE_ENTRY:
                update(positions, _TABLE_ENTRY)
                size -= _TABLE_ENTRY
            update(positions, size)

        return table, one_by_one

    return writer


def _note_result(done: Compile, code: CodeType, result: Any) -> None:
    guarded = getattr(result, "guarded_code", None)
    if guarded is None:
        done.skip_reason = str(getattr(result, "skip_reason", None) or "torch gives no reason")
        return
    done.graphs = list(graphs_of(guarded.code, done.compile_id, _frame_of(code)))


def _note_error(done: Compile, error: BaseException, code: CodeType) -> None:
    from torch._dynamo import exc

    cause = error.__cause__
    if _type_name(error) == LIMIT_TYPE or _type_name(cause or error) == LIMIT_TYPE:
        done.limit = _message(error if _type_name(error) == LIMIT_TYPE else cause or error)
    elif isinstance(error, (exc.Unsupported, exc.UserError)):
        found = _break_of(error, code, skipped=True)
        done.breaks = [b for b in done.breaks if b.stack != found.stack] + [found]
        found.raised = done.full_graph
    else:
        done.error = f"{type(error).__name__}: {_message(error)}"
        done.error_place = _places(getattr(error, "real_stack", None))
    done.raised = done.full_graph or not isinstance(error, (exc.Unsupported, exc.UserError))
    for found in done.breaks:
        found.frame_skipped = True


def graphs_of(generated: CodeType, compile_id: str, frame: Frame) -> Iterator[Graph]:
    """The compiled callables that generated code calls."""
    from torch._dynamo.utils import CleanupManager

    try:
        cleanups: Sequence[Any] = CleanupManager.instance[generated]
    except (KeyError, AttributeError):
        return
    for cleanup in cleanups:
        name, scope = getattr(cleanup, "name", ""), getattr(cleanup, "scope", None)
        if scope is not None and name.startswith(_GRAPH_NAME) and name in scope:
            yield Graph(name, scope, compile_id, frame)


def _exchange(old: Any, new: Any) -> None:
    """Replace a function in every module of Inductor that has imported it by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._inductor.") and vars(module).get(_SKIPS[1]) is old:
            setattr(module, _SKIPS[1], new)


def is_fake(tensor: Any) -> bool:
    """Whether a tensor has no values, because it stands for one while something is compiled."""
    return isinstance(tensor, torch._subclasses.FakeTensor)


def quick_sync_debug_mode() -> Callable[[int], None]:
    """What sets CUDA's sync debug mode, at less cost than torch's public function."""
    quick: Any = getattr(torch._C, "_cuda_set_sync_debug_mode", None)
    return quick or torch.cuda.set_sync_debug_mode


def compiling_threads() -> set[Any]:
    """Threads of this process in which Inductor compiles; they stay when it is done."""
    module = sys.modules.get("torch._inductor.async_compile")
    pool: Any = getattr(getattr(module, "AsyncCompile", None), "pool", None)
    begun = hasattr(pool, "cache_info") and pool.cache_info().currsize
    return getattr(pool(), "_threads", set()) if begun else set()


def keep_out(function: Callable[..., Any], *, callees: bool = False) -> None:
    """Have Dynamo run a function of the recorder as it is; with `callees`, what it calls, too."""
    from torch._C._dynamo.eval_frame import set_code_exec_strategy

    names: Any = importlib.import_module("torch._dynamo.types")
    action = names.FrameAction
    below = action.SKIP if callees else action.DEFAULT
    set_code_exec_strategy(function.__code__, names.FrameExecStrategy(action.SKIP, below))


def graphs_before() -> list[Graph]:
    """The callables of frames that were compiled until now."""
    from torch._dynamo import convert_frame

    found: list[Graph] = []
    originals: Any = vars(convert_frame)["orig_code_map"]
    for reference in list(getattr(convert_frame.output_codes, "seen", ())):
        generated = reference()
        if generated is None:
            continue
        try:
            original = originals[generated]
        except KeyError:
            continue
        found += graphs_of(generated, _compile_id(original, generated), _frame_of(original))
    return found


def _compile_id(original: CodeType, generated: CodeType) -> str:
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

    for entry in _debug_get_cache_entry_list(original):
        if entry.code is generated:
            return str(entry.compile_id)
    return ""
