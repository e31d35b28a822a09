"""Rewrites asked for at any place of any code: they answer, and the result parses."""

from __future__ import annotations

import ast
import os
import random
import sysconfig
from pathlib import Path

import pytest

from pygraph_lint.findings import Finding
from pygraph_lint.fixes.engine.file_fixes import REWRITES, apply, fix_text
from pygraph_lint.fixes.engine.source import Source
from tests.fixes.support import finding

FILES = int(os.environ.get("PYGRAPH_FIX_FILES", "40"))
PLACES = 40
CODES = sorted({code for rewrite in REWRITES for code in rewrite.codes})


def _files() -> list[Path]:
    """The standard library's modules, in an order that is the same everywhere."""
    found = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found += sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-l]*/*.py"))
    random.Random(0).shuffle(found)
    return found[:FILES]


def _places(source: Source, draw: random.Random) -> list[Finding]:
    kinds = (ast.If, ast.Assert, ast.Expr, ast.Assign, ast.Call, ast.Subscript, ast.BoolOp)
    nodes: list[ast.AST] = []
    for node in ast.walk(source.tree):
        if isinstance(node, kinds):
            inner = node.test if isinstance(node, (ast.If, ast.Assert)) else node
            nodes.append(inner)
    found = []
    for node in draw.choices(nodes, k=PLACES) if nodes else []:
        span = source.span(node)
        found.append(finding(source.text, span, draw.choice(CODES), "effect.log"))
    return found


@pytest.mark.parametrize("path", _files(), ids=lambda path: path.name)
def test_results_parse(path: Path) -> None:
    try:
        text = "import torch\n" + path.read_text("utf-8").removeprefix("\ufeff")
        source = Source(text)
    except (SyntaxError, UnicodeDecodeError):
        pytest.skip("not a module of this Python")
    findings = _places(source, random.Random(path.name))
    fixes = fix_text(text, findings)
    usable = [fix for fix in fixes if fix is not None and fix.edits]
    changed, applied = apply(text, usable)
    ast.parse(changed)
    assert len(applied) <= len(usable)
    for fix in usable:
        ast.parse(apply(text, [fix])[0])
