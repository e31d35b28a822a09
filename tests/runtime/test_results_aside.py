"""What of the compiled code's results is kept while a graph is compared: fingerprints, or copies in
the CPU's memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from pygraph_rt.verify import bits, compare, snapshot
from pygraph_rt.verify.bits import same_bits
from pygraph_rt.verify.compare import FirstCall, first_call
from pygraph_rt.verify.snapshot import Aside, Kept


def no_memory(*arguments: Any) -> Any:
    raise torch.OutOfMemoryError("no memory")


class Watched:
    """Compiled code that makes large results, and a graph that sees how much of them is there."""

    def __init__(self, change: float = 0.0) -> None:
        self.constant, self.change = torch.ones(1 << 18), change
        self.made: list[Any] = []
        self.sizes: list[list[int]] = []

    def results(self, args: list[Any]) -> list[Any]:
        a, state = args
        args.clear()
        large, state_after = a.repeat(1 << 18), state.add_(1)
        pair = a.repeat(1 << 19)
        views = [pair[: 1 << 20], pair[1 << 20 :].view(2, -1).t()]
        return [large, *views, state_after, self.constant, a * 2, 7]

    def compiled(self, args: list[Any]) -> list[Any]:
        results = self.results(args)
        self.made = self.made or results
        return results

    def graph(self, args: list[Any]) -> list[Any]:
        tensors = [t for t in self.made if isinstance(t, torch.Tensor)]
        self.sizes.append([t.untyped_storage().nbytes() >> 20 for t in tensors])
        results = self.results(args)
        results[1] = results[1] + self.change
        return results

    def first(self, expected_again: bool = False) -> FirstCall:
        self.given = [torch.randn(4), torch.zeros(1 << 18)]
        self.args, aside = [*self.given], Aside({0, 1, 2, 5}, expected_again=expected_again)
        return first_call(self.compiled, self.graph, self.args, frozenset({1}), [], aside=aside)


@pytest.mark.parametrize("change", [0.0, 1.0])
@pytest.mark.parametrize(
    ("share", "sizes"), [(1, [0, 0, 0, 1, 1, 0]), (1 << 60, [4, 8, 8, 1, 1, 0])]
)
def test_large_results_wait_on_the_cpu_while_the_graph_runs(
    monkeypatch: pytest.MonkeyPatch, change: float, share: int, sizes: list[int]
) -> None:
    """Those that nobody else has; the caller gets them as they were made."""
    monkeypatch.setattr(snapshot, "_HOST_SHARE", share)
    program = Watched(change)
    first = program.first()
    assert program.sizes == [sizes]
    assert first.made
    own = [mine is made for mine, made in zip(first.results, program.made, strict=True)]
    replaced = share == 1 and not change  # the graph's take their place
    assert own == ([False] * 3 if replaced else [True] * 3) + [True] * 4
    assert ("1 of 8, first number 1: 1048576 of" in first.refused) == bool(change)
    large, left, right, state, constant, small, number = first.results
    assert torch.equal(large, (small / 2).repeat(1 << 18))
    assert torch.equal(torch.cat([left, right.t().reshape(-1)]), (small / 2).repeat(1 << 19))
    assert torch.equal(state, torch.ones(1 << 18))
    assert constant is program.constant
    assert number == 7


def test_of_results_that_are_expected_again_only_fingerprints_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The graph's take their place. No memory of the CPU is needed."""
    monkeypatch.setattr(snapshot.Aside, "_move", None)
    program = Watched()
    first = program.first(expected_again=True)
    assert program.sizes == [[0, 0, 0, 1, 1, 0]]
    assert first.accepted
    assert first.note == compare._EXACT
    own = [mine is made for mine, made in zip(first.results, program.made, strict=True)]
    assert own == [False] * 3 + [True] * 4
    large, left, right, _, _, small, _ = first.results
    assert torch.equal(large, (small / 2).repeat(1 << 18))
    assert torch.equal(torch.cat([left, right.t().reshape(-1)]), (small / 2).repeat(1 << 19))


def test_a_call_whose_results_do_not_come_again_is_undone() -> None:
    program = Watched(1.0)
    first = program.first(expected_again=True)
    assert (first.made, first.different, first.short) == (False, True, False)
    assert "its result number 1 is another one" in first.refused
    assert program.args == []
    first.put_back(program.args)
    assert all(map(operator.is_, program.args, program.given))
    assert torch.equal(program.args[1], torch.zeros(1 << 18))


