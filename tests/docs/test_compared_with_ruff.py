"""The page that compares with ruff, held against both command lines."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

import pytest

from pygraph_lint.commands.arguments import parser
from pygraph_lint.report import FORMATS
from tests.lint.support import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "compared-with-ruff.md").read_text(encoding="utf-8")


def _ruff(*arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def help_of_ruff() -> str:
    (compared,) = re.findall(r"ruff (\d+\.\d+), by running both", PAGE)
    here = _ruff("--version").split()[1]
    if not here.startswith(f"{compared}."):
        pytest.skip(f"the page compares with ruff {compared}, here is {here}")
    return _ruff("check", "--help")


def _options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))


def _ours() -> set[str]:
    (commands,) = (
        action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return _options(commands.choices["check"].format_help())


def test_what_is_left_out_is_named(help_of_ruff: str) -> None:
    listed = _options(help_of_ruff)
    assert len(listed) > 30
    _, found, left_out = PAGE.partition("## What is left out")
    assert found
    missing = listed - _ours()
    reasons = {
        option
        for line in re.findall(r"^- (.*?):", left_out, re.MULTILINE)
        for option in _options(line)
    }
    assert missing <= reasons
    # Only a form of `--config` is missing.
    assert reasons - {"--config"} <= missing


def test_the_formats_are_the_same(help_of_ruff: str) -> None:
    about = help_of_ruff.partition("--output-format <OUTPUT_FORMAT>")[2]
    values = re.search(r"possible values: ([^\]]*)\]", about)
    assert values is not None
    assert set(re.split(r"[,\s]+", values[1])) == set(FORMATS)
