"""A tensor that is made on the host is reported where it, or what is computed from it, is seen to
meet the device; where it may meet it, if all that gets tensors is asked for.
"""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, RegionOptions
from tests.analysis.programs import confirmed, project

HEAD = """
import torch
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, others, count: int):
"""


def made(body: str, more: str = "", asked: RegionOptions = DEFAULT_REGIONS) -> list[str]:
    """The host tensors that are reported."""
    source = HEAD + "".join(f"        {line}\n" for line in body.splitlines()) + more
    linked, facts = project(asked, m=source)
    found = (event.kind for event in confirmed(linked, facts["m"]))
    return [kind for kind in found if kind in ("host.factory", "host.data-tensor")]


@pytest.mark.parametrize(
    "body",
    [
        "tops = torch.tensor([1, 4, 7])\nfor part, top in zip(x, tops):\n"
        "    x = x + part[top : top + 2]\nreturn x",
        "tops = torch.tensor([1, 4, 7])\nfor i, (part, top) in enumerate(zip(x, tops)):\n"
        "    x = x + part[i, top:]\nreturn x",
        "start = torch.randint(0, 9, (1,))[0]\nlast = torch.randint(0, 9 - start, (1,))[0]\n"
        "return x[:, start : start + last]",
        "forces = torch.zeros(1)\nif self.training:\n    forces = x * 2\nreturn x, forces",
        "lengths = torch.tensor([min(1, each) for each in others])\nreturn x, lengths",
        "marks = torch.arange(count)\nmarks = marks[marks % 2 == 0]\nsizes = marks.tolist()\n"
        "return x.split(sizes)",
        "kept = []\nfor i in range(count):\n    kept.append(torch.arange(i))\n"
        "return x, torch.cat(kept)",
        "table = torch.zeros(3, 3)\ntable[0, :2] = 1\nrows = table.sum().item()\nreturn x * rows",
        "names = [int(i) for i in torch.randperm(count)]\nreturn [others[i] for i in names]",
        "lo = torch.arange(3)\nhi = torch.stack([lo, lo + 1])\nassert hi.max() < 5\nreturn x",
    ],
)
def test_what_never_meets_the_device_is_not_reported(body: str) -> None:
    assert made(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "return x[torch.arange(3)]",
        "return torch.arange(3).view(1, 3).to(others.place)",
        "return to_device(torch.arange(3), x)",
        "return torch.distributions.Normal(torch.zeros(3), 1).sample().to(x.device)",
        "steps = others(torch.arange(3)[:, None])\nreturn x + steps.view(-1).to(x.device)",
        "return x + others(steps=torch.arange(3)).cuda()",
        "steps = torch.arange(3)\nreturn steps.view(3, 1).type(x.type())",
        "rows = torch.zeros(3)\nfor i in range(3):\n    rows[i], _ = x.max(0)\nreturn rows",
        "table = torch.zeros(3)\ntable[0] = x.sum()\nreturn table.tolist()",
        "kept = {}\nkept['a'] = torch.arange(3)\nreturn x[kept['a']]",
        "for a, steps in zip(x, torch.arange(3)):\n    x = x + a[steps]\nreturn x",
        "steps = torch.arange(3)\nsteps = steps + others.long() + x.long()\nreturn x[steps]",
        "return x + torch.rand(()) * 2",
        "steps = torch.stack([torch.arange(3), others.first()])\nreturn steps.to(x.device)",
    ],
)
def test_what_meets_the_device_is_reported(body: str) -> None:
    assert made(body) == ["host.factory"]


@pytest.mark.parametrize(
    "body",
    [
        "kept = []\nkept.append(torch.arange(3))\nreturn x * torch.cat(kept)",
        "self.steps = torch.arange(3)\nreturn x",
        "return others(torch.arange(3))",
        "return x + others(torch.arange(3))",
        "steps = torch.arange(3)\nreturn torch.vmap(lambda y: y + steps)(x)",
        "steps = torch.arange(3)\ndef shifted(y):\n    return y + steps\nreturn shifted(x)",
        "global steps\nsteps = torch.arange(3)\nreturn x",
        "mask = torch.zeros(3)\nif self.training:\n    mask = torch.ones(3, device=x.device)\n"
        "return x * mask",
        "sizes = torch.arange(1, 3)\nreturn x.expand(*sizes)",
        # No operator takes them together with tensors of a device.
        "return x + torch.arange(3) * 2",
        "steps = torch.arange(3)\nsteps = steps.view(-1, 1)\nreturn torch.cat([x, steps])",
        "table = torch.zeros(3, 3)\nfor row in table:\n    x = x + row\nreturn x",
        "return x.maximum(torch.arange(3))",
    ],
)
def test_what_may_meet_the_device_is_reported_where_all_is_asked_for(body: str) -> None:
    assert made(body) == []
    assert made(body, asked=RegionOptions(every=True)) == ["host.factory"]


def test_what_is_returned_is_reported_where_a_region_calls_the_function() -> None:
    helper = "    def steps(self):\n        return torch.arange(3)\n"
    every = RegionOptions(every=True)
    assert made("return x[self.steps()]", helper) == []
    assert made("return x[self.steps()]", helper, every) == ["host.factory"]
    assert made("return torch.arange(count)", asked=every) == []
    part = "    def __init__(self):\n        super().__init__()\n"
    whole = "def build(losses):\n    return losses(matcher=M())\n"
    assert made("return torch.arange(count)", part + whole, every) == ["host.factory"]


@pytest.mark.parametrize(("given", "expected"), [("x.shape[1]", []), ("x", ["host.factory"])])
def test_what_meets_an_argument_is_reported_where_a_call_passes_a_tensor(
    given: str, expected: list[str]
) -> None:
    helper = "    def last(self, width):\n"
    helper += "        return int((width - torch.arange(3)).max())\n"
    assert made(f"return x[: self.last({given})]", helper) == expected