def test_results_give_their_memory_back_before_the_graph_gets_its_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, sizes = Watched(), []
    again = Kept.again

    def noted(kept: Kept) -> list[Any]:
        sizes.append(program.made[0].untyped_storage().nbytes())
        return again(kept)

    monkeypatch.setattr(Kept, "again", noted)
    assert program.first(expected_again=True).accepted
    assert sizes == [0]


def test_copies_need_room_beside_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    monkeypatch.setattr(snapshot, "_has_room", lambda device, nbytes: rooms.append(nbytes) or True)
    program = Watched()
    assert program.first().accepted
    assert rooms == [((4 + 8 + 1) << 20) + 512]  # the results and the state
    assert program.sizes == [[4, 8, 8, 1, 1, 0]]


def test_a_graph_that_fails_is_not_tried_again() -> None:
    """Its results are gone all the same: the call is undone."""
    program, args = Watched(), [torch.randn(4), torch.zeros(1 << 18)]
    calls = Calls(program.compiled, lambda args: None)
    first = compare.in_two_ways(
        partial(first_call, calls.compiled, calls.graph, args, frozenset({1}), [], frozenset()),
        no_memory,
        args,
        Aside({0, 1, 2, 5}, expected_again=True),
        Aside({0, 1, 2, 5}),
    )
    assert (calls.made, calls.served) == (1, 1)
    assert (first.made, first.different) == (False, False)
    assert "the graph did not accept the call" in first.refused
    first.put_back(args)
    assert torch.equal(args[1], torch.zeros(1 << 18))


def test_results_that_do_not_come_again_are_compared_as_they_are() -> None:
    program, args, undone = Watched(1.0), [torch.randn(4), torch.zeros(1 << 18)], []
    calls = Calls(program.compiled, program.graph)
    first = compare.in_two_ways(
        partial(first_call, calls.compiled, calls.graph, args, frozenset({1}), [], frozenset()),
        lambda: undone.append(torch.equal(args[1], torch.zeros(1 << 18))),
        args,
        Aside({0, 1, 2, 5}, expected_again=True),
        Aside({0, 1, 2, 5}),
    )
    assert undone == [True]
    assert calls.made >= 2 + compare._FEWEST_REPEATS
    assert calls.served == 2
    assert first.made
    assert "1 of 8, first number 1: 1048576 of" in first.refused


def test_without_memory_to_undo_a_call_it_is_undone_later(monkeypatch: pytest.MonkeyPatch) -> None:
    program, args = Watched(1.0), [torch.randn(4), torch.zeros(1 << 18)]
    state = args[1]
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "with_copies", OnceShort(snapshot.with_copies, 2))
        lent = frozenset({0})
        first = compare.in_two_ways(
            partial(first_call, program.compiled, program.graph, args, lent | {1}, [], lent),
            no_memory,
            args,
            Aside({0, 1, 2, 5}, expected_again=True),
            Aside({0, 1, 2, 5}),
        )
    assert (first.made, first.short, args) == (False, True, [])
    first.put_back(args)
    assert args[1] is state
    assert torch.equal(state, torch.zeros(1 << 18))


class Calls:
    """Counts calls of compiled code and of a graph."""

    def __init__(self, compiled: Callable[..., Any], graph: Callable[..., Any]) -> None:
        self._compiled, self._graph = compiled, graph
        self.made = self.served = 0

    def compiled(self, args: list[Any]) -> Any:
        self.made += 1
        return self._compiled(args)

    def graph(self, args: list[Any]) -> Any:
        self.served += 1
        return self._graph(args)


class OnceShort:
    """A function that has no memory in its call of this number, from 0."""

    def __init__(self, function: Callable[..., Any], number: int) -> None:
        self._function, self._left = function, number

    def __call__(self, *args: Any) -> Any:
        self._left -= 1
        return no_memory() if self._left == -1 else self._function(*args)


