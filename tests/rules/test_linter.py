"""The linter flags the marked lines of the bad examples with the marked codes, and nothing else."""

from __future__ import annotations

import pytest

from pygraph_lint.errors import SourceError
from pygraph_lint.rules import catalogue
from tests.rules import examples
from tests.rules.conftest import lint_text

# The command itself reports these: they are about files and comments, not about code.
OF_THE_COMMAND = ("PG001", "PG002", "PG003")
ALL = [
    example
    for rule in catalogue.load().values()
    if rule.code not in OF_THE_COMMAND
    for example in examples.of_rule(rule)
]


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_flagged_exactly_where_marked(example: examples.Example) -> None:
    findings = lint_text(example.text)
    seen = sorted((finding.location.row, finding.code) for finding in findings)
    marked = sorted((row, code) for row, codes in example.marks.items() for code in codes)
    assert seen == marked


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_findings_say_what_and_why(example: examples.Example) -> None:
    for finding in lint_text(example.text):
        assert "{" not in finding.message.replace("{subject}", "{")
        assert finding.evidence or finding.region, finding.message
        assert (finding.region is None) == finding.code.startswith("PG6")


def test_methods_of_a_gradient_run_no_autograd() -> None:
    text = "import torch\nclass M(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    text += "        y = torch.autograd.functional.jacobian(self.f, x)\n"
    text += "        return y.negative()\n"
    assert [found.code for found in lint_text(text)] == ["PG510"]


def test_a_syntax_error_has_its_place() -> None:
    bad = examples.of_rule(catalogue.load()["PG001"])[0]
    with pytest.raises(SourceError) as caught:
        lint_text(bad.text)
    assert caught.value.line in bad.marks


@pytest.mark.parametrize(
    ("test", "arms"),
    [
        ("if self.on:\n    LINE", ("self.on",)),
        ("if not self.on:\n    LINE", ("not self.on",)),
        ("if self.on:\n    x = x * 2\nelse:\n    LINE", ("not self.on",)),
        ("if y is None:\n    x = x * 2\nelse:\n    LINE", ("y is not None",)),
        ("if self.on and k > 1:\n    if k != 2:\n        LINE", ("self.on and k > 1", "k != 2")),
        ("if k > 2:\n    x = x * 2\nelif self.on:\n    LINE", ("k <= 2", "self.on")),
        ("LINE\nif self.on:\n    x = x * 2", ()),
        ("while k > 2:\n    k = k - 1\n    LINE", ()),
    ],
)
def test_conditions_under_which_a_line_runs_are_told(test: str, arms: tuple[str, ...]) -> None:
    body = test.replace("LINE", "x = x * x.sum().item()").replace("\n", "\n        ")
    source = f"""
import torch
class Model(torch.nn.Module):
    def __init__(self, on):
        super().__init__()
        self.on = on
    def forward(self, x: torch.Tensor, y: torch.Tensor | None, k: int) -> torch.Tensor:
        {body}
        return x
"""
    (finding,) = [each for each in lint_text(source) if each.code == "PG201"]
    assert finding.only_if == arms
