"""Inline Inductor's `Runner.call` where it only forwards.

It takes a graph's inputs apart, calls the only partition and makes the views that the graph
returns. Where it does nothing else, the partition and the call are one region: the views need not
be made on each served call, because the memory behind them can have their shape at once.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, Literal

from pygraph_rt.reports.report import Region

Sizes = tuple[int, ...]
Source = Literal["result", "argument", "value", "number"]

ALIGN = ("copy_if_misaligned", "copy_misaligned")
"""The function that generated code aligns an input with: in torch 2.13 and later, and in 2.12."""

# All that such a call may name; anything else could do something.
NAMES = frozenset({"clear", "partitions", "reinterpret_tensor", *ALIGN})


@dataclass(frozen=True)
class Returned:
    """An output: result number `index` of a partition, its argument number `index`, a `value`, or
    number `index` of the call's own; `view` is (size, strides, offset) in elements, where it is a
    view of that. aligned: it is a copy of it where it is not aligned.
    """

    source: Source
    index: int = 0
    view: tuple[Sizes, Sizes, int] | None = None
    value: Any = None
    aligned: bool = False


@dataclass(frozen=True)
class RunnerCall:
    """What a runner's call does.

    taken: the graph's inputs that the partition is given, in its order. returned: the graph's
    outputs. aligned: positions among `taken` that are aligned first (torch 2.12
    and later). takes_all: whether `taken` are all inputs, in their order.
    """

    taken: tuple[int, ...]
    returned: tuple[Returned, ...]
    aligned: tuple[int, ...] = ()
    takes_all: bool = False

    def returns_all(self, results: int) -> bool:
        """Whether it returns all of the partition's `results`, as they are and in their order."""
        return self.returned == tuple(Returned("result", i) for i in range(results))


def read_runner(call: Any, inputs: int, results: int) -> RunnerCall | None:
    """What `call(args)` of a runner with one partition does with its `inputs` and the partition's
    `results`; None where it does more than pass them on.

    It is run once with stand-ins, on which nothing can be computed.
    """
    function = getattr(call, "__func__", None)
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return None
    if not set(function.__code__.co_names) <= NAMES:
        return None
    given: list[Any] = []

    def partition(args: list[Any]) -> tuple[Returned, ...]:
        given.append(list(args))
        args.clear()
        return tuple(Returned("result", i) for i in range(results))

    stand_ins = {"reinterpret_tensor": _reinterpret, **dict.fromkeys(ALIGN, _align)}
    code = types.FunctionType(function.__code__, stand_ins)
    args: list[Any] = [Returned("argument", i) for i in range(inputs)]
    try:
        outputs = code(SimpleNamespace(partitions=[partition]), args)
    except Exception:  # whatever it does, it is not passing on
        return None
    if len(given) != 1 or not all(isinstance(v, Returned) and v.view is None for v in given[0]):
        return None
    taken = tuple(value.index for value in given[0])
    found = tuple(made for value in outputs if (made := _returned(value, taken)) is not None)
    aligned = tuple(i for i, value in enumerate(given[0]) if value.aligned)
    whole = taken == tuple(range(inputs))
    return RunnerCall(taken, found, aligned, whole) if len(found) == len(outputs) else None


def _align(given: Returned) -> Returned:
    if given.source != "argument" or given.view is not None:
        raise TypeError("a copy of something that is no input")
    return replace(given, aligned=True)


def _reinterpret(given: Returned, size: Any, stride: Any, offset: Any) -> Returned:
    whole = all(isinstance(n, int) for n in (*size, *stride, offset))
    if given.view is not None or not whole:
        raise TypeError("a view whose shape is not known")
    return replace(given, view=(tuple(size), tuple(stride), offset))


def _returned(value: Any, taken: Sequence[int]) -> Returned | None:
    """What an output is, in the partition's arguments and results."""
    if value is None or isinstance(value, (int, float, bool)):
        return Returned("value", value=value)
    if not isinstance(value, Returned) or value.source == "result":
        return value if isinstance(value, Returned) else None
    if value.index not in taken or value.aligned:
        return None
    return replace(value, index=taken.index(value.index))


class Assembly:
    """Makes outputs of a call's results and arguments, and of numbers that it has made."""

    def __init__(
        self, outputs: Sequence[Returned], results: int, reinterpret: Callable[..., Any]
    ) -> None:
        """`results`: how many results are passed to `build`."""
        self._reinterpret = reinterpret
        self._constants = [r.value for r in outputs if r.source == "value"]
        # Of each view: whether it is of an argument, which result or argument, and the view.
        self.views = [
            (int(r.source == "argument"), r.index, *r.view) for r in outputs if r.view is not None
        ]
        self.make_views: Callable[..., list[Any]] = self._views_in_python
        self._pick = picker(list(self._places(outputs, results)))

    def _places(self, outputs: Sequence[Returned], results: int) -> Iterator[int]:
        """Where each output is in a list of results, constants, views, numbers and arguments."""
        constants, first_view = count(results), results + len(self._constants)
        views, first_number = count(first_view), first_view + len(self.views)
        first_argument = first_number + sum(r.source == "number" for r in outputs)
        first = {"result": 0, "number": first_number, "argument": first_argument}
        for r in outputs:
            if r.source == "value":
                yield next(constants)
            else:
                yield first[r.source] + r.index if r.view is None else next(views)

    def build(
        self, results: Sequence[Any], arguments: list[Any], numbers: Iterable[Any] = ()
    ) -> tuple[Any, ...]:
        """The outputs of a call."""
        views = self.make_views(results, arguments)
        return self._pick([*results, *self._constants, *views, *numbers, *arguments])

    def _views_in_python(self, *sources: Sequence[Any]) -> list[Any]:
        reinterpret = self._reinterpret
        return [reinterpret(sources[kind][i], *view) for kind, i, *view in self.views]


