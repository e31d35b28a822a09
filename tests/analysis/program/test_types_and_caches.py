"""Tests for a type, caches of functions, and methods that only tensors have."""

from __future__ import annotations

import pytest

from tests.analysis.programs import forward, project
from tests.rules.conftest import lint_text


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("type(step) is torch.Tensor", False),
        ("type(step) == torch.Tensor", False),
        ("not type(step) is not torch.Tensor", False),
        ("type(step) is int", True),
        ("type(step) is not torch.Tensor", True),
    ],
)
def test_a_test_for_a_type_says_what_the_other_arm_gets(test: str, reported: bool) -> None:
    body = f"if {test}:\n    return x\nreturn x + torch.tensor([step], device=x.device)"
    found = forward(body, "x: torch.Tensor, step: int | torch.Tensor")
    assert ("sync.number" in found) is reported


CACHED = """
import functools
import torch
from functools import lru_cache

class Pattern:
    {made}

    {decorator}
    def table(self, size, device):
        return torch.tensor([size] * size).to(device)

    {decorator}
    def scaled(self, x: torch.Tensor, device):
        return x.to(device)

def train(model, loader, optimizer, device):
    pattern = Pattern()
    for x in loader:
        loss = model(x).sum() + pattern.table(3, device).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "decorator", "reported"),
    [
        ("def __init__(self): self.table = lru_cache(9)(self.scaled)", "", True),
        ("def __init__(self): self.other = lru_cache(9)(self.table)", "", True),
        ("", "", True),
    ],
)
def test_a_cached_function_does_not_copy_on_every_step(
    made: str, decorator: str, reported: bool
) -> None:
    linked, facts = project(m=CACHED.format(made=made, decorator=decorator))
    found = [event.kind for _, event in linked.loop_events(facts["m"])]
    assert ("loop.copy" in found) is reported


MOVES = """
import torch

class Voice:
    def to(self, device):
        for key, value in self.parts.items():
            if torch.is_tensor(value):
                self.parts[key] = value.to(device=device)
        return self

def train(model, loader, optimizer, device, make):
    for x in loader:
        made = make(x)
        loss = model(x).sum() * {}
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("moved", "reported"),
    [
        ("(~made).float().unsqueeze(-1).to(device)", False),
        ("make(x).unsqueeze(0).to(device)", False),
    ],
)
def test_what_only_a_tensor_gives_has_no_method_of_the_project(moved: str, reported: bool) -> None:
    linked, facts = project(m=MOVES.format(moved))
    lines = {event.span.line for _, event in linked.loop_events(facts["m"])}
    assert (8 in lines) is reported


@pytest.mark.parametrize(
    ("given", "compiles"),
    [("True", "break"), ("self.training", "break"), ("False", "ok")],
)
def test_a_tensor_of_data_that_wants_gradients_breaks_the_graph(given: str, compiles: str) -> None:
    source = f"""
import torch
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x + torch.tensor([0.0, 1.0], device=x.device, requires_grad={given})
"""
    (found,) = [each for each in lint_text(source) if each.code == "PG104"]
    assert found.consequences["compile"] == compiles


@pytest.mark.parametrize(
    ("made", "reported"),
    [
        ("total = torch.tensor([0.0])\nfor y in ys:\n    total += y\n", False),
        ("total = torch.Tensor([0.0])\ntotal += x.sum()\ntotal /= 3\n", False),
        ("total = torch.tensor([0.0])\ntotal += ys[0]\ntotal = self.part * total\n", False),
        ("total = torch.tensor(0.0)\ntotal = total + x.sum()\n", True),
        ("total = torch.tensor([0.0, 1.0]).to(x.device)\ntotal += x\n", True),
    ],
)
def test_a_tensor_that_is_added_to_in_place_stays_on_the_host(made: str, reported: bool) -> None:
    parameters = "x: torch.Tensor, ys: list[torch.Tensor]"
    found = forward(f"{made}return 2 * total", parameters, "self.part = size")
    assert any(kind.startswith("host.") for kind in found) is reported
