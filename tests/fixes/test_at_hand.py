"""A tensor that a new one meets later is asked for its device only where it surely is one."""

from __future__ import annotations

import pytest

from tests.fixes.support import offer

HEAD = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
INIT = "    def __init__(self, biased):\n        super().__init__()\n"


def fixed(methods: str, met: str = "x") -> bool:
    """Whether a factory of a model makes its tensor on the device of what it meets."""
    _, changed = offer(HEAD + methods, "PG102", meets=f"{met}.device", uses="device")
    return f"device={met}.device" in changed


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        ("x: torch.Tensor", ["s = «torch.ones(1)»", "return x * s"]),
        ("x: torch.Tensor", ["s = «torch.ones(1)»", "x = x.relu()", "return x * s"]),
        ("x: torch.Tensor", ["return x * «torch.ones(1)»"]),
        ("z", ["x = z.relu()", "s = «torch.ones(1)»", "return x.relu() * s"]),
        ("x", ["s = «torch.ones(1)»", "return x.relu() * s"]),
    ],
)
def test_what_is_there(head: str, lines: list[str]) -> None:
    assert fixed(f"    def forward(self, {head}):\n        " + "\n        ".join(lines) + "\n")


@pytest.mark.parametrize(
    ("head", "after"),
    [
        ("x: torch.Tensor | None", "return 0 if x is None else x * s"),
        ("x: torch.Tensor = None", "return x * s"),
        ("z: torch.Tensor", "x = z.relu()\n        return x.relu() * s"),
        ("x", "x = torch.cat(x)\n        return x.relu() * s"),
        ("xs: list[torch.Tensor]", "return [x.relu() * s for x in xs]"),
        ("xs: list[torch.Tensor]", "for x in xs:\n            x = x.relu() * s\n        return x"),
        ("x: torch.Tensor", "if x is not None:\n            x = x * s\n        return x"),
        ("*x: torch.Tensor", "return x * s"),
    ],
)
def test_what_may_not_be_there(head: str, after: str) -> None:
    body = f"s = «torch.ones(1)»\n        {after}"
    assert not fixed(f"    def forward(self, {head}):\n        {body}\n")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("self.bias = nn.Parameter(torch.ones(3))", True),
        ("self.bias = nn.Parameter(torch.ones(3)) if biased else None", False),
        ("self.register_parameter('bias', None)", False),
    ],
)
def test_attributes(made: str, expected: bool) -> None:
    forward = "    def forward(self):\n        s = «torch.ones(1)»\n        return self.bias * s\n"
    assert fixed(f"{INIT}        {made}\n\n{forward}", "self.bias") == expected
