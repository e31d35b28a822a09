"""Runs a program and its fixed version in several ways, and tells how they differ."""

from __future__ import annotations

import contextlib
import copy
import difflib
import io
import logging
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_map

from benchmarks.lint_truth import ghost
from tests.fixes.equivalence import Seen, assert_same, compiled, module_of, run
from tests.fixes.fuzz.situations import CONTEXTS, arguments, context

INPUTS = 3
# What eager code does stays the same, bit for bit, when only these are made.
EAGER_IS_KEPT = (
    frozenset(("guard_logging", "guard_check", "guard_effect", "backend_flags"))
    | {"drawing_function", "breaking_function"}
    | {"breaking_statements"}
)
# The same up to rounding.
CLOSE = frozenset(("expert_loop", "say_sometimes", "scaled_operand", "dropped_layer")) | {
    "masked_reduction",
    "ignored_rows",
}


class Different(AssertionError):
    """Two runs differ; the text says in what."""


@dataclass
class Run(Seen):
    """What one call showed, with what it said and what it drew."""

    said: list[Any] = field(default_factory=list)
    drawn: tuple[Any, ...] = ()
    state: tuple[str, ...] = ()


class _Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.levelno, record.getMessage(), record.funcName))


@contextlib.contextmanager
def _heard(module: types.ModuleType) -> Iterator[list[Any]]:
    """What is printed, logged and warned of while a program runs."""
    said: list[Any] = []
    handler, out = _Records(), io.StringIO()
    logger = module.logger
    logger.propagate = False
    logger.setLevel(1)
    logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            yield said
        finally:
            torch.set_warn_always(False)
            logger.removeHandler(handler)
            own = [(w.category, str(w.message)) for w in caught if "jit" not in str(w.message)]
            said += [*handler.seen, out.getvalue(), *own]


