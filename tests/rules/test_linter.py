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