class Inlined:
    """A partition's function and what is done with its results, as one function of the partition's
    arguments that returns the graph's outputs.

    It goes by the name, the code and the namespace of the partition's function.
    """

    def __init__(self, generated: Any, runner: RunnerCall, reinterpret: Callable[..., Any]) -> None:
        self.generated = generated
        self.runner = runner
        self.reinterpret = reinterpret
        self.__name__ = generated.__name__
        self.__code__ = generated.__code__
        self.__globals__ = generated.__globals__
        returned = runner.returned
        self._kept = sorted({r.index for r in returned if r.source == "argument"})
        outputs = [
            replace(r, index=self._kept.index(r.index)) if r.source == "argument" else r
            for r in returned
        ]
        self._results = max((r.index + 1 for r in returned if r.source == "result"), default=0)
        self._assembly = Assembly(outputs, self._results, reinterpret)

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        """Run it; `args` is emptied."""
        kept = [args[i] for i in self._kept]
        return self._assembly.build(self.generated(args)[: self._results], kept)

    def over(self, generated: Any) -> Inlined:
        """The same around another function."""
        return Inlined(generated, self.runner, self.reinterpret)


def region_call(
    region: Callable[[list[Any]], Any],
    info: Region,
    compiled: Callable[[list[Any]], Any],
    given: Callable[[list[Any]], list[Any]] | None = None,
) -> Callable[[list[Any]], Any]:
    """What is called in the place of compiled code: its watcher is told, if it has one, and where
    the region would only run `compiled`, that is called.

    A trial's calls without graphs take that way, too, so that they cost what they will cost later.

    `info` is the region's place in reports. `given` makes the region's arguments of those of the
    call, and empties that list; None: they are the same.
    """

    def unwatched(args: list[Any]) -> Any:
        if info.bypassed:
            info.unserved += 1
            return compiled(args)
        return region(args if given is None else given(args))

    # The way of each call: it does the same itself, since one more function shows in small
    # programs. Nor does it refer to itself: a model that is freed takes it along at once.
    def run(args: list[Any]) -> Any:
        """Make a call; `args` is emptied."""
        watcher = info.watcher  # read once: other threads change it
        if watcher is not None:
            return watcher.call(region, unwatched, args)
        if info.bypassed:
            info.unserved += 1
            return compiled(args)
        return region(args if given is None else given(args))

    return run


def graph_call(
    region: Callable[[list[Any]], Any],
    info: Region,
    runner: RunnerCall,
    call: Callable[[list[Any]], Any],
    partition: Callable[[list[Any]], Any] | None = None,
) -> Callable[[list[Any]], Any]:
    """What stands in for a runner's `call`: it hands the region its arguments out of the graph's
    inputs.

    `runner` is what the runner does. `call` runs the compiled code; so does `partition` (None: it
    does not), with the region's arguments: default mode has no runner, and it is left out where it
    can be.
    """
    given, compiled = _giver(runner), call
    if partition is not None:
        compiled = partition if given is None else lambda args: partition(given(args))
    return region_call(region, info, compiled, given)


def _giver(runner: RunnerCall) -> Callable[[list[Any]], list[Any]] | None:
    """What makes a region's arguments of a graph's inputs, which are emptied; None: they are the
    inputs as they are.
    """
    if runner.takes_all and not runner.aligned:
        return None
    pick, aligned = picker(list(runner.taken)), runner.aligned
    align = _aligner() if aligned else None

    def given(args: list[Any]) -> list[Any]:
        found = [*pick(args)]
        args.clear()
        if align is not None:
            for i in aligned:
                found[i] = align(found[i])
        return found

    return given


def _aligner() -> Callable[[Any], Any]:
    """What generated code calls for it in this torch."""
    from torch._C._dynamo import guards

    found: Callable[[Any], Any] = next(getattr(guards, n) for n in ALIGN if hasattr(guards, n))
    return found


def picker(places: list[int]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """What takes these places of a list, in this order."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _cells(outer: Any, inner: Any) -> list[Any]:
    """Variables of a function's closure that hold `inner`."""
    found = []
    for cell in getattr(outer, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell may be empty
            if cell.cell_contents == inner:
                found.append(cell)
    return found


def calls_it(outer: Any, inner: Any) -> bool:
    """Whether `outer` is `inner`, or calls it as a variable of its closure."""
    return bool(outer == inner or _cells(outer, inner))


def replace_call(outer: Any, inner: Any, new: Any) -> Any:
    """`outer` with `new` in the place of `inner`."""
    if outer == inner:
        return new
    for cell in _cells(outer, inner):
        cell.cell_contents = new
    return outer
