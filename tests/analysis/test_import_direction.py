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
# The packages below ``analysis``: each imports only itself and those before it.
LAYERS = (
    "syntax",
    "control_flow",
    "domain",
    "program",
    "interpreter",
    "queries",
    "loops",
    "capture",
    "interprocedural",
    "regions",
)
ENTRIES = ("extract", "link")  # may import all packages, and no package imports them


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


def test_every_package_has_its_place_and_says_what_it_answers() -> None:
    parts = {path.relative_to(ANALYSIS).parts[0] for path in MODULES.values()}
    assert parts == {"__init__.py", *(f"{name}.py" for name in ENTRIES), *LAYERS}
    story = [line.split("``")[1] for line in _docstring("").splitlines() if line.startswith("``")]
    assert story[: len(LAYERS)] == list(LAYERS)
    for package in LAYERS:
        assert len(_docstring(package)) > 150, package


def _docstring(package: str) -> str:
    path = ANALYSIS / package / "__init__.py"
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def test_a_package_imports_only_itself_and_those_before_it() -> None:
    crossing = 0
    for name, path in MODULES.items():
        package = name.split(".")[2] if name.count(".") > 1 else ENTRIES[0]
        if package in ENTRIES:
            continue
        allowed = LAYERS[: LAYERS.index(package) + 1]
        for other in imported(path) & set(MODULES):
            layer = other.split(".")[2]
            assert layer in allowed, f"{name} imports {other}"
            crossing += layer != package
    assert crossing > 200


def test_the_analysis_knows_nothing_of_rules_and_fixes() -> None:
    above = ("rules", "fixes", "commands", "report", "project", "findings", "files")
    for name, path in MODULES.items():
        for other in imported(path):
            assert other.split(".")[1] not in above, f"{name} imports {other}"


def test_files_are_short() -> None:
    for path in MODULES.values():
        assert len(path.read_text().splitlines()) <= 500, path.name


def test_fixes_import_one_way() -> None:
    """The engine knows no rewrite but by its folder, and shared questions know none at all."""
    layers = ["engine", "shared", "rewrites"]
    for path in (ROOT / "fixes").rglob("*.py"):
        layer = path.relative_to(ROOT / "fixes").parts[0]
        for other in imported(path):
            parts = other.split(".")
            if parts[1:2] == ["fixes"] and parts[2:3] != [layer] and len(parts) > 3:
                assert layers.index(parts[2]) < layers.index(layer), f"{path.name} imports {other}"
