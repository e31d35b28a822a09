"""Comments and line breaks of what fixes replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pygraph_lint.fixes.engine import loop
from pygraph_lint.fixes.engine.line_breaks import joined_lines, wrap
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load

HEAD = "import torch\nfrom torch import Tensor\n\n\n"


def fixed(text: str, folder: Path) -> str:
    path = folder / "program.py"
    path.write_text(HEAD + text)
    runner = Runner(load(), {"regions": "all"})
    after = loop.fix_files(runner, runner.collect([str(folder)]), True).after
    return after.get(path, path.read_bytes()).decode().removeprefix(HEAD)


def test_a_comment_behind_a_statement_stays_there(tmp_path: Path) -> None:
    text = "def f(y: Tensor):\n    y[y > 0] = y[y > 0] + 2  # noqa: E1\n    return y\n"
    assert "torch.where(y > 0, y + 2, y))  # noqa: E1\n" in fixed(text, tmp_path)


def test_a_comment_that_does_not_fit_goes_above(tmp_path: Path) -> None:
    text = (
        "def sample(values: Tensor, offset: float):\n"
        "    values[values > offset] = values[values > offset] + 1  # as the paper has it\n"
        "    return values\n"
    )
    assert fixed(text, tmp_path) == text.replace(
        "    values[values > offset] = values[values > offset] + 1  # as the paper has it\n",
        "    # as the paper has it\n"
        "    values.copy_(torch.where(values > offset, values + 1, values))\n",
    )


def test_line_breaks_of_the_author_are_made_anew_where_they_do_not_fit(tmp_path: Path) -> None:
    text = (
        "def sample(u: Tensor, eta: float):\n"
        "    betas = torch.zeros_like(u)\n"
        "    betas[u > 0.5] = (1.0 / (2 * (1.0 - u[u > 0.5]))).pow(\n"
        "        1.0 / (eta + 1.0)\n    )  # the upper half\n    return betas\n"
    )
    assert fixed(text, tmp_path) == (
        "def sample(u: Tensor, eta: float):\n"
        "    betas = torch.zeros_like(u)\n"
        "    betas = torch.where(\n        u > 0.5,\n"
        "        (1.0 / torch.where(u > 0.5, 2 * (1.0 - u), 1)).pow(1.0 / (eta + 1.0)),\n"
        "        betas,\n    )  # the upper half\n    return betas\n"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "    assert (  # one\n        x.sum() == 1.0 and x.max() < 2  # two\n    ), f'not {x}'\n",
        "    x = x + x[  # one\n        x.argmax()  # two\n    ]\n",
    ],
)
def test_comments_inside_are_neither_lost_nor_written_twice(statement: str, tmp_path: Path) -> None:
    after = fixed(f"def f(x: Tensor):\n{statement}    return x\n", tmp_path)
    assert (after.count("# one"), after.count("# two")) == (1, 1)


def test_a_line_that_two_fixes_make_too_long_is_broken(tmp_path: Path) -> None:
    text = (
        "def f(x: Tensor, n: int):\n"
        "    first, second = torch.zeros(n).to(x.device), torch.ones(x.shape[0]).to(x.device)\n"
        "    return x * first + second\n"
    )
    assert fixed(text, tmp_path) == (
        "def f(x: Tensor, n: int):\n"
        "    first, second = torch.zeros(n, device=x.device), torch.ones(\n"
        "        x.shape[0], device=x.device\n    )\n    return x * first + second\n"
    )


@pytest.mark.parametrize(
    ("rest", "after"),
    [
        (", f'wrong: {values}' \\\n        'so'", "), f'wrong: {values}' \\\n        'so'"),
        (", \\\n        f'wrong: {values}'", "), \\\n        f'wrong: {values}'"),
        (", f'wrong: {values}'", "), f'wrong: {values}'"),
    ],
)
def test_what_is_asserted_is_put_in_parentheses(rest: str, after: str, tmp_path: Path) -> None:
    text = (
        "def f(values: Tensor):\n    assert (values > 0).all() and (values < 999).all()"
        f"{rest}\n    return values\n"
    )
    assert fixed(text, tmp_path) == (
        "def f(values: Tensor):\n    assert (\n"
        "        torch.compiler.is_compiling() or (values > 0).all() and (values < 999).all()\n    "
        f"{after}\n    return values\n"
    )


def test_strings_behind_each_other_get_a_line_each() -> None:
    line = "    check(~torch.any(x < 0), 'the input must not be below zero\\n' 'so rescale it')"
    assert wrap(line, 60) == [
        "    check(",
        "        ~torch.any(x < 0),",
        "        'the input must not be below zero\\n'",
        "        'so rescale it',",
        "    )",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["x = f(", "    1,  # one", ")"],
        ['x = f("""a', 'b""")'],
        ["if x:", "    y = f(", "        1)"],
        ["x = 1 + \\", "    2"],
        ["x = f((", "    1,", "))"],
    ],
)
def test_what_is_no_simple_statement_keeps_its_lines(lines: list[str]) -> None:
    assert joined_lines(lines) is None


def test_what_looks_like_a_comment_in_a_string_stays_there(tmp_path: Path) -> None:
    text = (
        "def f(y: Tensor, a_name_of_some_length: dict):\n"
        '    y[y > 0] = y[y > 0] + a_name_of_some_length["a key  # of many words, and more"]\n'
        "    return y\n"
    )
    assert '"a key  # of many words, and more"' in fixed(text, tmp_path)


def test_a_statement_is_put_on_one_line() -> None:
    lines = ["    x = f(", "        g(a, b),", "        [c,", "         d],", "    )  # why"]
    assert joined_lines(lines) == ["    x = f(g(a, b), [c, d])  # why"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "    z = torch.zeros([x.shape[0], x.shape[1], x.shape[2], 1]).to(\n        x.device\n"
            "    ) + torch.ones_like(x)\n",
            "    z = torch.zeros([x.shape[0], x.shape[1], x.shape[2], 1], device=x.device)"
            " + torch.ones_like(\n        x\n    )\n",
        ),
        (
            "    z = torch.zeros([x.shape[0], 1]).to(\n        x.device\n    )\n",
            "    z = torch.zeros([x.shape[0], 1], device=x.device)\n",
        ),
    ],
)
def test_a_move_that_is_broken_over_lines_becomes_no_long_line(
    before: str, after: str, tmp_path: Path
) -> None:
    head = "def f(x: Tensor):\n"
    assert fixed(f"{head}{before}    return x\n", tmp_path) == f"{head}{after}    return x\n"
