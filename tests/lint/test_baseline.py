"""A baseline hides what was there, wherever it moves, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.lint.support import SYNCS, Lint

FACTORY = """import torch
from torch import nn


class {name}(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor(2.0, device=x.device)
"""


@pytest.fixture
def with_baseline(lint: Lint) -> Lint:
    """A project with one known finding."""
    lint.write({"src/model.py": SYNCS})
    result = lint("src", "--write-baseline", "known.json")
    assert result.code == 0
    assert "1 finding written to known.json" in result.err
    return lint


def test_known_findings_are_hidden(with_baseline: Lint) -> None:
    assert with_baseline("src", "--baseline", "known.json").code == 0
    assert with_baseline("src").code == 1


def test_moved_lines_stay_known(with_baseline: Lint) -> None:
    moved = "# one\n# two\n" + SYNCS.replace(
        "        peak", "        y = 2 * x\n        # why\n        peak"
    )
    with_baseline.write({"src/model.py": moved})
    assert with_baseline("src", "--baseline", "known.json").lines == []


def test_changed_and_new_findings_are_reported(with_baseline: Lint) -> None:
    with_baseline.write({"src/model.py": SYNCS.replace(".max()", ".min()")})
    assert len(with_baseline("src", "--baseline", "known.json").lines) == 1
    twice = SYNCS.replace("        return", "        peak = x.abs().max().item()\n        return")
    with_baseline.write({"src/model.py": twice})
    assert len(with_baseline("src").lines) == 2
    assert len(with_baseline("src", "--baseline", "known.json").lines) == 1
    with_baseline.write({"src/model.py": SYNCS, "src/other.py": SYNCS})
    lines = with_baseline("src", "--baseline", "known.json").lines
    assert [line.split(":")[0] for line in lines] == ["src/other.py"]


def test_another_rule_on_the_same_line_is_reported(with_baseline: Lint) -> None:
    content = json.loads(with_baseline.read("known.json"))
    (marks,) = content["files"].values()
    ((mark, (code, count)),) = marks.items()
    assert (code, count) == ("PG201", 1)
    assert "row" not in json.dumps(content)
    content["files"] = {"src/model.py": {mark[::-1]: [code, count]}}
    with_baseline.write({"known.json": json.dumps(content)})
    assert len(with_baseline("src", "--baseline", "known.json").lines) == 1


def test_baseline_in_settings_lies_beside_them(with_baseline: Lint) -> None:
    with_baseline.write({"pygraph-lint.toml": 'baseline = "known.json"\n'})
    assert with_baseline("src").lines == []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(with_baseline.folder / "src")
        assert with_baseline("model.py").lines == []


def test_known_findings_are_not_fixed_unless_asked_for(lint: Lint) -> None:
    old = FACTORY.format(name="Old")
    lint.write({"src/old.py": old})
    lint("src", "--write-baseline", "known.json")
    lint.write({"pygraph-lint.toml": 'baseline = "known.json"\n'})
    lint.write({"src/new.py": FACTORY.format(name="New")})
    assert "src/new.py" in lint("src", "--diff").out
    assert "src/old.py" not in lint("src", "--diff").out
    result = lint("src", "--fix")
    assert (result.code, result.lines) == (0, [])
    assert lint.read("src/old.py") == old
    assert "torch.full" in lint.read("src/new.py")
    assert len(lint("src", "--no-baseline").lines) == 1
    lint("src", "--no-baseline", "--fix")
    assert "torch.full" in lint.read("src/old.py")


def test_writing_again_says_what_changes(with_baseline: Lint) -> None:
    changed = SYNCS.replace(".max()", ".min()").replace(
        "        return", "        low = x.sum().item()\n        return"
    )
    with_baseline.write({"src/model.py": changed, "src/other.py": SYNCS})
    said = with_baseline("src", "--write-baseline", "known.json").err
    assert "3 findings written to known.json (3 new, 1 gone)" in said
    said = with_baseline("src", "--write-baseline", "known.json").err
    assert "(0 new, 0 gone)" in said


def test_syntax_errors_are_never_known(lint: Lint) -> None:
    lint.write({"a.py": "import torch\nx = = 1\n"})
    lint("--write-baseline", "known.json", "a.py")
    assert len(lint("--baseline", "known.json", "a.py").lines) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("{", "is not a baseline"),
        ("[]", "is not a baseline"),
        ('{"version": 1}', "is not a baseline"),
        ('{"version": 1, "files": {"a.py": 3}}', "is not a baseline"),
        ('{"version": 2, "files": {}}', "is a baseline of version 2"),
    ],
)
def test_wrong_baselines(lint: Lint, content: str | None, said: str) -> None:
    lint.write({"a.py": SYNCS})
    if content is not None:
        lint.write({"known.json": content})
    result = lint("--baseline", "known.json", "a.py")
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert said in result.err
