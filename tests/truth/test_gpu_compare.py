"""The pretended device against recorded GPU runs."""

from __future__ import annotations

from typing import Any

from benchmarks.lint_truth.gpu_compare import compare, gpu_sites


def event(kind: str, line: int) -> dict[str, Any]:
    return {"kind": kind, "what": "x", "file": "a.py", "line": line}


def test_lines_named_missed_and_only_pretended() -> None:
    ghost = [
        {"model": "A", "mode": "eval", "stage": "ghost", "result": [event("h2d", 1)]},
        {
            "model": "A",
            "mode": "eval",
            "stage": "ghost_compiling",
            "result": {"events": [event("sync", 1), event("host_tensor", 4), event("sync", 9)]},
        },
        {"model": "B", "mode": "eval", "stage": "ghost", "error": "no"},
    ]
    gpu = [
        {
            "model": "A",
            "mode": "eval",
            "stage": "sync",
            "result": [event("sync", 1), event("sync", 2)],
        },
        {"model": "A", "mode": "eval", "stage": "sync_compiling", "result": [event("sync", 1)]},
        {"model": "A", "mode": "eval", "stage": "copies", "result": [event("host_tensor", 4)]},
        {"model": "B", "mode": "eval", "stage": "sync", "result": [event("sync", 7)]},
    ]
    answer = compare(ghost, gpu)
    assert (answer["sync"]["line_runs"], answer["sync"]["line_runs_named"]) == (2, 1)
    assert answer["sync"]["missed"] == ["a.py:2"]
    assert answer["sync"]["runs"] == 1  # B has no pretended run to compare with
    assert answer["sync_compiling"]["lines_named"] == 1
    assert answer["sync_compiling"]["only_pretended"] == ["a.py:9"]
    assert answer["copies"]["lines_named"] == 1
    assert gpu_sites(gpu)[0] == {
        "file": "a.py",
        "line": 1,
        "kinds": {"sync": ["A:eval"], "sync_eager": ["A:eval"]},
    }
