"""What `make adverse-gpu` does without a GPU: the list of programs, the comparison, the runner."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import slices
from tests.gpu.adverse import __main__ as runner
from tests.gpu.adverse import harness
from tests.gpu.adverse.harness import CASES, Context, Run, difference, frozen, judged

FOLDER = Path(harness.__file__).parent
OTHERS = {"__init__", "__main__", "harness", "parts", "triton_kernels"}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "DEVICE", "cpu")
    monkeypatch.setattr(harness, "CUDA", False)


# -- the list


def test_each_file_is_a_subject_and_can_be_imported() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - OTHERS
    assert files == set(runner.SUBJECTS)
    for name in files:
        importlib.import_module(f"tests.gpu.adverse.{name}")
    assert {program.subject for program in CASES.values()} == files


def test_each_program_says_what_it_does() -> None:
    for name, program in CASES.items():
        text = " ".join((program.run.__doc__ or "").split())
        assert text.endswith("."), name
    texts = [program.run.__doc__ for program in CASES.values()]
    assert len(texts) == len(set(texts))


def test_marks_that_nobody_knows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "CASES", dict(CASES))

    def dtypes(c: Context) -> object:
        return None

    with pytest.raises(ValueError, match="two programs dtypes"):
        harness.case()(dtypes)
    dtypes.__name__ = "another_one"
    with pytest.raises(ValueError, match="expects 'limits'"):
        harness.case(expected="limits")(dtypes)
    with pytest.raises(TypeError):
        harness.case(expects="limit")(dtypes)


# -- the comparison

NAN = float("nan")
ROWS = torch.arange(12.0).view(3, 4)
OTHER_NAN = torch.tensor([0x7FC00001], dtype=torch.int32).view(torch.float32)
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "value": (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])),
    "last bit": (torch.tensor([1.0]), torch.tensor([1.0 + 2**-23])),
    "dtype": (torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int32)),
    "shape": (ROWS, ROWS.view(4, 3)),
    "strides": (ROWS, ROWS.t().contiguous().t()),
    "sign of zero": (torch.tensor([0.0]), torch.tensor([-0.0])),
    "NaN": (torch.tensor([NAN]), torch.tensor([1.0])),
    "number": (torch.tensor([1.0]), torch.tensor([NAN])),
    "another NaN": (torch.tensor([NAN]), OTHER_NAN),
    "complex": (torch.tensor([1 + 2j]), torch.tensor([1 - 2j])),
    "bool": (torch.tensor([True]), torch.tensor([False])),
    "sparse": (torch.eye(2).to_sparse(), (2 * torch.eye(2)).to_sparse()),
    "length": ([1, 2], [1]),
    "keys": ({"a": 1}, {"b": 1}),
    "deep": ({"a": [0, (1, ROWS)]}, {"a": [0, (1, ROWS + 1)]}),
    "type of a number": (1, True),
    "zero of Python": (0.0, -0.0),
    "nothing": (ROWS, None),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_a_difference_is_found(kind: str) -> None:
    one, other = DIFFERENT[kind]
    assert difference(frozen(one), frozen(one)) is None
    assert difference(frozen(other), frozen(other)) is None
    assert difference(frozen(one), frozen(other))
    assert difference(frozen(other), frozen(one))


def test_the_difference_is_said() -> None:
    one, other = frozen([ROWS, {"a": ROWS}]), frozen([ROWS, {"a": ROWS + torch.eye(3, 4)}])
    told = difference(one, other)
    assert told == "[1].a: 3 of 12 torch.float32 differ, by 0.0909 of the largest"
    assert difference(frozen(torch.zeros(2)), frozen(-torch.zeros(2))) == (
        ": 0 of 2 torch.float32 differ, bits alone"
    )


def test_rounding_is_allowed_and_no_more() -> None:
    def rounded(a: torch.Tensor, b: torch.Tensor) -> str | None:
        return difference(frozen(a), frozen(b), rounding=True)

    assert rounded(ROWS, ROWS * (1 + 1e-6)) is None
    assert rounded(ROWS, ROWS * 1.01)
    assert rounded(ROWS, ROWS.half())
    assert rounded(ROWS.half(), ROWS.half() * 1.01) is None
    assert rounded(torch.tensor([1, 20_000]), torch.tensor([1, 20_001]))
    assert rounded(torch.tensor([1.0, NAN]), torch.tensor([1.0, 1.0]))
    assert rounded(torch.tensor([1.0, 1.0]), torch.tensor([1.0, float("inf")]))


def test_tensors_of_a_subclass_are_compared() -> None:
    def jagged(*rows: torch.Tensor) -> Any:
        return frozen(torch.nested.nested_tensor(list(rows), layout=torch.jagged))

    one = jagged(ROWS, ROWS[:2])
    assert difference(one, jagged(ROWS, ROWS[:2])) is None
    assert difference(one, jagged(ROWS, ROWS[1:]))
    assert difference(one, jagged(ROWS[:2], ROWS))


# -- runs and verdicts


def test_a_run_keeps_what_a_result_was_and_what_became_of_it() -> None:
    limit = torch._dynamo.config.recompile_limit

    def program(c: Context) -> object:
        torch._dynamo.config.recompile_limit = limit + 1
        result = c.tensor(4)
        c.keep(result)
        if c.mode == "always":
            result.zero_()
            torch.rand(700)
        return None

    found = {mode: harness.run(program, mode) for mode in ("always", "never")}
    found["default"] = found["never"]
    assert torch._dynamo.config.recompile_limit == limit
    always, never = found["always"].results, found["never"].results
    assert difference(always["then"], never["then"]) is None
    told = "always.at the end[0][0]: 4 of 4 torch.float32 differ, by 1 of the largest"
    assert judged(found, None) == ("different", told)
    assert judged(found, "limit") == ("limit", told)
    assert difference(always["the CPU's generator"], never["the CPU's generator"])


def test_a_run_notes_what_was_raised() -> None:
    def program(c: Context) -> object:
        assert c.attempt(torch.linalg.inv, ROWS) == "raised RuntimeError"
        raise ValueError("as asked")

    found = harness.run(program, "default")
    assert (found.failures, found.raised) == (["RuntimeError"], "ValueError: as asked")


def judgement(results: dict[str, Any], raised: str = "", failed: str = "") -> tuple[str, str]:
    """Of runs with these results; `raised` and `failed` name modes, by their first letters."""
    runs = {}
    for mode in ("default", "always", "never"):
        runs[mode] = Run(mode, {"returned": frozen(results.get(mode, ROWS))})
        runs[mode].raised = "ValueError: as asked" if mode[0] in raised else None
        runs[mode].failures = ["ValueError"] if mode[0] in failed else []
    return judged(runs, None)


def test_numbers_are_those_of_compiled_code_and_about_those_of_default_mode() -> None:
    assert judgement({}) == judgement({"default": ROWS * (1 + 1e-6)}) == ("equal", "")
    assert judgement({"always": ROWS * (1 + 1e-6)})[0] == "different"
    told = judgement({"default": ROWS * 2})
    assert told[0] == "different" and told[1].startswith("always beside default mode.returned")


def test_who_raises() -> None:
    assert judgement({}, raised="d") == judgement({"default": None}, raised="d") == ("equal", "")
    assert judgement({}, raised="n")[0] == judgement({}, raised="a")[0] == "different"
    assert judgement({}, raised="dn")[0] == judgement({}, raised="an")[0] == "different"
    assert judgement({}, raised="dan")[0] == "error"


def test_a_failed_attempt_of_default_mode_alone_is_no_difference() -> None:
    text = "raised ValueError"
    assert judgement({"default": text}, failed="d") == ("equal", "")
    every = {"default": text, "always": text, "never": text}
    assert judgement(every, failed="dan") == ("equal", "")
    assert judgement({"never": text}, failed="n")[0] == "different"
    assert judgement({"always": text, "never": text}, failed="an")[0] == "different"


# -- the runner


def rows_of(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str) -> dict[str, Any]:
    asked: list[str] = []

    def measured(name: str, helper: Path | None, limit: float) -> dict[str, Any]:
        asked.append(name)
        verdict = "error" if name == "op_returns_parts" else "equal"
        return {"verdict": verdict, "difference": "", "seconds": 1.0}

    monkeypatch.setattr(runner, "measured", measured)
    monkeypatch.setattr(sys, "argv", ["adverse", "--out", str(out), *arguments])
    runner.main()
    return {"asked": asked, **json.loads(out.read_text())}


def test_a_long_run_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(slices.COMMIT, "one")
    slices.commit.cache_clear()
    slices.stamp.cache_clear()
    out = tmp_path / "adverse.json"
    every = sorted(name for name in CASES if "op_" in name)
    first = rows_of(monkeypatch, out, "--only", "op_", "--shard", "1/2")
    second = rows_of(monkeypatch, out, "--only", "op_", "--resume")
    assert "op_returns_parts" in first["asked"] + second["asked"]
    assert sorted(set(first["asked"] + second["asked"])) == every
    assert set(first["asked"]) & set(second["asked"]) <= {"op_returns_parts"}
    assert [row["name"] for row in second["rows"]] == [n for n in CASES if n in every]
    assert second["counts"] == {"equal": len(every) - 1, "error": 1}
    again = rows_of(monkeypatch, out, "--only", "op_", "--resume")
    assert again["asked"] == ["op_returns_parts"]
    slices.commit.cache_clear()
    slices.stamp.cache_clear()


def test_what_cannot_run_here_is_skipped() -> None:
    def program(c: Context) -> object:
        raise harness.Skip("no such library")

    told = [runner.row_of(harness.Case(program, cuda=cuda))["difference"] for cuda in (True, False)]
    assert told == ["it needs a GPU", "no such library"]


def test_a_process_that_failed_is_an_error_without_folders() -> None:
    row = runner.failed("exit status 3", b"default\nFile /some/where/else.py: lost\n")
    assert row["verdict"] == "error"
    assert row["last_lines"] == ["default", "File else.py: lost"]


def test_half_of_the_programs_have_the_memory_helper() -> None:
    half = sum(runner.has_helper(name, "half") for name in CASES)
    assert abs(half - len(CASES) / 2) <= 1
    assert not any(runner.has_helper(name, "none") for name in CASES)
    assert all(runner.has_helper(name, "all") for name in CASES)
