"""Lines to logical statements, and packed line numbers."""

from __future__ import annotations

import textwrap

import pytest

from benchmarks.lint_truth.statements import (
    Sources,
    pack_lines,
    statement_spans,
    unpack_lines,
)

SOURCE = textwrap.dedent(
    """\
    import torch


    @decorated
    def f(
        x,
        y,
    ):
        z = torch.where(
            x > 0,
            x,
            y,
        )
        if (
            z.sum() > 0
            and y.any()
        ):
            return z
        else:
            z = z + 1
        for i in range(3): z = z * i
        with torch.no_grad(), \\
                torch.enable_grad():
            z = z - 1
        try:
            z = z * 2
        except ValueError:
            pass
        match z:
            case 1:
                z = 3
        return z
    """
)


@pytest.mark.parametrize(
    ("line", "span"),
    [
        (1, (1, 1)),
        (6, (5, 8)),
        (9, (9, 13)),
        (12, (9, 13)),
        (14, (14, 17)),
        (16, (14, 17)),
        (18, (18, 18)),
        (20, (20, 20)),
        (21, (21, 21)),
        (23, (22, 23)),
        (24, (24, 24)),
        (26, (26, 26)),
        (31, (31, 31)),
    ],
)
def test_span_of_line(line: int, span: tuple[int, int]) -> None:
    assert statement_spans(SOURCE)[line] == span


def test_lines_outside_statements_are_absent() -> None:
    spans = statement_spans(SOURCE)
    assert 2 not in spans
    assert 19 not in spans  # else:


def test_sources_answer_for_unknown_files_with_the_line_itself() -> None:
    sources = Sources(lambda file: SOURCE if file == "a.py" else None)
    assert sources.statement("a.py", 11) == 9
    assert sources.text("a.py", 11) == "z = torch.where( x > 0, x, y, )"
    assert sources.span("b.py", 7) == (7, 7)
    assert sources.text("b.py", 7) == ""


@pytest.mark.parametrize(
    ("lines", "text"),
    [([], ""), ([4], "4"), ([1, 2, 3, 7], "1-3,7"), ([9, 1, 8, 3, 2, 2], "1-3,8-9")],
)
def test_packing_round_trip(lines: list[int], text: str) -> None:
    assert pack_lines(lines) == text
    assert unpack_lines(text) == set(lines)
