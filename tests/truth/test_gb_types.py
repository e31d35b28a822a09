"""Kinds of graph breaks: their names in the records, their ids, their statements."""

from __future__ import annotations

import pytest

from benchmarks.lint_truth import gb_types

KNOWN = {"Data-dependent branching": "GB0170", "Dynamic shape operator": "GB0036"}


def _site(text: str, *what: str) -> dict[str, object]:
    return {"text": text, "kinds": {"break": {"what": list(what), "in": []}}}


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("Data-dependent branching", "Data-dependent branching"),
        ("graph break in loop: Dynamic shape operator", "Dynamic shape operator"),
        ("Dynamic shape operator (in torch/functional.py:10)", "Dynamic shape operator"),
        (
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        ),
    ],
)
def test_type_without_place_and_consequence(what: str, kind: str) -> None:
    assert gb_types.gb_type_of(what) == kind


def test_a_loop_is_a_kind_only_where_no_other_is_known() -> None:
    alone = _site("for x in y:", "graph break in loop")
    both = _site("for x in y:", "graph break in loop", "Dynamic shape operator")
    assert gb_types.gb_types_of(alone) == ["graph break in loop"]
    assert gb_types.gb_types_of(both) == ["Dynamic shape operator"]
    assert gb_types.named(both, KNOWN) == [{"gb_type": "Dynamic shape operator", "gb_id": "GB0036"}]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("if (x > 0).any():", "if"),
        ("elif x:", "if"),
        ("for row in rows.tolist():", "for"),
        ("y = x.item()", "assignment"),
        ("sizes: list[int] = x.tolist()", "assignment"),
        ("total += x.item()", "assignment"),
        ("a, b = split(x, [cut off", "assignment"),
        ("logger.warning('no')", "call"),
        ("return x[mask]", "return"),
        ("assert x.sum() == 1", "assert"),
        ("iffy = 1", "assignment"),
    ],
)
def test_statement_kind(text: str, kind: str) -> None:
    assert gb_types.statement_kind(text) == kind


def test_counts_by_statement_most_seen_first() -> None:
    sites = [
        _site("if x.any():", "Data-dependent branching"),
        _site("assert x.any()", "Data-dependent branching"),
        _site("y = x[m]", "Dynamic shape operator"),
        _site("y = x + 1"),
    ]
    sites[-1]["kinds"] = {"sync": {"what": ["item"], "in": []}}
    found = gb_types.by_event(sites, KNOWN, {"Dynamic shape operator": "text"})
    assert list(found) == ["Data-dependent branching", "Dynamic shape operator"]
    assert found["Data-dependent branching"] == {
        "gb_id": "GB0170",
        "sites": 2,
        "explanation": "",
        "statements": {"if": 1, "assert": 1},
    }
    assert found["Dynamic shape operator"]["explanation"] == "text"


def test_ids_are_those_of_the_installed_torch() -> None:
    pytest.importorskip("torch")
    known = gb_types.ids()
    assert known["Data-dependent branching"] == "GB0170"
    assert known["Unsupported Tensor.item() call with capture_scalar_outputs=False"] == "GB0124"
