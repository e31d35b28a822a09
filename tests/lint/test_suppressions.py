"""Comments that silence findings, and those that silence nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pygraph_lint.files.suppressions import add_noqa, parse
from tests.lint.support import SYNCS, Lint

BODY = "        peak = x.abs().max().item()"


def _with(comment: str, head: str = "") -> str:
    return head + SYNCS.replace(BODY, f"{BODY}{comment}")


def _codes(lint: Lint, text: str, *arguments: str) -> list[str]:
    lint.write({"model.py": text})
    return [line.split()[1] for line in lint(*arguments, "model.py").lines]


@pytest.mark.parametrize(
    "comment",
    [
        "  # noqa",
        "  # NOQA",
        "  #noqa:PG201",
        "  # noqa: PG201",
        "  # noqa: E501, PG201",
        "  # noqa: E501,PG2",
        "  # noqa: PG201 - read by the scheduler",
        "  # why  # noqa: PG201",
        "  # noqa: E501  # noqa: PG201",
        "  # type: ignore  # noqa: PG201",
        "  # pygraph: ignore",
        "  # pygraph: ignore[PG201]",
        "  # pygraph:ignore[PG102, PG201]",
        "  # pygraph: ignore[PG2]",
        "  # noqa: E501  # pygraph: ignore[PG201]",
    ],
)
def test_line_comments_that_silence(lint: Lint, comment: str) -> None:
    assert "PG201" not in _codes(lint, _with(comment))


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "  # no qa",
        "  # noqa: E501",
        "  # noqa: PG202",
        "  # pygraph: ignore[PG3]",
        "  # pygraph: something",
        "  # ruff: noqa",
    ],
)
def test_line_comments_that_do_not(lint: Lint, comment: str) -> None:
    assert "PG201" in _codes(lint, _with(comment))


@pytest.mark.parametrize(
    ("head", "silent"),
    [
        ("# pygraph: ignore-file\n", True),
        ("# pygraph: ignore-file[PG201]\n", True),
        ("# pygraph: noqa\n", True),
        ("# pygraph: noqa: PG2\n", True),
        ("# ruff: noqa: PG201\n", True),
        ("# flake8: noqa: PG201\n", True),
        ("# ruff: noqa: E501\n", False),
        # These say that another tool shall be quiet.
        ("# ruff: noqa\n", False),
        ("# flake8: noqa\n", False),
        ("# noqa\n", False),
        ("# pygraph: ignore-file[PG1]\n", False),
        ('"""# pygraph: ignore-file"""\n', False),
    ],
)
def test_file_comments(lint: Lint, head: str, silent: bool) -> None:
    assert ("PG201" not in _codes(lint, head + SYNCS)) is silent


def test_a_string_is_not_a_comment(lint: Lint) -> None:
    text = SYNCS.replace(BODY, "        peak = x.max().item(); s = '# noqa: PG201'")
    assert _codes(lint, text) == ["PG201"]


def test_statement_over_several_lines(lint: Lint) -> None:
    text = SYNCS.replace(
        BODY, "        peak = max(\n            1,\n            x.amax().item(),{}\n        ){}"
    )
    assert _codes(lint, text.format("", "  # noqa: PG201")) == []
    assert _codes(lint, text.format("  # noqa: PG201", "")) == []
    elsewhere = text.replace("            1,", "            1,  # noqa: PG201").format("", "")
    assert sorted(_codes(lint, elsewhere)) == ["PG003", "PG201"]


def test_one_comment_does_not_silence_another_line(lint: Lint) -> None:
    twice = _with("  # noqa: PG201").replace("return x", "return x * x.min().item()")
    assert _codes(lint, twice) == ["PG201"]


# --- unused ones ---


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("  # noqa: PG201", "PG201 in this comment silences nothing"),
        ("  # noqa: E501, PG201", "PG201 in this comment silences nothing"),
        ("  # pygraph: ignore", "this comment silences nothing"),
        ("  # pygraph: ignore[PG201, PG102]", "PG201, PG102 in this comment silence nothing"),
        ("  # pygraph: ignore[PG999]", "PG999 in this comment silences nothing"),
    ],
)
def test_unused_comments_are_reported_and_removed(lint: Lint, comment: str, said: str) -> None:
    line = "        return x"
    clean = SYNCS.replace(f"{BODY}\n", "").replace("        return x / (peak + 1.0)", line)
    text = clean.replace(line, line + comment)
    lint.write({"model.py": text})
    result = lint("model.py")
    assert [one.partition(" ")[2] for one in result.lines] == [f"PG003 [*] {said}"]
    assert lint("--fix", "model.py").code == 0
    left = "  # noqa: E501" if "E501" in comment else ""
    assert lint.read("model.py") == clean.replace(line, line + left)


