"""The comparison of the first served call: bits, copies, poison, and what the caller gets when it
fails.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.errors import DriverError
from pygraph_rt.verify import bits, compare, snapshot
from pygraph_rt.verify.bits import same_bits
from pygraph_rt.verify.compare import FirstCall, first_call
from pygraph_rt.verify.snapshot import Aside, Kept, with_copies

HOST, SAME = torch.device("cpu"), torch.device("cpu")


def double(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    a, state = args
    args.clear()
    state.add_(1)
    return (a * 2 + state,)


def call(served: Callable[..., Any], poisoned: list[torch.Tensor] | None = None) -> FirstCall:
    """A first call; whatever the graph does, it is made once, and its results are right."""
    a, state = torch.randn(4), torch.zeros(4)
    poisoned = [torch.zeros(16, dtype=torch.uint8)] if poisoned is None else poisoned
    first = first_call(double, served, [a, state], frozenset({1}), poisoned)
    assert first.made
    assert first.accepted == (not first.refused)
    assert torch.equal(state, torch.ones(4))
    assert torch.equal(first.results[0], a * 2 + 1)
    return first


def test_equal_results_are_accepted_and_state_advances_once() -> None:
    first = call(double)
    assert first.accepted
    assert "bit for bit" in first.note


def wrong_output(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    (result,) = double(args)
    return (result + 1e-6,)


def wrong_state(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    a, state = args
    return (a * 2 + state + 1,)


def not_served(args: list[torch.Tensor]) -> None:
    return None


def broken(args: list[torch.Tensor]) -> None:
    raise DriverError("cuGraphLaunch failed")


@pytest.mark.parametrize(
    ("served", "why"),
    [
        (wrong_output, "1 of 2, first number 0"),
        (wrong_state, "1 of 2, first number 1"),
        (not_served, "did not accept"),
        (broken, "the CUDA driver refused it (cuGraphLaunch failed)"),
    ],
)
def test_a_failure_still_hands_out_the_ordinary_results(served: Any, why: str) -> None:
    assert why in call(served).refused


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (torch.tensor([1.0, 2.0, float("nan"), -0.0]), "1 of 3, first number 1: 1 of 4, float32"),
        (torch.tensor([1, 2, 3, 4], dtype=torch.uint64), "1 of 3, first number 1)"),
        (torch.tensor([1.0, 2.0]), "1 of 3, first number 1)"),
    ],
)
def test_the_reason_says_what_differs(wrong: torch.Tensor, said: str) -> None:
    right = torch.tensor([1.0, 2.0, float("nan"), 0.0])

    def giving(second: torch.Tensor) -> Any:
        return lambda args: (torch.ones(2), second.clone(), None)

    first = first_call(giving(right), giving(wrong), [torch.ones(3)], frozenset(), [])
    assert f"({said}" in first.refused


@pytest.mark.parametrize(
    ("values", "dtype", "count"),
    [([1, 2], torch.uint64, 2), ([True, False], torch.bool, 2), ([1j, 2j], torch.complex64, 4)],
)
def test_differences_are_counted_in_any_dtype(
    values: list[Any], dtype: torch.dtype, count: int
) -> None:
    left, right = torch.tensor(values, dtype=dtype), torch.tensor(values[::-1], dtype=dtype)
    gaps = compare._Gaps([None, left], [None, right], Aside())
    assert str(gaps) == f"1 of 2, first number 1: 2 of {count}, {str(dtype)[6:]}"


def test_a_write_to_poisoned_memory_is_seen() -> None:
    poisoned = torch.zeros(64, dtype=torch.uint8)

    def strays(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        poisoned[17] = 3
        return double(args)

    assert "wrote to an address" in call(strays, [poisoned]).refused


def test_the_share_of_the_cpus_memory_is_that_of_all_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tensor = torch.zeros(1 << 10)
    container = tmp_path / "memory.max"
    monkeypatch.setattr(snapshot, "_CONTAINER", container)
    container.write_text("max\n")
    assert snapshot.few_bytes([tensor, tensor[:8], None])
    container.write_text(f"{16 * 4096}\n")
    assert snapshot.few_bytes([tensor])
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert not snapshot.few_bytes([tensor])
    container.write_text(f"{64 * 4096}\n")
    assert snapshot.few_bytes([tensor])


def no_memory(*arguments: Any) -> Any:
    raise torch.OutOfMemoryError("no memory")


def test_without_memory_for_copies_the_call_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot, "with_copies", no_memory)
    a, state = torch.randn(4), torch.zeros(4)
    args = [a, state]
    first = first_call(double, double, args, frozenset({1}), [])
    assert first.short
    assert (first.made, first.kept) == (False, None)
    assert args[0] is a
    assert args[1] is state
    assert torch.equal(state, torch.zeros(4))


def test_without_memory_for_the_graph_the_ordinary_results_are_there() -> None:
    first = call(no_memory)
    assert first.short
    assert first.kept is None


def test_code_that_does_not_repeat_itself_is_compared_by_its_own_spread() -> None:
    def noisy(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (a,) = args
        return (a + 1e-6 * torch.randn_like(a),)

    def far(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (a,) = args
        return (a + 1e-2,)

    def poisoned(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (a,) = noisy(args)
        return (a.index_fill(0, torch.tensor([7]), float("nan")),)

    torch.manual_seed(0)
    aside = Aside({0})
    note = first_call(noisy, noisy, [torch.randn(300_000)], frozenset(), [], aside=aside).note
    assert "differ from call to call" in note
    assert "bit for bit" not in note
    for wrong in (far, poisoned):
        assert first_call(noisy, wrong, [torch.randn(300_000)], frozenset(), []).refused


def test_one_repeat_is_enough_where_it_tells_enough() -> None:
    """A repeat needs copies of all that the code may write to."""
    calls = 0

    def noisy(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        nonlocal calls
        calls += 1
        return (args[0] + 1e-6 * torch.randn_like(args[0]),)

    torch.manual_seed(0)
    first = first_call(noisy, noisy, [torch.randn(100_000)], frozenset(), [])
    assert first.accepted
    assert calls == 3  # the call, the graph's, one repeat


def test_code_that_rarely_differs_from_call_to_call_is_run_until_it_does() -> None:
    calls = 0

    def rarely(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        nonlocal calls
        calls += 1
        return (args[0] + (1e-6 if calls % 20 == 2 else 0.0),)

    def wrong(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return (args[0] + 1e-2,)

    given = [torch.randn(1000)]
    # The graph's call is the second one, and so one of those that differ.
    first = first_call(rarely, rarely, [*given], frozenset(), [])
    assert first.accepted
    assert calls == 22
    assert first_call(rarely, wrong, [*given], frozenset(), []).refused


def test_code_that_is_slow_is_not_run_for_long_to_see_whether_it_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = 0

    def compiled(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        nonlocal calls
        calls += 1
        return (args[0] + 1,)

    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    first = first_call(compiled, lambda args: (args[0] + 2,), [torch.randn(4)], frozenset(), [])
    assert first.refused
    assert calls == 4  # the call, and three repeats


def test_code_that_does_not_repeat_itself_may_write_to_what_it_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def noisy(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (a,) = args
        a.mul_(2).add_(1e-6 * torch.randn_like(a))
        result = a + 1
        a.random_()
        return (result,)

    def far(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (a,) = args
        return (a.mul_(2).add_(1e-2) + 1,)

    torch.manual_seed(0)
    lent = frozenset({0})
    assert first_call(noisy, noisy, [torch.randn(100_000)], lent, [], scratch=lent).accepted
    assert first_call(noisy, far, [torch.randn(100_000)], lent, [], scratch=lent).refused
    assert first_call(noisy, noisy, [torch.randn(100_000)], lent, []).accepted
    monkeypatch.setattr(snapshot, "_HOST_SHARE", 1 << 60)
    assert first_call(noisy, noisy, [torch.randn(100_000)], lent, [], scratch=lent).accepted
    assert first_call(noisy, noisy, [torch.randn(100_000)], lent, []).refused


def test_copies_may_be_on_another_device() -> None:
    a, b = torch.randn(4, 3).t(), torch.randn(2)
    copied, same = with_copies([a, b], [0], torch.device("meta"))
    assert (copied.device.type, copied.shape, copied.stride()) == ("meta", a.shape, a.stride())
    assert same is b


@pytest.mark.parametrize(
    ("share", "lent", "asked"),
    [
        (1, True, [HOST, SAME]),  # kept to the end, so what the graph runs on is made of it
        (1, False, [HOST, SAME]),
        (1 << 60, True, [None, SAME]),
        (1 << 60, False, [None]),  # there is no repeat: the graph runs on what was kept
    ],
)
def test_what_is_kept_goes_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, share: int, lent: bool, asked: list[Any]
) -> None:
    monkeypatch.setattr(snapshot, "_HOST_SHARE", share)
    found: list[torch.device | None] = []
    running: list[bool] = []
    original = with_copies

    def noted(args: Any, written: Any, device: torch.device | None = None) -> list[Any]:
        found.append(device)
        assert running == ([] if len(found) == 1 else [True])
        return original(args, written, device)

    def ordinary(args: list[Any]) -> Any:
        running.append(True)
        return double(args)

    monkeypatch.setattr(snapshot, "with_copies", noted)
    scratch = frozenset({1} if lent else ())
    first_call(
        ordinary, double, [torch.randn(4), torch.zeros(4)], frozenset({1}), [], scratch=scratch
    )
    assert found == asked


class Arguments:
    """A call's arguments: some are seen by the caller afterwards, some share memory."""

    def __init__(self, shift: int) -> None:
        torch.manual_seed(3)
        base, pair, lent = torch.randn(64), torch.randn(32), torch.randn(64)[shift:]
        self.seen = [base[shift : shift + 12].view(3, 4).t(), base[8:20], base[40:]]
        self.state = torch.arange(6, dtype=torch.int16)[1:]
        self.both = [pair[:16], pair[16:]]
        self.lent = [lent[2:10], lent[6:14].view(2, 4), torch.randn(5, 3).t()]
        self.given = [torch.randn(4), *self.seen, self.state, *self.both, 7, *self.lent]
        self.written = frozenset({1, 2, 4, 6, 8, 9, 10})
        self.scratch = frozenset({6, 8, 9, 10})

    def visible(self) -> list[torch.Tensor]:
        return [t.clone() for t in (*self.seen, self.state, *self.both)]


