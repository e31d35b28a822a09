"""Elements that a statement copies to the host one by one: copied at once, run and compared."""

from __future__ import annotations

import pytest
import torch

from pygraph_lint.fixes import elements_list
from pygraph_lint.fixes.names import FileNames
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import decline, edited, expect, finding, marked

BEFORE = """
    import torch


    def forward(x, shape: torch.Tensor, step: int):
        # rows and columns
        rows, columns = (
            «shape[0].item()» // step,
            shape[-1].item() // step,  # the last
        )
        return x[:rows, :columns] * (rows > columns)
    """

AFTER = (
    marked(BEFORE)[0]
    .replace("    rows, columns =", "    shape_list = shape.tolist()\n    rows, columns =")
    .replace("shape[0].item()", "shape_list[0]")
    .replace("shape[-1].item()", "shape_list[-1]")
)


def test_the_elements_are_copied_at_once() -> None:
    fix = expect(BEFORE, AFTER, "PG201", "unsafe")
    assert "one dimension" in fix.reason


def test_all_findings_of_the_statement_are_one_rewrite() -> None:
    both = BEFORE.replace("shape[-1].item()", "«shape[-1].item()»")
    expect(both, AFTER, "PG201", "unsafe")


@pytest.mark.parametrize("shape", [[2, 4], [4, 9, 2], [6], []])
def test_they_compute_the_same_with_fewer_breaks(shape: list[int]) -> None:
    before, after = (module_of(text).forward for text in (marked(BEFORE)[0], AFTER))
    arguments = (torch.randn(4, 4, requires_grad=True), torch.tensor(shape), 2)
    assert_same(run(before, arguments), run(after, arguments))
    if shape:
        assert breaks(after, arguments) < breaks(before, arguments)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("shape: torch.Tensor", "shape", "nothing shows"),
        ("rows, columns =", "n = 0; rows, columns =", "holds more"),
        ("step,  # the last", "len(shape),", "uses shape itself"),
        ("step,  # the last", "shape[1].sum(),", "uses shape itself"),
        ("shape[-1].item() // step", "step and shape[-1].item()", "in any case"),
        ("shape[-1].item() // step", "step if step else shape[-1].item()", "in any case"),
        ("shape[-1].item() // step", "[shape[-1].item() for _ in x]", "in any case"),
        ("shape[-1].item() // step", "0 < step < shape[-1].item()", "in any case"),
    ],
)
def test_what_is_not_only_copied_stays(old: str, new: str, reason: str) -> None:
    text = edited(BEFORE, old, new)
    decline(text, "PG201", "")
    plain, (span,) = marked(text)
    source = Source(plain)
    about = finding(plain, span, "PG201")
    proposal = Proposal(source, FileNames(source), about, source.path(*span))
    with pytest.raises(Declined, match=reason):
        elements_list.propose(proposal)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shape[-1].item() // step", "step"),
        ("shape[-1].item() // step", "x[-1].item()"),
        ("shape[-1].item() // step", "shape[step].item()"),
        ("shape[-1].item() // step", "shape[0:1].item()"),
        ("rows, columns = (", "columns += ("),
    ],
)
def test_other_statements_stay(old: str, new: str) -> None:
    decline(edited(BEFORE, old, new), "PG201", "")
