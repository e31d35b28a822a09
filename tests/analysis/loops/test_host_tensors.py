"""Parameters of training loops' functions for which every call passes a tensor of the host."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, RegionOptions
from tests.analysis.programs import project

LENGTHS = """
import torch

def lengths_of(dones: torch.Tensor, size):
    ends = dones.view(-1, size).nonzero()
    longest = ends.max().item()
    return torch.sort(ends)[0].to("cpu"), longest

def packed(x, dones, size):
    return x * lengths_of(dones, size)[1]
"""
LOOP = """
import torch
from lengths import lengths_of, packed

def train(model, loader, optimizer, size):
    for batch in loader:
        x = batch.x.cuda(non_blocking=True)
        loss = model(x).sum()
        valid = loss > 3
        {}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ("lengths_of(valid.cpu(), size)", False),
        ("done = valid.cpu(); lengths_of(done.float(), size)", False),
        ("loss = packed(loss, torch.logical_or(batch.done, ~valid.cpu()), size)", False),
        ("lengths_of(dones=torch.zeros(3), size=size)", False),
        ("lengths_of(valid, size)", True),
        ("packed(loss, valid, size)", True),
        ("lengths_of(batch, size)", True),
        ("lengths_of(size.dones(), size)", True),
        ("lengths_of(valid.cpu(), size); packed(loss, valid, size)", True),
    ],
)
def test_what_gets_tensors_of_the_host_does_not_wait(call: str, reported: bool) -> None:
    linked, facts = project(lengths=LENGTHS, m=LOOP.format(call))
    found = [event.span.line for _, event in linked.loop_events(facts["lengths"])]
    assert bool({6, 7} & {*found}) is reported


SMOOTHED = """
import torch
from torch import nn

class Smoothed(nn.Module):
    def __init__(self, share{0}):
        super().__init__()
        self.share = share
        self.last = torch.zeros(3)

    def of(self, x):
        counts = torch.zeros(3)
        counts = self.share * self.last + counts
        return (counts > 0).sum().item() * x

def train(model, loader, optimizer):
    smoothed = Smoothed()
    for batch in loader:
        loss = smoothed.of(model(batch.cuda(non_blocking=True)))
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("default", "reported"), [("=0.5", False), ("", True), ("=None", True)])
def test_a_number_by_default_is_one_where_no_call_says_more(default: str, reported: bool) -> None:
    linked, facts = project(m=SMOOTHED.format(default))
    found = [event.span.line for _, event in linked.loop_events(facts["m"])]
    assert (14 in found) is reported


@pytest.mark.parametrize(
    ("read", "reported"),
    [
        ("penalty.item()", True),
        ("model.factor.item()", True),
        ("made(batch).item()", True),
        ("model.penalty.factor.item()", False),
        ("model.penalty.factor.data.item()", False),
        ("model.schema.item().size", False),
        ("model.part.sum().item()", True),
    ],
)
def test_what_an_object_of_an_object_holds_may_be_anywhere(read: str, reported: bool) -> None:
    source = f"""
        import torch
        def train(model, loader, optimizer, penalty, made):
            for batch in loader:
                loss = model(batch.cuda(non_blocking=True)).sum()
                loss.backward()
                optimizer.step()
                kept = {read}
    """
    for asked, expected in ((DEFAULT_REGIONS, reported), (RegionOptions(every=True), True)):
        linked, facts = project(asked, m=source)
        found = [event.span.line for _, event in linked.loop_events(facts["m"])]
        assert (8 in found) is expected