def overwrites(args: list[Any], stop: bool = False) -> tuple[torch.Tensor, ...]:
    """Reads and writes all that it may; out of memory on the way, if it is to `stop`."""
    scale, a, b, rest, count, plain, half, number, c, d, e = args
    args.clear()
    result = a.sum() + b.sum() + rest.sum() + plain.sum() + half.sum() + c.sum() + d.sum()
    large = torch.full((1000,), number)
    ALIVE.append(weakref.ref(large))
    a.mul_(2)
    b.add_(1)
    count.add_(3)
    c.zero_()
    if stop:
        raise torch.OutOfMemoryError("no memory")
    d.add_(c.sum())
    half.mul_(plain)
    e.mul_(scale[:3, None])
    return (result + d.sum() + e.sum() + half.sum(), large)


ALIVE: list[weakref.ref[torch.Tensor]] = []


@pytest.mark.parametrize("share", [1, 1 << 60])
@pytest.mark.parametrize("shift", [0, 1, 5])
def test_a_call_that_ran_out_of_memory_is_undone(
    monkeypatch: pytest.MonkeyPatch, share: int, shift: int
) -> None:
    monkeypatch.setattr(snapshot, "_HOST_SHARE", share)
    expected, actual = Arguments(shift), Arguments(shift)
    before = actual.visible()
    results = overwrites(list(expected.given))
    ALIVE.clear()
    args = list(actual.given)
    residues = [t.data_ptr() % 512 for t in args if isinstance(t, torch.Tensor)]
    first = first_call(
        lambda args: overwrites(args, stop=True),
        lambda args: pytest.fail("the graph was run"),
        args,
        actual.written,
        [],
        scratch=actual.scratch,
    )
    assert args == []
    assert [alive() for alive in ALIVE] == [None]
    assert (first.made, first.short) == (False, True)
    kept = first.kept
    assert kept is not None
    kept.put_back(args)
    assert all(map(same_bits, actual.visible(), before))
    for i, (now, original) in enumerate(zip(args, actual.given, strict=True)):
        # 6 is nobody's, but its memory is that of 5, which is.
        assert (now is original) == (i not in {8, 9, 10})
    assert [t.data_ptr() % 512 for t in args if isinstance(t, torch.Tensor)] == residues
    assert all(map(same_bits, overwrites(args), results))
    assert all(map(same_bits, actual.visible(), expected.visible()))


