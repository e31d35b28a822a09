"""Workers' records to the truth table."""

from __future__ import annotations

from typing import Any

from benchmarks.lint_truth.truth import half_of, is_model_code, merge

MODEL = "transformers/models/a/modeling_a.py"
UTILITY = "transformers/utils/helper.py"
CODE = """\
def forward(x):
    y = check(
        x,
    )
    if y.sum() > 0:
        y = 1
"""
SOURCE = {MODEL: CODE, UTILITY: "def check(x):\n    assert x.all()\n"}


def record(stage: str, result: Any, mode: str = "eval") -> dict[str, Any]:
    return {"model": "A", "mode": mode, "stage": stage, "result": result}


def event(kind: str, file: str, line: int, *callers: tuple[str, int]) -> dict[str, Any]:
    return {"kind": kind, "what": "item", "file": file, "line": line, "callers": list(callers)}


def a_break(kind: str, file: str, line: int, *callers: tuple[str, int]) -> dict[str, Any]:
    return {
        "file": file,
        "line": line,
        "inner": f"{file}:{line}",
        "kind": kind,
        "skips_frame": False,
        "callers": list(callers),
    }


def traced(*breaks: dict[str, Any]) -> dict[str, Any]:
    return {"breaks": list(breaks), "skipped_frames": [], "traced": {MODEL: [1, 2]}, "graphs": 1}


def table(*records: dict[str, Any]) -> dict[str, Any]:
    return merge(records, {"A": ("transformers", "a")}, SOURCE.get)


def kinds_at(result: dict[str, Any], file: str, line: int) -> set[str]:
    return {
        k for s in result["sites"] if (s["file"], s["line"]) == (file, line) for k in s["kinds"]
    }


def test_events_on_one_statement_become_one_site() -> None:
    result = table(
        record("ghost_compiling", {"events": [event("sync", MODEL, 3)], "lines": {MODEL: [1, 2]}}),
        record("trace", traced(a_break("Data-dependent branching", MODEL, 2))),
    )
    (site,) = result["sites"]
    assert (site["line"], site["end"], site["lines"]) == (2, 4, [2, 3])
    assert site["text"] == "y = check( x, )"
    assert site["kinds"]["sync"] == {"what": ["item"], "in": ["A:eval"]}
    assert site["kinds"]["break"]["what"] == ["Data-dependent branching"]
    assert result["ran"] == {MODEL: "1-2"}


def test_what_happens_in_a_utility_is_noted_at_its_caller_in_model_code() -> None:
    result = table(record("trace", traced(a_break("x", UTILITY, 2, (MODEL, 3)))))
    assert kinds_at(result, UTILITY, 2) == {"break"}
    assert kinds_at(result, MODEL, 2) == {"break_below"}


def test_an_event_of_the_uncompiled_branch_only_is_kept_apart() -> None:
    compiling = record("ghost_compiling", {"events": [event("sync", MODEL, 2)], "lines": {}})
    plain = record("ghost", [event("sync", MODEL, 2), event("sync", MODEL, 5)])
    result = table(compiling, plain)
    assert kinds_at(result, MODEL, 2) == {"sync"}
    assert kinds_at(result, MODEL, 5) == {"eager_sync"}


def test_without_a_compiling_run_the_plain_one_counts() -> None:
    assert kinds_at(table(record("ghost", [event("h2d", MODEL, 5)])), MODEL, 5) == {"h2d"}


def test_dynamos_own_errors_are_no_breaks() -> None:
    result = table(
        record(
            "trace",
            traced(
                a_break("AssertionError", MODEL, 2),
                a_break("graph break in loop: Missing tp_iternext", MODEL, 5),
            ),
        )
    )
    assert kinds_at(result, MODEL, 2) == kinds_at(result, MODEL, 5) == {"dynamo_error"}
    assert kinds_at(table(record("trace", traced(a_break("UserError", MODEL, 2)))), MODEL, 2) == {
        "break"
    }


def test_a_later_record_of_the_same_stage_replaces_the_earlier() -> None:
    result = table(
        record("ghost", [event("sync", MODEL, 2)]), record("ghost", [event("sync", MODEL, 5)])
    )
    assert [site["line"] for site in result["sites"]] == [5]


def test_errors_are_reported_by_stage() -> None:
    failed = {"model": "A", "mode": "train", "stage": "lines", "error": "ValueError: no"}
    hung = {"label": "A:eval", "error": "ran out of time"}
    modes = table(failed, hung)["models"]["A"]["modes"]
    assert modes["train"]["errors"] == {"lines": "ValueError: no"}
    assert modes["eval"]["errors"] == {"ended": "ran out of time"}


def test_halves_are_fixed_and_both_used() -> None:
    halves = {family: half_of(family) for family in ("Bart", "T5", "Whisper", "Mixtral", "Vilt")}
    assert set(halves.values()) == {"tune", "held-out"}
    assert halves == {family: half_of(family) for family in halves}


def test_model_code() -> None:
    assert is_model_code("transformers/models/bart/modeling_bart.py")
    assert is_model_code("transformers/cache_utils.py")
    assert is_model_code("diffusers/models/unets/unet_2d.py")
    assert not is_model_code("transformers/utils/import_utils.py")
    assert not is_model_code("transformers/configuration_utils.py")
