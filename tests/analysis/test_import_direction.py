"""Modules of the analysis import each other in one direction, type-only imports included."""

from __future__ import annotations

import ast
from pathlib import Path

import pygraph_lint

ROOT = Path(pygraph_lint.__file__).parent
ANALYSIS = ROOT / "analysis"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in ANALYSIS.rglob("*.py")}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("pygraph_lint.")}


def test_no_module_imports_itself_by_a_detour() -> None:
    edges = {name: imported(path) & set(MODULES) for name, path in MODULES.items()}
    assert sum(map(len, edges.values())) > 50
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for other in sorted(edges[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


def test_the_analysis_knows_nothing_of_rules_and_fixes() -> None:
    above = ("rules", "fixes", "commands", "report", "runner", "workspace", "findings", "files")
    for name, path in MODULES.items():
        for other in imported(path):
            assert other.split(".")[1] not in above, f"{name} imports {other}"


def test_files_are_short() -> None:
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= 500, path.name