VIEWS = st.tuples(
    st.integers(0, 2),
    st.integers(0, 20),
    st.sampled_from([((5,), (3,)), ((2, 3), (1, 2)), ((3, 2), (4, 1)), ((0, 2), (2, 1)), ((), ())]),
    st.sampled_from(["only read", "written", "lent"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(VIEWS, min_size=1, max_size=6), st.sampled_from([1, 1 << 60]), st.integers(0, 3))
def test_whatever_was_overwritten_is_put_back(
    views: list[tuple[int, int, Any, str]], share: int, shift: int
) -> None:
    """`shift`: the memory begins there, in elements, so that it is aligned in several ways."""
    dtypes = [torch.float32, torch.int8, torch.complex64]
    bases = [torch.arange(64).to(dtype)[shift:] for dtype in dtypes]
    args = [bases[n].as_strided(*shape, shift + start) for n, start, shape, _ in views]
    roles = [role for *_, role in views]
    written = frozenset(i for i, role in enumerate(roles) if role != "only read")
    lent = frozenset(i for i, role in enumerate(roles) if role == "lent")
    before = [t.contiguous().clone() for t in args]
    others = [t for i, t in enumerate(args) if i not in lent and t.numel()]
    seen = {t.untyped_storage().data_ptr() for t in others}
    visible = [b for b in bases if b.untyped_storage().data_ptr() in seen]
    whole = [b.clone() for b in visible]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_HOST_SHARE", share)
        kept = Kept(args, written, lent)
    originals = list(args)
    for i in written:
        args[i].fill_(77)
    args.clear()
    kept.put_back(args)
    assert all(same_bits(t.contiguous(), b) for t, b in zip(args, before, strict=True))
    assert all(map(same_bits, visible, whole))
    for i, (now, original) in enumerate(zip(args, originals, strict=True)):
        assert now is original or i in lent
    for i, a in enumerate(args):
        for j, b in enumerate(args):
            if a.numel() and b.numel():
                apart = originals[j].data_ptr() - originals[i].data_ptr()
                together = views[i][0] == views[j][0]
                assert (b.data_ptr() - a.data_ptr() == apart) or not together


def test_nothing_but_the_arguments_is_left_when_a_call_was_undone() -> None:
    for share in (1, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot, "_HOST_SHARE", share)
            args = [torch.randn(4), torch.randn(8)]
            kept = Kept(args, frozenset({0, 1}), frozenset({1}))
            made = [StorageWeakRef(t.untyped_storage()) for t in kept.tensors]
            args.clear()
            kept.put_back(args)
            held = [weakref.ref(t) for t in args]
            # On the GPU, what is nobody's need not be copied again.
            assert [copy.expired() for copy in made] == [True, share == 1]
            args.clear()
            assert [h() for h in held] == [None, None]


def test_an_error_of_the_ordinary_path_is_the_callers() -> None:
    def fails(args: list[Any]) -> Any:
        raise ValueError("its own")

    args = [torch.randn(4), torch.zeros(4)]
    with pytest.raises(ValueError, match="its own") as caught:
        first_call(fails, double, args, frozenset({1}), [])
    assert args == []
    assert caught.value.__cause__ is None


def test_nothing_is_held_longer_than_it_is_needed() -> None:
    """Of what a backward may overwrite, the graph finds no original, and nobody but it holds the
    copies.
    """
    args = [torch.randn(1000) for _ in range(2)]
    originals = [weakref.ref(a) for a in args]
    seen: list[tuple[bool, ...]] = []

    def ordinary(given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        a, b = given
        given.clear()
        result = a * 2 + b
        del a, b
        seen.append(tuple(o() is None for o in originals))
        return (result,)

    def served(given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        result = given[0] * 2 + given[1]
        made = [weakref.ref(a) for a in given]
        given.clear()
        seen.append(tuple(c() is None for c in made))
        return (result,)

    lent = frozenset({0, 1})
    first_call(ordinary, served, args, lent, [], scratch=lent)
    assert seen == [(True, True), (True, True)]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.bool,
        torch.int64,
    ],
)
def test_bits_are_compared_not_values(dtype: torch.dtype) -> None:
    a = torch.tensor([0, 1, 2, 3]).to(dtype)
    assert same_bits(a, a.clone())
    assert not same_bits(a, torch.tensor([3, 2, 1, 0]).to(dtype))
    if dtype.is_floating_point:
        nan = (a.float() * float("nan")).to(dtype)
        assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor(0.0), torch.tensor(-0.0))
    assert not same_bits(a, a.reshape(2, 2))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 7),
    st.integers(0, 7),
    st.sampled_from([torch.float32, torch.int8, torch.float16]),
    st.integers(0, 3),
)
def test_copies_share_memory_as_their_originals_do(
    start: int, other: int, dtype: torch.dtype, shift: int
) -> None:
    base = torch.arange(64).to(dtype)[shift * 4 :]
    view, alias = base[start : start + 8], base[other : other + 8].view(2, 4).t()
    apart = torch.ones(3)
    copied = with_copies([view, alias, apart, 5], [0])
    assert copied[2] is apart
    assert copied[3] == 5
    for original, copy in zip((view, alias), copied[:2], strict=True):
        assert same_bits(original, copy)
        assert copy.untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
        assert (copy.data_ptr() - original.data_ptr()) % 512 == 0
    assert copied[0].untyped_storage().data_ptr() == copied[1].untyped_storage().data_ptr()
    copied[0].fill_(9)
    expected = base.clone()
    expected[start : start + 8] = 9
    assert same_bits(copied[1], expected[other : other + 8].view(2, 4).t())


def test_a_result_on_another_device_is_another_one() -> None:
    first = first_call(
        lambda args: (torch.zeros(2),),
        lambda args: (torch.zeros(2, device="meta"),),
        [torch.ones(1)],
        frozenset(),
        [],
    )
    assert first.made
    assert "differ from the compiled code's (1 of 1, first number 0)" in first.refused


def test_what_lies_between_the_numbers_is_no_difference() -> None:
    a, b = torch.zeros(16), torch.ones(16)
    for t in (a, b):
        t[0] = t[7] = 5.0
    assert same_bits(*(t.as_strided((4, 2), (0, 7)) for t in (a, b)))
    assert same_bits(*(t[::7] for t in (a[:8], b[:8])))
    assert not same_bits(*(t.as_strided((2, 2), (1, 7)) for t in (a, b)))


def test_results_that_are_far_apart_are_seen_in_any_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "_PIECE", 8)
    x = torch.arange(50.0).view(5, 10).t()
    y = x.clone()
    y[9, 4] += 98.0
    assert compare._apart(x, y) == 2.0  # of 49
    y[0, 0] = float("nan")
    assert compare._apart(x, y) == float("inf")