@pytest.mark.parametrize("comment", ["  # noqa", "  # noqa: E501", "  # noqa: F401, E501"])
def test_comments_for_other_tools_are_left_alone(lint: Lint, comment: str) -> None:
    assert _codes(lint, _with(comment).replace(".item()", "")) == []


def test_half_used_list(lint: Lint) -> None:
    lint.write({"model.py": _with("  # noqa: PG102, PG201, E501")})
    assert [line.split()[1] for line in lint("model.py").lines] == ["PG003"]
    assert lint("--fix", "model.py").code == 0
    assert lint.read("model.py") == _with("  # noqa: PG201, E501")


def test_rest_of_a_comment_stays(lint: Lint) -> None:
    lint.write({"model.py": _with("  # noqa: PG102  # fmt: skip").replace(".item()", "")})
    assert lint("--fix", "model.py").code == 0
    assert lint.read("model.py") == _with("  # fmt: skip").replace(".item()", "")


def test_comment_on_a_line_of_its_own_is_explained(lint: Lint) -> None:
    text = SYNCS.replace(BODY, f"        # pygraph: ignore[PG201]\n{BODY}")
    lint.write({"model.py": text})
    lines = lint("model.py").lines
    assert [line.split()[1] for line in lines] == ["PG003", "PG201"]
    assert "put it at the end of the line it is for" in lines[0]


def test_unused_is_not_said_of_rules_that_were_not_looked_for(lint: Lint) -> None:
    text = _with("  # noqa: PG201")
    for arguments in (
        ("--select", "PG1,PG003"),
        ("--ignore", "PG201"),
        ("--target", "fullgraph"),
        ("--regions", "compiled"),
    ):
        assert _codes(lint, text, *arguments) == [], arguments


# --- adding ---


def test_adding_where_a_comment_can_stand(lint: Lint) -> None:
    text = SYNCS.replace(
        BODY,
        "        peak = (x.amax().item() + \\\n"
        '            x.amin().item() + len("""\n  """)\n        )',
    )
    lint.write({"model.py": text})
    assert len(lint("model.py").lines) == 2
    assert lint("--add-noqa", "model.py").code == 0
    assert lint("model.py").lines == []
    compile(lint.read("model.py"), "model.py", "exec")


def test_adding_to_a_list_that_is_there(lint: Lint) -> None:
    lint.write({"model.py": _with("  # noqa: E501  # keep")})
    lint("--add-noqa", "model.py")
    assert lint.read("model.py") == _with("  # noqa: E501, PG201  # keep")
    assert lint("model.py").lines == []


def test_adding_nothing_changes_nothing(lint: Lint) -> None:
    lint.write({"model.py": _with("  # noqa: PG201").replace("\n", "\r\n")})
    before = lint.read("model.py")
    assert lint("--add-noqa", "model.py").code == 0
    assert lint.read("model.py") == before


@given(st.text(alphabet="#noqapygrh:ieFE[]PG201,3 '\"\\\n\r\t(=") | st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    for directive in parse(text, every=True):
        assert directive.first <= directive.row <= directive.last
        assert directive.column < directive.end_column
    assert add_noqa(text, []) == (text, 0)


def test_a_rules_name_in_brackets(lint: Lint) -> None:
    line = "        peak = x.abs().max().item()"
    lint.write({"model.py": SYNCS.replace(line, f"{line}  # pygraph: ignore[item]")})
    assert lint("model.py").lines == []
    lint.write({"model.py": SYNCS.replace(line, f"{line}  # pygraph: ignore[print]")})
    assert {found.split()[1] for found in lint("model.py").lines} == {"PG003", "PG201"}
    lint.write({"model.py": "# pygraph: ignore-file[item]\n" + SYNCS})
    assert lint("model.py").lines == []


def test_what_comments_silence_is_reported_when_asked_for(lint: Lint) -> None:
    text = _with("  # noqa: PG201") + "\n\nclass Other:  # pygraph: ignore\n    pass\n"
    assert _codes(lint, text) == ["PG003"]
    assert _codes(lint, text, "--ignore-noqa") == ["PG201"]
