"""The accuracy page is made of the results' own numbers."""

from __future__ import annotations

from typing import Any

from benchmarks.lint_truth.report import _newer, accuracy_page, reason_of


def numbers(found: int, sites: int) -> dict[str, Any]:
    return {"found": found, "sites": sites, "recall": found / sites}


def part(found: int) -> dict[str, Any]:
    kinds = ("breaks", "syncs", "host_tensors", "syncs_and_host_tensors")
    counts = {"right": 9, "wrong": 1, "untraced": 2, "unjudged": 3, "precision": 0.9}
    lists = {
        "missed_breaks": [{"text": "t", "what": ["break: Unknown"], "places": ["a.py:1"]}],
        "missed_syncs": [{"text": "t", "what": ["h2d: to"], "places": ["a.py:2", "a.py:3"]}],
        "missed_host_tensors": [],
        "false_alarms": [{"code": "PG301", "places": ["a.py:4"]}],
    }
    return {**{kind: numbers(found, 10) for kind in kinds}, "precision": counts, **lists}


def test_page() -> None:
    score = {
        "environment": {"torch": "2.13.0"},
        "all": part(8),
        "halves": {"tune": part(7), "held-out": part(9)},
        "corpus": {"sites": 206, "found": 190, "confirmed": 147, "confirmed_found": 143},
    }
    truth = {
        "models": {
            "A": {"package": "timm", "family": "a", "modes": {"eval": {"graphs": 1}}},
            "B": {"package": "timm", "family": "b", "modes": {"eval": {"errors": {}}}},
        }
    }
    named = {"lines": 30, "runs": 4, "lines_named": 29, "only_pretended": []}
    gpu = {
        "environment": {"device": "GPU", "torch": "2.11.0"},
        "comparison": {"sync": named, "sync_compiling": named},
    }
    page = accuracy_page(score, truth, gpu)
    assert "| graph breaks found | 8 of 10, 80.0 % | 7 of 10, 70.0 % | 9 of 10, 90.0 % |" in page
    assert "1 models (1 of timm; 1 families)" in page
    assert "names 29 of them" in page
    assert "| synchronisation | 2 | where the moved tensor was made" in page
    assert "| PG301 | 1 | `a.py:4` |" in page
    assert "206 break locations" in page


def test_newer_versions_have_a_section_of_their_own() -> None:
    claims = {"claims": 40, "without_a_break": 2, "share": 0.05}
    kinds = {"matched": 38, "named": 38, "right": 19, "share": 0.5}
    score = {
        "environment": {"torch": "2.13.0"},
        "all": {**part(8), "break_claims": claims, "gb_types": kinds},
        "halves": {"tune": part(7), "held-out": part(9)},
        "parts": {"samplers": part(3)},
        "linter": {"commit": "abc"},
        "coverage": {
            "measured": 5,
            "families": 4,
            "by_kind": {"sampler": 5},
            "reasons": {"unknown inputs": 2},
        },
    }
    page = "\n".join(_newer(score))
    assert "| samplers | 3 of 10, 30.0 % |" in page
    assert "5 entries (5 of sampler; 4 families)" in page
    assert "2: unknown inputs" in page
    assert "at 40 statements" in page
    assert "At 19 of the 38 matched sites (50.0 %)" in page
    assert "a.py" not in page


def test_reasons_are_told_by_what_happened() -> None:
    assert "index" in reason_of(["h2d: index with host indices"])
    assert reason_of(["something new"]) == "not classified"
