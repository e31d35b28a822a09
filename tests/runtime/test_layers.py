"""Dependencies of the runtime's folders point one way, and its parts stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "pygraph_rt"
# A folder, or a file beside them, may import those before it, and itself.
LAYERS = (
    "errors",
    "shared_state",
    "interrupts",
    "files",
    "options",
    "replaced_operators",
    "plan",
    "cuda",
    "reports",
    "host_values",
    "inductor",
    "rng",
    "memory",
    "capture",
    "replay",
    "verify",
    "select",
    "region",
    "backend",
    "repeated",
    "registration",
    "__init__",
    "trace",
    "__main__",
)
# Compilation and reports know nothing of GPUs; selection knows nothing of graphs.
APART = {
    "reports": {"cuda", "plan"},
    "host_values": {"cuda"},
    "inductor": {"cuda"},
    "select": {"cuda", "plan", "inductor", "memory", "capture", "replay", "verify"},
}

# Of an object that is more than data; of a call that makes one; of a function.
MOST_ATTRIBUTES, MOST_PARAMETERS, MOST_LINES = 12, 7, 40
# Classes that have more attributes than that.
LARGE = {"Event", "Syncs", "Trace"}


def imported(file: Path) -> set[str]:
    """Folders and root modules of the package that a file imports, for types too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert not node.level, f"{file}: relative import"
            names = [node.module]
            if node.module == "pygraph_rt":
                names = [f"pygraph_rt.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("pygraph_rt.")}
    return found


def files(layer: str) -> list[Path]:
    found = ROOT / layer
    return sorted(found.rglob("*.py")) if found.is_dir() else [ROOT / f"{layer}.py"]


def test_every_folder_and_file_has_its_place() -> None:
    there = {p.stem for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert there == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_what_is_below_it(layer: str) -> None:
    allowed = {*LAYERS[: LAYERS.index(layer) + 1]} - APART.get(layer, set())
    for file in files(layer):
        above = imported(file) - allowed
        assert not above, f"{file.relative_to(ROOT)} imports {sorted(above)}"


def test_no_two_modules_of_a_layer_import_each_other() -> None:
    """Nor do more of them in a ring."""
    graph: dict[str, set[str]] = {}
    for layer in LAYERS:
        for file in files(layer):
            name = ".".join(("pygraph_rt", *file.relative_to(ROOT).with_suffix("").parts))
            uses: set[str] = set()
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    uses |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
            graph[name.removesuffix(".__init__")] = uses
    done: set[str] = set()
    while len(done) < len(graph):
        free = {
            name
            for name, uses in graph.items()
            if name not in done and not (uses & graph.keys()) - done - {name}
        }
        assert free, f"a ring among {sorted(graph.keys() - done)}"
        done |= free


def test_the_plan_needs_no_torch() -> None:
    """It is imported for types alone."""
    for file in files("plan"):
        tree = ast.parse(file.read_text())
        at_runtime = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = [getattr(n, "module", None) or n.names[0].name for n in at_runtime]
        assert not any(name.startswith(("torch", "numpy")) for name in names), file


def parsed() -> list[ast.Module]:
    return [ast.parse(file.read_text()) for file in sorted(ROOT.rglob("*.py"))]


def attributes(found: ast.ClassDef) -> set[str]:
    """What the methods of a class set of their object."""
    return {
        node.attr
        for node in ast.walk(found)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def test_no_object_has_many_attributes() -> None:
    """Fields of data aside: a `Row` of the report, or a plan."""
    classes = [c for tree in parsed() for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    assert {c.name for c in classes if len(attributes(c)) > MOST_ATTRIBUTES} <= LARGE


def test_what_has_many_fields_is_data() -> None:
    """It has no methods that change it."""
    for tree in parsed():
        for found in ast.walk(tree):
            if isinstance(found, ast.ClassDef) and found.name not in LARGE:
                fields = [n for n in found.body if isinstance(n, ast.AnnAssign)]
                if len(fields) > MOST_ATTRIBUTES:
                    assert not attributes(found), found.name


def test_functions_are_short_and_take_little() -> None:
    for tree in parsed():
        for found in ast.walk(tree):
            if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert (found.end_lineno or 0) - found.lineno < MOST_LINES, found.name
                given = [*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs]
                taken = [a for a in given if a.arg not in ("self", "cls")]
                assert len(taken) <= MOST_PARAMETERS, found.name


CHANGES = {"append", "add", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}


def changed(function: ast.AST) -> set[str]:
    """Names whose values a function changes, and those that it declares global."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            found.add(getattr(node.value, "id", ""))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CHANGES:
                found.add(getattr(node.func.value, "id", ""))
    return found


def test_no_function_changes_a_value_of_its_module() -> None:
    """What a process remembers is a `Shared`, which tests can make anew."""
    for file in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(file.read_text())
        targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
        targets += [n.target for n in tree.body if isinstance(n, ast.AnnAssign)]
        of_module = {t.id for t in targets if isinstance(t, ast.Name)} - {"_EVERYTHING"}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                where = f"{file.relative_to(ROOT)}: {node.name}"
                assert not changed(node) & of_module, where
