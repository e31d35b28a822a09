"""What a function stores by a name in a dictionary of which nothing is known."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

BRANCH = ["branch.if"]
HEAD = "import torch\n"


def found(source: str) -> list[str]:
    """The kinds of the events of a one-file program, where every region is asked for."""
    linked, facts = project(RegionOptions(every=True), m=HEAD + source)
    return [event.kind for event in confirmed(linked, facts["m"])]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("kept['norm'] = x.norm()", BRANCH),
        ("if 'norm' not in kept:\n        kept['norm'] = x.norm()", BRANCH),
        ("kept['norm'] = x.norm()\n    other = kept", BRANCH),
        # another key, a number, another dictionary
        ("kept['mean'] = x.mean()", []),
        ("kept['norm'] = x.norm()\n    kept['norm'] = 3", []),
        ("kept['norm'] = x.norm()\n    kept = table[0]", []),
    ],
)
def test_an_entry_is_what_was_stored(body: str, expected: list[str]) -> None:
    source = f"def f(x: torch.Tensor, table):\n    kept = table[1]\n    {body}\n"
    assert found(source + "    if kept['norm'] > 3:\n        return x\n    return -x\n") == expected


def test_the_state_of_an_optimizer_is_no_tensor() -> None:
    source = """
class Descent(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["norm"] = torch.zeros(1, device=p.device)
                    state["steps"] = 0
                if state["norm"] > 3 or state["steps"] > 3:
                    continue
                p.add_(p.grad)
"""
    assert found(source) == BRANCH
    assert found(source.replace('["norm"] > 3 or state', "")) == []