@pytest.mark.parametrize("expected_again", [False, True])
def test_a_graph_that_writes_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, expected_again: bool
) -> None:
    """Though torch's cache may give it the memory that the results were in."""
    cache: list[torch.Tensor] = []
    resize = torch.UntypedStorage.resize_

    def noted(storage: torch.UntypedStorage, nbytes: int) -> Any:
        if not nbytes:
            cache.append(snapshot.whole(storage).clone())
        return resize(storage, nbytes)

    def graph(args: list[torch.Tensor]) -> list[torch.Tensor]:
        return [cache[-1].view(torch.float32)]

    monkeypatch.setattr(torch.UntypedStorage, "resize_", noted)
    aside = Aside({0}, expected_again=expected_again)
    compiled = lambda args: (args[0].repeat(1 << 18) * 3,)  # noqa: E731
    first = first_call(compiled, graph, [torch.randn(4)], frozenset(), [], aside=aside)
    assert len(cache) == 1
    assert not first.accepted


@pytest.mark.parametrize("share", [1, 1 << 60])
def test_results_with_gaps_in_memory_are_moved(monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    monkeypatch.setattr(snapshot, "_HOST_SHARE", share)
    first, second = torch.arange(1 << 20), torch.zeros(1 << 19)
    results = [first[::2], second]
    aside = Aside({0, 1}, expected_again=True)
    aside.take(results, ())
    there = 0 if share == 1 else 1 << 23
    assert [t.untyped_storage().nbytes() for t in results] == [there, 0]
    assert [aside.has_only_fingerprint(t) for t in results] == [False, True]
    assert aside.same(results[0], torch.arange(1 << 20)[::2])
    assert aside.same(results[1], torch.zeros(1 << 19))


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.bool, torch.int8]
)
def test_a_fingerprint_is_that_of_all_bits_in_their_places(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(bits, "_PIECE", 8)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    fingerprints = bits.Fingerprints(torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    tensor = (
        (torch.randn(5, 7) > 0).to(dtype) if dtype is torch.bool else torch.randn(5, 7).to(dtype)
    )
    tensor = tensor.t()
    found = fingerprints.of(tensor)
    assert fingerprints.same(found, tensor, tensor.clone())
    assert not fingerprints.same(found, tensor, tensor.contiguous())  # in another order
    assert not fingerprints.same(found, tensor, tensor.t().view(-1))  # in another shape
    assert not torch.equal(found[:, 0], found[:, 1])
    flat = tensor.t().view(-1)
    for i, j in [(0, 1), (3, 30), (8, 9)]:
        for change in (swapped, negated):
            other = change(flat, i, j).view(5, 7).t()
            assert fingerprints.same(found, tensor, other) == same_bits(tensor, other)


def test_many_changed_signs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what a product says of a number's highest bit little is left in 64 bits."""
    x = torch.rand(1000, dtype=torch.float64) + 1
    fingerprints = bits.Fingerprints(torch.device("cpu"))
    found = fingerprints.of(x)
    torch.manual_seed(0)
    for _ in range(100):
        y = x.clone()
        y[torch.randperm(1000)[:2]] *= -1
        assert not fingerprints.same(found, x, y)


def swapped(flat: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """The same numbers, two of them in each other's place."""
    other = flat.clone()
    other[i], other[j] = flat[j], flat[i]
    return other


def negated(flat: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """Two numbers with the highest bit changed."""
    other = flat.clone()
    view = other.view(torch.uint8)
    for k in (i, j):
        view[(k + 1) * flat.element_size() - 1] ^= 1 if flat.dtype is torch.bool else 128
    return other


def test_without_memory_for_its_own_results_a_call_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "_HOST_SHARE", 1)
    monkeypatch.setattr(torch.UntypedStorage, "resize_", Shrinks(torch.UntypedStorage.resize_))
    state, program = torch.zeros(1 << 18), Watched(1.0)
    args = [torch.randn(4), state]
    first = first_call(
        program.compiled, program.graph, args, frozenset({1}), [], aside=Aside({0, 1, 2, 5})
    )
    assert (first.made, first.short, first.results) == (False, True, None)
    assert first.kept is not None
    first.kept.put_back(args)
    assert args[1] is state
    assert torch.equal(state, torch.zeros(1 << 18))


class Shrinks:
    """A storage's `resize_` that has no memory to make it larger."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __get__(self, storage: Any, owner: Any) -> Any:
        return lambda nbytes: no_memory() if nbytes else self._original(storage, nbytes)
