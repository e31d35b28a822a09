"""The comparison of the first served call: bits, copies, poison, and what the caller gets when it
fails.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt import verification
from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.verification import Ran, first_call, same_bits, with_copies


def double(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    a, state = args
    args.clear()
    state.add_(1)
    return (a * 2 + state,)


def call(served: Callable[..., Any], poisoned: list[torch.Tensor] | None = None) -> Any:
    a, state = torch.randn(4), torch.zeros(4)
    poisoned = [torch.zeros(16, dtype=torch.uint8)] if poisoned is None else poisoned
    verdict = first_call(double, served, [a, state], frozenset({1}), poisoned)
    assert torch.equal(state, torch.ones(4))
    assert torch.equal(verdict.outputs[0], a * 2 + 1)
    return verdict


def test_equal_results_are_accepted_and_state_advances_once() -> None:
    assert "bit for bit" in call(double).note


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
    ("served", "error"),
    [
        (wrong_output, Unprovable),
        (wrong_state, Unprovable),
        (not_served, Unprovable),
        (broken, DriverError),
    ],
)
def test_a_failure_still_hands_out_the_ordinary_results(served: Any, error: type) -> None:
    a, state = torch.randn(4), torch.zeros(4)
    with pytest.raises(error) as caught:
        first_call(double, served, [a, state], frozenset({1}), [])
    assert isinstance(caught.value.__cause__, Ran)
    assert torch.equal(caught.value.__cause__.outputs[0], a * 2 + 1)
    assert torch.equal(state, torch.ones(4))


def test_a_write_to_poisoned_memory_is_seen() -> None:
    poisoned = torch.zeros(64, dtype=torch.uint8)

    def strays(args: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        poisoned[17] = 3
        return double(args)

    with pytest.raises(Unprovable, match="wrote to an address"):
        call(strays, [poisoned])


@pytest.mark.parametrize(
    ("fails_at", "words"), [("copies", "memory for copies"), ("outputs", "two sets of outputs")]
)
def test_too_little_memory_to_compare_is_noted(
    monkeypatch: pytest.MonkeyPatch, fails_at: str, words: str
) -> None:
    def no_memory(*arguments: Any) -> Any:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    if fails_at == "copies":
        monkeypatch.setattr(verification, "with_copies", no_memory)
    verdict = call(double if fails_at == "copies" else no_memory)
    assert verdict.note.startswith("not compared")
    assert words in verdict.note


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
    first_call(noisy, noisy, [torch.randn(100_000)], frozenset(), [])
    for wrong in (far, poisoned):
        with pytest.raises(Unprovable):
            first_call(noisy, wrong, [torch.randn(100_000)], frozenset(), [])


def test_code_that_does_not_repeat_itself_may_write_to_what_it_was_lent() -> None:
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
    first_call(noisy, noisy, [torch.randn(100_000)], lent, [], scratch=lent)
    with pytest.raises(Unprovable):
        first_call(noisy, far, [torch.randn(100_000)], lent, [], scratch=lent)
    with pytest.raises(Unprovable):
        first_call(noisy, noisy, [torch.randn(100_000)], lent, [])


def test_copies_may_be_on_another_device() -> None:
    a, b = torch.randn(4, 3).t(), torch.randn(2)
    copied, same = with_copies([a, b], [0], torch.device("meta"))
    assert (copied.device.type, copied.shape, copied.stride()) == ("meta", a.shape, a.stride())
    assert same is b


@pytest.mark.parametrize("share", [1, 1 << 60])
def test_the_spare_copy_goes_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr(verification, "_HOST_SHARE", share)
    asked: list[torch.device | None] = []
    original = with_copies

    def noted(args: Any, written: Any, device: torch.device | None = None) -> list[Any]:
        asked.append(device)
        return original(args, written, device)

    monkeypatch.setattr(verification, "with_copies", noted)
    lent = frozenset({1})
    first_call(double, double, [torch.randn(4), torch.zeros(4)], lent, [], scratch=lent)
    assert asked == [None, torch.device("cpu") if share == 1 else None]


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
        copies = [weakref.ref(a) for a in given]
        given.clear()
        seen.append(tuple(c() is None for c in copies))
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
