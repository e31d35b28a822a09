"""Memory that a backward has done with is lent to its intermediates, and never while it is used."""

from __future__ import annotations

import random
import types
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.lending import Lender, Span, lendable, merged
from pygraph_rt.options import Options
from pygraph_rt.partition import Partition
from pygraph_rt.report import Region
from pygraph_rt.signature import Signature
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install, tensor_at

BODY = """
def partition_0(args):
    saved, tangent, kept = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", saved, tangent, buf0)
    if lets_go:
        del saved
    buf1 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", buf0, kept, buf1)
    buf2 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", buf1, buf2)
    return (buf2,)
"""


class Backward:
    """A partition on a software GPU that gets a saved activation, a tangent and a parameter."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        lets_go: bool,
        donated: set[int],
        beside: Backward | None = None,
        **options: Any,
    ) -> None:
        self.gpu = beside.gpu if beside else SoftwareGpu()
        self.environment = beside.environment if beside else install(patch, self.gpu)
        module = types.ModuleType("generated")
        module.__dict__.update(
            torch=torch,
            empty_strided_cuda=self.gpu.allocate,
            launch=self.gpu.launch_kernel,
            lets_go=lets_go,
        )
        exec(BODY, module.__dict__)
        self.region = Region("graph 0/0 backward partition 1 of 1")
        self.partition = Partition(
            module.__dict__["partition_0"],
            self.region,
            Options(**{"graphs": "always", **options}),
            self.environment,
            Signature(0, written=frozenset(donated), donated=frozenset(donated)),
        )
        self.kept = self.fresh()

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def call(self) -> torch.Tensor:
        """One call; returns what was saved, as it is afterwards."""
        saved, tangent = self.fresh(), self.fresh()
        expected = (saved + tangent + self.kept) * 0.5
        (result,) = self.partition([saved, tangent, self.kept])
        assert torch.equal(result, expected)
        return saved


@pytest.mark.parametrize(
    ("lets_go", "donated", "lent"), [(True, {0}, True), (True, set(), False), (False, {0}, False)]
)
def test_an_intermediate_lies_where_a_saved_tensor_was(
    monkeypatch: pytest.MonkeyPatch, lets_go: bool, donated: set[int], lent: bool
) -> None:
    backward = Backward(monkeypatch, lets_go, donated)
    kept = backward.kept.clone()
    for _ in range(3):
        backward.call()
    before = torch.randn(COUNT)
    monkeypatch.setattr(
        backward,
        "fresh",
        lambda: backward.gpu.allocate((COUNT,), (1,), torch.float32).copy_(before),
    )
    saved = backward.call()
    backward.partition.refresh()
    assert backward.region.served == 2, backward.region.reason
    assert "bit for bit" in backward.region.note
    assert torch.equal(saved, before) != lent
    assert torch.equal(backward.kept, kept)


def test_only_memory_of_one_argument_is_lent() -> None:
    base = torch.zeros(8)
    args = [base[:4], base[4:], torch.zeros(4), 3]
    assert lendable(args, frozenset({0, 2, 3})) == [2]


def test_neighbours_in_one_input_are_joined() -> None:
    spans = [Span(1, 8, 16), Span(0, 16, 24), Span(0, 8, 16), Span(1, 24, 32)]
    assert merged(spans) == [Span(0, 8, 24), Span(1, 8, 16), Span(1, 24, 32)]


def make(address: int, nbytes: int, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return tensor_at(address, nbytes, size, stride, dtype, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6000), min_size=1, max_size=6), st.integers(0, 10_000))
def test_what_is_lent_never_overlaps_and_is_chosen_alike(sizes: list[int], seed: int) -> None:
    """Two captures with their inputs elsewhere; whatever is alive keeps its memory to itself."""
    homes = [torch.zeros(1 << 17, dtype=torch.uint8) for _ in range(2)]
    bases = [h.data_ptr() + (-h.data_ptr()) % 512 for h in homes]
    order = list(range(len(sizes)))
    places: list[dict[int, int]] = []
    for base, turn in zip(bases, (order, order[::-1]), strict=True):
        cursor, place = base, {}
        for i in turn:
            place[i] = cursor
            cursor += -(-4 * sizes[i] // 512) * 512 + 512
        places.append(place)

    def run(place: dict[int, int]) -> list[tuple[int, int] | None]:
        rng = random.Random(seed)
        lender = Lender(make)
        alive: list[torch.Tensor] = []
        for i, n in enumerate(sizes):
            alive.append(make(place[i], 4 * n, (n,), (1,), torch.float32))
            lender.watch(alive[-1])
        chosen: list[tuple[int, int] | None] = []
        for _ in range(20):
            if alive and rng.random() < 0.5:
                del alive[rng.randrange(len(alive))]
            n = rng.randrange(1, 3000)
            tensor = lender.take((n,), (1,), torch.float32)
            if tensor is None:
                chosen.append(None)
                continue
            start, end = tensor.data_ptr(), tensor.data_ptr() + 4 * n
            assert start % 256 == 0
            for other in alive:
                first = other.data_ptr()
                assert end <= first or first + 4 * other.numel() <= start
            (owner,) = [i for i in place if place[i] <= start and end <= place[i] + 4 * sizes[i]]
            chosen.append((owner, start - place[owner]))
            alive.append(tensor)
        return chosen

    assert run(places[0]) == run(places[1])
