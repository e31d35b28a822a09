"""What waits or breaks the graph, and what only looks so: pairs of similar code."""

from __future__ import annotations

import pytest

from tests.analysis.loops.test_costs import in_loop
from tests.rules.conftest import lint_text

PROGRAM = """
import random
import torch

def bounds(low, high):
    return tuple(map(float, (low, high)))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rng = random.Random(3)

    def forward(self, x: torch.Tensor, labels: torch.Tensor, at):
        low, high = bounds(*at)
        {}
        return x
"""


def said(lines: str) -> list[tuple[str, str, str]]:
    """Code, whether the graph breaks, whether the host waits."""
    text = PROGRAM.format(lines.replace("\n", "\n        "))
    found = lint_text(text)
    return [(f.code, f.consequences["compile"], f.consequences["sync"]) for f in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("return x.as_subclass(torch.Tensor)", [("PG507", "break", "no")]),
        ("return x.as_subclass(Signal)", []),
        ("for i in torch.arange(3): x = x * i", []),
        ("for i in torch.randperm(3): x = x * i", []),
        ("steps = torch.arange(3)\nx[:, 0] = x[:, 1] * steps", [("PG102", "ok", "yes")]),
    ],
)
def test_what_only_looks_like_a_break_or_a_wait(
    lines: str, expected: list[tuple[str, str, str]]
) -> None:
    assert said(lines) == expected


@pytest.mark.parametrize(
    ("pinned", "options", "code"),
    [(".pin_memory()", ", non_blocking=True", "PG107"), (".pin_memory()", "", "PG106")],
)
def test_a_copy_from_pinned_memory(pinned: str, options: str, code: str) -> None:
    lines = f"made = torch.stack([torch.rand(4)])\nx = x + made{pinned}.to('cuda'{options})"
    assert code in {found for found, *_ in said(lines)}
    assert ("PG106" in {found for found, *_ in said(lines)}) is (code == "PG106")


@pytest.mark.parametrize(
    ("read", "waits"),
    [("x - low", "yes"), ("x.cpu() - low", "no"), ("x.cpu().floor() * low > high", "no")],
)
def test_what_meets_a_tensor_of_the_host_is_on_the_host(read: str, waits: str) -> None:
    """Where it is a tensor of a device, the operation raises."""
    found = said(f"x = x * ({read}).sum().item()")
    assert [wait for code, _, wait in found if code == "PG201"] == [waits]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("loss.detach().numpy()", []),  # raises for a tensor of a device
        ("loss.detach().numpy(force=True)", ["loop.read"]),
        ("np.round(loss, 3)", []),
        ("np.float32(loss)", ["loop.read"]),
        ("math.sqrt(loss)", ["loop.read"]),
    ],
)
def test_what_raises_for_a_tensor_of_a_device_does_not_wait(line: str, expected: list[str]) -> None:
    found = in_loop(f"import math\nimport numpy as np\nkept = {line}")
    assert [kind for kind in found if kind == "loop.read"] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("if self.rng.random() < 0.5: x = x * 2", ["PG306"]),
        ("x = x * self.rng.random() + self.rng.uniform(0, 1)", []),
        ("x = x * self.rng.choice([1, 2])", ["PG504"]),
        ("rng = random.Random(0)\nif rng.randint(0, 3): x = x * 2", ["PG306"]),
    ],
)
def test_draws_from_a_generator_of_pythons(lines: str, expected: list[str]) -> None:
    assert [code for code, *_ in said(lines)] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("x[low, labels[1, 0]] = 1", ("PG208", "break", "yes")),
        ("x[0, labels[0]] = 1", ("PG208", "ok", "yes")),  # perhaps one of many numbers
        ("x = x[labels[1, 0]]", ("PG407", "break", "yes")),
    ],
)
def test_a_place_of_an_index_tensor_is_a_number(lines: str, expected: tuple[str, str, str]) -> None:
    assert expected in said(lines)


def test_a_list_needs_its_index_now() -> None:
    lines = "import numpy as np\nparts = [x, x + 1]\nx = parts[np.argmax([1, 2])]"
    text = PROGRAM.format(lines.replace("\n", "\n        "))
    (found,) = [each for each in lint_text(text) if each.code == "PG520"]
    assert found.consequences["fullgraph"] == "error"


@pytest.mark.parametrize(
    ("call", "whole"),
    [
        ("torch.logsumexp(x[labels > 0], 0)", "error"),  # asks whether there is anything to sum
        ("x[labels > 0].logsumexp(0)", "error"),
        ("torch.amax(x[labels > 0], 0)", "ok"),
        ("x[labels > 0].softmax(0)", "ok"),
    ],
)
def test_what_a_graph_of_one_piece_makes_of_a_selection(call: str, whole: str) -> None:
    (found,) = lint_text(PROGRAM.format(f"return {call}"))
    assert (found.code, found.consequences["fullgraph"]) == ("PG402", whole)


@pytest.mark.parametrize(
    ("flags", "mask"),
    [
        ("[True, False]", True),
        ("[n > 1 for n in at]", True),
        ("[isinstance(n, int) for n in at]", True),
        ("[1, 0]", False),
        ("[n + 1 for n in at]", False),
    ],
)
def test_a_tensor_of_flags_is_a_mask(flags: str, mask: bool) -> None:
    found = said(f"kept = torch.tensor({flags}, device=x.device)\nx = x[kept]")
    assert ("PG402" in {code for code, *_ in found}) is mask
