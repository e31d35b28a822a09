"""Rules of a user's own: pages in a folder that the settings name."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from tests.lint.support import REPOSITORY, Lint

PAGE = """\
+++
code = "ACME001"
name = "acme-sync"
message = "`{subject}` waits for the device"
calls = ["acme.sync.wait_for_all"]
methods = ["to_host_now"]
status = "default"

[consequences]
compile = "break"
fullgraph = "error"
cudagraph = "not capturable"
sync = "yes"
+++

## What happens

Our helper synchronizes.

## Bad

```python
import torch
from acme.sync import wait_for_all


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wait_for_all()  # ACME001
        x.to_host_now()  # ACME001
        return x
```

## Good

```python
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x
```
"""
SETTINGS = 'rules = ["my_rules"]\n'
MODEL = PAGE.split("```python\n")[1].split("```")[0].replace("  # ACME001", "")


def _write(lint: Lint, page: str = PAGE) -> None:
    lint.write({"pygraph-lint.toml": SETTINGS, "my_rules/ACME001.md": page, "src/model.py": MODEL})


def test_own_calls_and_methods_are_reported(lint: Lint) -> None:
    _write(lint)
    found = [line for line in lint("src").out.splitlines() if "ACME001" in line]
    assert len(found) == 2
    assert found[0].startswith("src/model.py:7:9: ACME001 `acme.sync.wait_for_all` waits")
    assert lint("--isolated", "src").code == 0


def test_a_function_of_the_project_itself(lint: Lint) -> None:
    _write(lint)
    lint.write({"acme/__init__.py": "", "acme/sync.py": "def wait_for_all(): ...\n"})
    assert lint("src").out.count("ACME001") == 2


def test_own_rules_are_selected_silenced_and_explained(lint: Lint) -> None:
    _write(lint)
    assert "ACME001" not in lint("--ignore", "ACME", "src").out
    assert "ACME001" in lint("--select", "acme-sync", "src").out
    assert "Our helper synchronizes." in lint("rule", "ACME001").out
    assert "ACME001" in lint("rules").out
    silenced = MODEL.replace("wait_for_all()\n", "wait_for_all()  # noqa: ACME001\n")
    silenced = silenced.replace("now()\n", "now()  # pygraph: ignore[acme-sync]\n")
    lint.write({"src/model.py": silenced})
    assert lint("src").code == 0


def test_a_changed_page_is_seen_in_spite_of_the_cache(lint: Lint) -> None:
    _write(lint)
    assert lint("src").out.count("ACME001") == 2
    _write(lint, PAGE.replace('methods = ["to_host_now"]\n', ""))
    assert lint("src").out.count("ACME001") == 1


def test_every_format_knows_own_rules(lint: Lint) -> None:
    _write(lint)
    for form in ("json", "sarif", "github", "full", "junit"):
        assert "ACME001" in lint("--output-format", form, "src").out


def test_rule_test(lint: Lint) -> None:
    _write(lint)
    result = lint("rule-test")
    assert result.out == "ACME001-bad-1: ok\nACME001-good-1: ok\n"
    assert result.code == 0
    _write(lint, PAGE.replace("wait_for_all()  # ACME001", "wait_for_all()"))
    result = lint("rule-test", "my_rules")
    assert "ACME001-bad-1: line 7 is found and not marked" in result.out
    assert result.code == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('"ACME001"', '"PG999"'), "must be called PG999.md"),
        (('calls = ["acme.sync.wait_for_all"]', 'events = ["sync.item"]'), "not `events`"),
        (("acme.sync.wait_for_all", "random.random"), "`random.random` already belongs to PG504"),
        (('"acme-sync"', '"item"'), "`item` already belongs to PG201"),
        (('calls = ["acme.sync.wait_for_all"]\nmethods = ["to_host_now"]', ""), "names no `calls`"),
        (('sync = "yes"', 'sync = "perhaps"'), "consequences.sync must be one of"),
        (("+++\ncode", "code"), "a page starts with data"),
        (('name = "acme-sync"\n', ""), "ACME001.md: `name` is missing between"),
        (('sync = "yes"\n', ""), "ACME001.md: `sync` is missing between"),
    ],
)
def test_a_page_that_does_not_fit_is_one_line(
    lint: Lint, change: tuple[str, str], complaint: str
) -> None:
    assert change[0] in PAGE
    _write(lint, PAGE.replace(*change))
    result = lint("src")
    assert result.code == 2
    assert complaint in result.err
    assert str(Path("my_rules") / "ACME001.md") in result.err
    assert result.err.count("\n") == 1


def test_a_folder_without_pages(lint: Lint) -> None:
    lint.write({"pygraph-lint.toml": SETTINGS, "src/model.py": MODEL, "my_rules/notes.txt": ""})
    result = lint("src")
    assert result.code == 2
    assert "there are no rule pages" in result.err
    assert lint("--isolated", "rule-test").code == 2
    assert "nosuch: there is no such folder" in lint("rule-test", "nosuch").err


def test_the_page_in_the_documentation_works(lint: Lint) -> None:
    text = (REPOSITORY / "docs/how-to/own-rules.md").read_text()
    page = re.split(r"~~~markdown.*\n", text)[1].split("~~~")[0]
    lint.write({"pygraph-lint.toml": SETTINGS, "my_rules/ACME001.md": page})
    tested = lint("rule-test")
    assert tested.code == 0
    assert tested.out.count(": ok") == 2


def test_a_page_that_a_terminal_cannot_show(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write(
        {"pygraph-lint.toml": SETTINGS, "my_rules/ACME001.md": PAGE.replace("Our", "Unsere\xe4")}
    )
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert lint("rule", "ACME001").code == 0
    written = sys.stdout.buffer
    assert isinstance(written, io.BytesIO)
    assert b"Unsere\\xe4 helper" in written.getvalue()