def _seed(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def called(
    module: types.ModuleType, given: tuple[Any, ...], through: Callable[[Any], Any] | None = None
) -> Run:
    """Call the program's model on copies."""
    _seed(0)
    model = module.Model()
    forward = model if through is None else through(model)
    with _heard(module) as said:
        _seed(1)
        seen = run(forward, given, seed=1)
    found = Run(**vars(seen))
    found.said = said
    found.drawn = (
        random.getstate(),
        np.random.get_state()[1].tolist()[:5],
        np.random.get_state()[2],
    )
    found.state = tuple(sorted(model.state_dict()))
    return found


def executed(module: types.ModuleType, call: Callable[[], Any]) -> tuple[Any, set[int]]:
    """What a call gives, and the lines of the module that ran."""
    lines: set[int] = set()
    filename = f"<{module.__name__}>"

    def local(frame: types.FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.add(frame.f_lineno)
        return local

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename == filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), lines
    finally:
        sys.settrace(before)


def changed_blocks(before: str, after: str) -> list[range]:
    """The lines of the new text that are not in the old one, block by block."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), False)
    return [range(j1 + 1, j2 + 1) for tag, _, _, j1, j2 in matcher.get_opcodes() if tag != "equal"]


@dataclass
class Compared:
    """What came of comparing two programs: problems, the ways that were gone, and whether every
    changed line ran.
    """

    problems: list[tuple[str, str]] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    ran: bool = False


class Promise(Enum):
    """What a fix promises: all of it, all but the sign of a gradient of zero, that eager code stays
    as it is, that it gives the same up to rounding, or that nothing raises that did not.
    """

    SAFE = auto()
    CLOSED = auto()
    EAGER = auto()
    CLOSE = auto()
    RUNS = auto()


def compare(
    seed: int, before: str, after: str, scripted: bool, promise: Promise, rarely: bool
) -> Compared:
    """Compare a program with its fixed version. ``rarely``: also under Dynamo."""
    found = Compared()
    old, new = module_of(before), module_of(after)
    ways: list[tuple[str, Callable[[], None]]] = []
    lines: set[int] = set(top_lines(after))
    for number in range(INPUTS):
        one = seed * INPUTS + number
        name = "plain" if number == 0 else context(one)
        ways.append((name, partial(_eager, old, new, one, name, promise, lines)))
    if promise in (Promise.SAFE, Promise.CLOSED):
        more = {"other device": _elsewhere, "pretended device": _pretended, "traced": _traced}
        more |= {"scripted": _scripted} if scripted and promise is Promise.SAFE else {}
        more |= {"dynamo": _dynamo} if rarely else {}
        ways += [(name, partial(way, old, new, seed)) for name, way in more.items()]
    for name, way in ways:
        try:
            way()
            found.ways.append(name)
        except Skipped:
            pass
        except AssertionError as problem:
            found.problems.append((name, (str(problem) or "outputs differ")[:300]))
    blocks = changed_blocks(before, after)
    found.ran = all(lines.intersection(block) for block in blocks if block)
    for module in (old, new):
        sys.modules.pop(module.__name__, None)
    return found


def top_lines(text: str) -> list[int]:
    """Lines that run when the module is imported: those that are not indented, and decorators."""
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if not line.startswith(" ") or line.lstrip().startswith("@") or "self.register" in line
    ]


def _eager(old: Any, new: Any, seed: int, name: str, promise: Promise, lines: set[int]) -> None:
    given = arguments(seed, floating=promise in (Promise.RUNS, Promise.CLOSE))
    with CONTEXTS[name]():
        first = called(old, given)
        second, ran = executed(new, lambda: called(new, given))
    lines |= ran
    as_promised(first, second, promise)
    close = promise is Promise.CLOSE and first.error is None
    if close and "float16" not in name and name != "autocast":
        for one, other in zip(first.outputs, second.outputs, strict=True):
            if any(each is None or isinstance(each, str) for each in (one, other)):
                assert one == other, f"{one} and {other}"
                continue
            torch.testing.assert_close(
                torch.as_tensor(other), torch.as_tensor(one), equal_nan=True, check_dtype=False
            )


def as_promised(first: Run, second: Run, promise: Promise) -> None:
    """Assert that two calls showed the same as far as is promised, but for rounding: where this is
    all, that what did not raise does not.
    """
    if promise is Promise.CLOSED:
        for each in (first, second):
            each.gradients = [None if it is None else it + 0.0 for it in each.gradients]
    if promise not in (Promise.RUNS, Promise.CLOSE):
        same(first, second)
    elif first.error is None:
        assert second.error is None, f"raises {second.error}"


def same(first: Run, second: Run) -> None:
    """Assert that two calls showed the same."""
    assert_same(first, second)
    assert first.said == second.said, f"said {first.said} and {second.said}"
    assert first.drawn == second.drawn, "another random stream of the host"
    assert first.state == second.state, f"state {first.state} and {second.state}"


def _elsewhere(old: Any, new: Any, seed: int) -> None:
    """On the meta device, where a tensor of the host is refused as it is on a GPU."""
    given = tree_map(
        lambda it: it.to("meta") if isinstance(it, torch.Tensor) else it, arguments(seed)
    )
    first, second = called(old, given), called(new, given)
    if first.error is None:  # what did not work there may work now
        same(first, second)


def _pretended(old: Any, new: Any, seed: int) -> None:
    """On a pretended CUDA device: where each result is, and which operators refuse the host's."""
    first, second = _on_ghost(old, seed), _on_ghost(new, seed)
    if first[0] is None and not first[2]:
        assert second == first, f"{first} and {second}"


def _on_ghost(module: Any, seed: int) -> tuple[type[BaseException] | None, list[str], set[str]]:
    given = copy.deepcopy(arguments(seed, floating=True))
    given = tree_map(lambda it: it.detach() if isinstance(it, torch.Tensor) else it, given)
    _seed(0)
    model = module.Model()
    places: list[str] = []
    error: list[type[BaseException]] = []

    def call() -> None:
        try:
            result = model(*given)
        except Exception as problem:
            error.append(type(problem))
            return
        places.extend(
            str(item.device) for item in tree_flatten(result)[0] if isinstance(item, torch.Tensor)
        )

    held = [*given, *model.parameters(), *model.buffers()]
    with _heard(module):
        events = ghost.observe(call, [it for it in held if isinstance(it, torch.Tensor)])
    refused = {event.what for event in events if event.kind == "device_mismatch"}
    return (error[0] if error else None), places, refused


def _traced(old: Any, new: Any, seed: int) -> None:
    """By ``make_fx`` on tensors without values: what could be traced still can."""
    given = arguments(seed, floating=True)
    tensors = tuple(it.detach() for it in given if isinstance(it, torch.Tensor))
    others = given[len(tensors) :]

    def trace(module: Any) -> Any:
        _seed(0)
        model = module.Model()

        def function(*inner: torch.Tensor) -> Any:
            return [
                it for it in tree_flatten(model(*inner, *others))[0] if isinstance(it, torch.Tensor)
            ]

        with _heard(module), _no_errors():
            try:
                graph = make_fx(function, tracing_mode="fake")(*tree_map(torch.clone, tensors))
                return graph(*tree_map(torch.clone, tensors))
            except Exception as error:
                return type(error)

    first, second = trace(old), trace(new)
    if isinstance(first, type):
        return
    assert not isinstance(second, type), f"no longer traced: {second}"
    _equal(first, second)


@contextlib.contextmanager
def _no_errors() -> Iterator[None]:
    """Without the tracebacks that fake tensors log."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _equal(first: Any, second: Any) -> None:
    for one, other in zip(tree_flatten(first)[0], tree_flatten(second)[0], strict=True):
        if not isinstance(one, torch.Tensor):
            assert type(one) is type(other) and (one == other or one != one), f"{one} and {other}"
            continue
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert torch.equal(torch.isnan(one), torch.isnan(other))
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


def _scripted(old: Any, new: Any, seed: int) -> None:
    """By TorchScript: what could be scripted still can, and gives the same."""

    def script(module: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.jit.script(module.Model())
        except Exception:
            return None

    first = script(old)
    if first is None:
        raise Skipped
    second = script(new)
    assert second is not None, "can no longer be scripted"
    for number in range(2):
        given = arguments(seed * INPUTS + number)
        results = [_run_scripted(each, given) for each in (first, second)]
        if isinstance(results[0], type) or isinstance(results[1], type):
            assert isinstance(results[0], type) and isinstance(results[1], type), f"{results}"
        else:
            _equal(*results)


class Skipped(Exception):
    """The way could not be gone with the original."""


def _run_scripted(model: Any, given: tuple[Any, ...]) -> Any:
    _seed(1)
    try:
        return model(*copy.deepcopy(tree_map(_detached, given)))
    except Exception as error:
        return type(error)


def _detached(item: Any) -> Any:
    return item.detach() if isinstance(item, torch.Tensor) else item


def _dynamo(old: Any, new: Any, seed: int) -> None:
    given = arguments(seed)
    # Dynamo gives some values of numpy another type than eager code: like is compared with like.
    first, second = called(old, given, compiled), called(new, given, compiled)
    second.random_state, second.aliases = first.random_state, first.aliases
    if first.error is None or second.error is None:  # Dynamo wraps some
        try:
            assert_same(first, second)
        except AssertionError:
            # It gives an empty array of numpy another stride than eager code, say.
            eager = called(old, given)
            second.random_state, second.aliases = eager.random_state, eager.aliases
            assert_same(eager, second)
