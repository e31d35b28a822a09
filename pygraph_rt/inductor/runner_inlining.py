"""Inline Inductor's `Runner.call` where it only forwards.

It takes a graph's inputs apart, calls the only partition and makes the views that the graph
returns. Where it does nothing else, the partition and the call are one region: the views need not
be made on each served call, because the memory behind them can have their shape at once.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, Literal

from pygraph_rt.reports.report import Region

Sizes = tuple[int, ...]
Source = Literal["result", "argument", "value"]

ALIGN = ("copy_if_misaligned", "copy_misaligned")
"""The function that generated code aligns an input with: in torch 2.13 and later, and in 2.12."""

# All that such a call may name; anything else could do something.
NAMES = frozenset({"clear", "partitions", "reinterpret_tensor", *ALIGN})


@dataclass(frozen=True)
class Returned:
    """An output of the graph: the partition's result number `index`, its argument number `index`,
    or a `value`; `view` is (size, strides, offset) in elements, where it is a view of that.
    """

    source: Source
    index: int = 0
    view: tuple[Sizes, Sizes, int] | None = None
    value: Any = None


@dataclass(frozen=True)
class RunnerCall:
    """What a runner's call does.

    taken: the graph's inputs that the partition is given, in its order. returned: the graph's
    outputs. aligned: positions among `taken` that are aligned first (torch 2.12
    and later).
    """

    taken: tuple[int, ...]
    returned: tuple[Returned, ...]
    aligned: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Token:
    """Stands in for a tensor or a number."""

    source: Source
    index: int
    aligned: bool = False


@dataclass(frozen=True)
class _View:
    token: _Token
    view: tuple[Sizes, Sizes, int]


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

    def partition(args: list[Any]) -> tuple[_Token, ...]:
        given.append(list(args))
        args.clear()
        return tuple(_Token("result", i) for i in range(results))

    stand_ins = {"reinterpret_tensor": _reinterpret, **dict.fromkeys(ALIGN, _align)}
    code = types.FunctionType(function.__code__, stand_ins)
    args: list[Any] = [_Token("argument", i) for i in range(inputs)]
    try:
        outputs = code(SimpleNamespace(partitions=[partition]), args)
    except Exception:  # whatever it does, it is not passing on
        return None
    if len(given) != 1 or not all(isinstance(v, _Token) for v in given[0]):
        return None
    taken = tuple(value.index for value in given[0])
    returned = [_returned(value, taken) for value in outputs]
    found = [value for value in returned if value is not None]
    aligned = tuple(i for i, value in enumerate(given[0]) if value.aligned)
    return RunnerCall(taken, tuple(found), aligned) if len(found) == len(returned) else None


def _align(token: Any) -> _Token:
    if not (isinstance(token, _Token) and token.source == "argument"):
        raise TypeError("a copy of something that is no input")
    return replace(token, aligned=True)


def _reinterpret(token: Any, size: Any, stride: Any, offset: Any) -> _View:
    whole = all(isinstance(n, int) for n in (*size, *stride, offset))
    if not (isinstance(token, _Token) and whole):
        raise TypeError("a view whose shape is not known")
    return _View(token, (tuple(size), tuple(stride), offset))


def _returned(value: Any, taken: Sequence[int]) -> Returned | None:
    if value is None or isinstance(value, (int, float, bool)):
        return Returned("value", value=value)
    view = value.view if isinstance(value, _View) else None
    token = value.token if isinstance(value, _View) else value
    if not isinstance(token, _Token):
        return None
    if token.source == "result":
        return Returned("result", token.index, view)
    if token.index not in taken or token.aligned:
        return None
    return Returned("argument", taken.index(token.index), view)


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
        # The outputs are picked from a list: arguments, values, results, and then views of these.
        arguments = sorted({r.index for r in runner.returned if r.source == "argument"})
        self._kept = arguments
        self._values = [r.value for r in runner.returned if r.source == "value"]
        results = max((r.index + 1 for r in runner.returned if r.source == "result"), default=0)
        first_result = len(arguments) + len(self._values)
        values = count(len(arguments))
        self._views: list[tuple[int, tuple[Sizes, Sizes, int]]] = []
        places = []
        for returned in runner.returned:
            if returned.source == "value":
                place = next(values)
            elif returned.source == "argument":
                place = arguments.index(returned.index)
            else:
                place = first_result + returned.index
            if returned.view is not None:
                self._views.append((place, returned.view))
                place = first_result + results + len(self._views) - 1
            places.append(place)
        self._results = results
        self._pick = picker(places)

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        """Run it; `args` is emptied."""
        pool = [args[i] for i in self._kept]
        pool += self._values
        pool += self.generated(args)[: self._results]
        for place, view in self._views:
            pool.append(self.reinterpret(pool[place], *view))
        return self._pick(pool)

    def over(self, generated: Any) -> Inlined:
        """The same around another function."""
        return Inlined(generated, self.runner, self.reinterpret)


class GraphCall:
    """Stands in for a runner's `call`: hands a region its arguments out of the graph's inputs, or
    calls the runner's own where the region has nothing to do with calls any more.
    """

    def __init__(
        self, region: Callable[[list[Any]], Any], info: Region, runner: RunnerCall, call: Any
    ) -> None:
        """`region` stands for the partition, `info` is its place in reports, and `runner` what
        `call` does.
        """
        self.region = region
        self._info = info
        self._call = call
        self._pick = picker(list(runner.taken))
        self._aligned = list(runner.aligned)
        self._align = _aligner() if runner.aligned else None

    def __call__(self, args: list[Any]) -> Any:
        """Run it; `args` is emptied."""
        if self._info.bypassed:
            self._info.unserved += 1
            return self._call(args)
        given = [*self._pick(args)]
        args.clear()
        if self._align is not None:
            for i in self._aligned:
                given[i] = self._align(given[i])
        return self.region(given)


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
