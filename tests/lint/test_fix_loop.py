"""What the fix loop does with rewrites that do not help, do not parse, or do not fit together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Edit, Finding, Fix, Location
from pygraph_lint.fixes.engine import file_fixes
from tests.lint.support import Lint

HEAD = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
"""


def _line(word: str, number: int) -> str:
    return f"        {word}{number} = x.amax().item()\n"


def _source(*words: str) -> str:
    lines = "".join(_line(word, number) for number, word in enumerate(words))
    return f"{HEAD}{lines}        return x\n"


def _offers(text: str, findings: Sequence[Finding], **kwargs: object) -> tuple[Fix | None, ...]:
    """Rewrites whole lines, as the name that is assigned says."""
    lines = split_lines(text)
    fixes: list[Fix | None] = []
    for finding in findings:
        row = finding.location.row
        line = lines[row - 1]
        new = {
            "good": line.replace(".item()", ""),
            "idle": line + "  # looked at",
            "torn": line.replace("()", "(", 1),
            "none": line,
            "less": line.replace("less", "none"),
            "more": "\n".join([line, line]).replace("more", "none"),
            "adds": "\n".join([line, line]).replace("adds", "none"),
        }[line.strip()[:4]]
        edit = Edit(new, Location(row, 1), Location(row, len(line) + 1))
        safety = "declined" if line.strip().startswith("none") else "safe"
        stays = line.strip().startswith(("less", "more", "adds"))
        message = f"rewrite the line of {line.strip()[:5]}"
        adds = (finding.code,) if line.strip().startswith("adds") else ()
        fixes.append(Fix(safety, message, edits=(edit,), remains=stays, adds=adds))
    return tuple(fixes)


@pytest.fixture(autouse=True)
def own_rewrites(monkeypatch: pytest.MonkeyPatch) -> None:
    """These rewrites instead of the real ones."""
    monkeypatch.setattr(file_fixes, "fix_text", _offers)


@pytest.mark.parametrize(
    "words",
    [
        ("good",),
        ("idle",),
        ("torn",),
        ("good", "idle", "good"),
        ("torn", "good", "good", "good"),
        ("good", "torn", "idle", "none", "good", "idle", "good", "torn", "good"),
        ("idle",) * 7 + ("good",),
    ],
)
def test_only_what_helps_is_kept(lint: Lint, words: tuple[str, ...]) -> None:
    lint.write({"model.py": _source(*words)})
    result = lint("--fix", "model.py")
    expected = _source(*words)
    for number, word in enumerate(words):
        if word == "good":
            expected = expected.replace(
                _line(word, number), _line(word, number).replace(".item()", "")
            )
    assert lint.read("model.py") == expected
    assert len(result.lines) == sum(word != "good" for word in words)


@pytest.mark.parametrize("words", [("less",), ("less", "good"), ("more", "less", "idle")])
def test_a_finding_may_stay_where_the_fix_says_so(lint: Lint, words: tuple[str, ...]) -> None:
    """But there must not be more of them."""
    lint.write({"model.py": _source(*words)})
    lint("--fix", "model.py")
    expected = _source(*words).replace("less", "none")
    expected = expected.replace("good1 = x.amax().item()", "good1 = x.amax()")
    assert lint.read("model.py") == expected


def test_findings_may_be_added_where_the_fix_says_so(lint: Lint) -> None:
    lint.write({"model.py": _source("adds", "good")})
    lint("--fix", "model.py")
    text = lint.read("model.py")
    assert text.count("none0") == 2
    assert "good1 = x.amax()\n" in text


def test_one_file_does_not_hold_up_another(lint: Lint) -> None:
    lint.write({"a.py": _source("torn", "good"), "b.py": _source("good", "good")})
    assert len(lint("--fix", ".").lines) == 1
    assert lint.read("b.py").count(".item()") == 0
    assert lint.read("a.py").count(".item()") == 1


def test_diff_shows_only_what_helps(lint: Lint) -> None:
    lint.write({"model.py": _source("idle", "good")})
    shown = lint("--diff", "model.py").out
    assert "+        good1 = x.amax()\n" in shown
    assert "looked at" not in shown


def test_what_a_fix_means_in_another_file_is_seen(lint: Lint) -> None:
    """A function that now returns a tensor makes a branch elsewhere one on a tensor."""
    function = "def largest(x: torch.Tensor):\n    good0 = x.amax().item()\n    return good0\n"
    branch = "        none0 = x if largest(x) > 0 else -x\n        return none0\n"
    lint.write(
        {
            "number.py": f"import torch\n\n\n{function}",
            "user.py": f"from number import largest\n{HEAD}{branch}",
        }
    )
    assert not any("user.py" in line for line in lint(".").lines)
    result = lint("--fix", ".")
    assert ".item()" not in lint.read("number.py")
    assert any("user.py" in line and "PG301" in line for line in result.lines), result.out
