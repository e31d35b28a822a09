"""Annotations are removed; lines stay, and the file parses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lint_truth.copies import copy_packages, relative_to
from benchmarks.lint_truth.stripping import without_annotations

ROOT = Path(__file__).resolve().parents[2]


def annotations(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
            found.append(ast.unparse(node.returns))
        if isinstance(node, ast.arg) and node.annotation:
            found.append(ast.unparse(node.annotation))
    return found


def names_and_lines(source: str) -> list[tuple[str, int]]:
    """Every node's type and line, but for annotations."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return [(type(n).__name__, getattr(n, "lineno", 0)) for n in ast.walk(tree)]


@pytest.mark.parametrize(
    ("source", "stripped"),
    [
        ("def f(x: int) -> str: ...\n", "def f(x     )       : ...\n"),
        ("def f(x: int = 1, *a: T, **k: 'U'): ...\n", "def f(x      = 1, *a   , **k     ): ...\n"),
        ("async def f(x, /, *, y: (int)): ...\n", "async def f(x, /, *, y       ): ...\n"),
        ("def f(\n    x: A[  # why\n        B\n    ],\n): ...\n", None),
        ("def f() -> A[\n    B,  # why\n]:\n    return 1\n", None),
        ("def f(x: A[\n  B]) -> C[\n  D\n]: return x\n", None),
        ("def f(größe: T, x: 'ü' = 'ü') -> 'é': return größe\n", None),
        ("x: int = 1\nf = lambda y: y\n", "x: int = 1\nf = lambda y: y\n"),
        ("def f(x: int):\r\n    return x\r\n", "def f(x     ):\r\n    return x\r\n"),
        ("\x0c\ndef f(x: int): ...\n", "\x0c\ndef f(x     ): ...\n"),
        ("def f(x: int): return lambda y: {1: x}[y]\n", None),
    ],
)
def test_stripping(source: str, stripped: str | None) -> None:
    result = without_annotations(source)
    if stripped is not None:
        assert result == stripped
    assert annotations(result) == []
    assert names_and_lines(result) == names_and_lines(source)
    assert without_annotations(result) == result


def test_on_the_files_of_this_project() -> None:
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        source = path.read_text()
        result = without_annotations(source)
        assert annotations(result) == []
        assert names_and_lines(result) == names_and_lines(source)


TYPES = st.recursive(
    st.sampled_from(["int", "'T'", "torch.Tensor", "None", "(int)"]),
    lambda inner: st.tuples(
        st.sampled_from(["list[{}]", "dict[str, {}]", "list[\n  {}\n]"]), inner
    ).map(lambda pair: pair[0].format(pair[1])),
    max_leaves=4,
)


@given(st.lists(TYPES, max_size=3), st.none() | TYPES)
def test_any_annotation(parameters: list[str], returned: str | None) -> None:
    arguments = ", ".join(f"a{number}: {kind}" for number, kind in enumerate(parameters))
    source = f"def f({arguments}){f' -> {returned}' if returned else ''}:\n    return 1\n"
    result = without_annotations(source)
    assert annotations(result) == []
    assert names_and_lines(result) == names_and_lines(source)


def test_copies_are_stripped_and_named_alike(tmp_path: Path) -> None:
    root = tmp_path / "installed" / "package"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.py").write_text("def f(x: int): ...\n")
    (root / "bad.py").write_text("def f(x: int:\n")
    roots = {"package": f"{root}/"}
    copies, kept = copy_packages(roots, tmp_path / "copies", strip=True)
    relative = relative_to(copies)
    assert kept == ["package/bad.py"]
    assert (Path(copies["package"]) / "sub" / "a.py").read_text() == "def f(x     ): ...\n"
    assert relative(f"{copies['package']}sub/a.py") == "package/sub/a.py"
    assert relative(str(root / "sub" / "a.py")) is None
