"""Names a rewrite needs: found under the file's own spelling, or imported once."""

from __future__ import annotations

import ast
import itertools
import sys

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.fixes.engine.names import loads, own_nodes
from pygraph_lint.fixes.engine.site import Declined, Site


def use_torch(site: Site) -> str:
    """How ``torch`` is written at the finding; adds ``import torch`` where only parts are
    imported.

    Raises Declined where the name means something else, or where the file can be used without
    torch: it does not import it, or only under a condition.
    """
    spelled = site.ask.spelling("torch", site.path[-1])
    if spelled is not None and spelled.startswith("__"):
        raise Declined("inside of a class, a name like this is another one")
    if spelled is not None:
        place = site.tree if isinstance(site.tree, ast.Call) else site.path[-1]
        while isinstance(place, (ast.Call, ast.Attribute)):  # what is evaluated first
            place = place.func if isinstance(place, ast.Call) else place.value
        here = isinstance(place, ast.Name) and place.id == spelled
        if not here and not _surely_imported(site, spelled):
            if not _used(site, spelled):
                raise Declined("torch is imported under a condition, and not used here")
            site.safe_only_if("imported", False, "torch may not be imported yet")
        return spelled
    if site.taken("torch"):
        raise Declined("the name torch means something else here")
    _add_import(site)
    return "torch"


def use_module(site: Site, module: str) -> str:
    """How a module of the standard library is written at the finding; imported where it is not.

    Raises Declined where its name means something else, or is imported under a condition.
    """
    spelled = site.ask.spelling(module, site.path[-1])
    if spelled is not None:
        if not _surely_imported(site, spelled):
            raise Declined(f"{module} is imported under a condition")
        return spelled
    if site.taken(module):
        raise Declined(f"the name {module} means something else here")
    if any(_imports_all(node) for node in site.source.tree.body):
        raise Declined(f"an `import *` may bind the name {module}")
    start, text = _place_of(site, module)
    site.replace(start, start, text)
    _doubt(site, module)
    return module


def _doubt(site: Site, name: str) -> None:
    """A new import is never safe: others may list or import the file's names, or have a module of
    that name.
    """
    site.safe_only_if("new-import", False, f"the file imports {name} now")


def _place_of(site: Site, module: str) -> tuple[int, str]:
    """Where to import a module of the standard library, and the text: behind those that the file
    begins with, or before everything that it imports, with a line between.

    Raises Declined where the file imports nothing, or an import shares its line.
    """
    source = site.source
    found = [n for n in source.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    found = [n for n in found if not isinstance(n, ast.ImportFrom) or n.module != "__future__"]
    if not found or not all(map(source.alone, found)):
        raise Declined("there is no place for an import")
    line, group = f"import {module}{source.newline}", list(itertools.takewhile(_standard, found))
    if not group:
        return source.line_start(found[0].lineno), line + source.newline
    return source.line_start((group[-1].end_lineno or 0) + 1), line


def _standard(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import is of the standard library."""
    name = node.names[0].name if isinstance(node, ast.Import) else node.module or ""
    level = 0 if isinstance(node, ast.Import) else node.level
    return not level and name.split(".")[0] in sys.stdlib_module_names


def _surely_imported(site: Site, name: str) -> bool:
    """Whether an import binds a name at the finding without a condition: in front of it in a
    function around it, or in the module.
    """
    top = next((each for each in site.path if isinstance(each, ast.stmt)), site.statement)
    for node in site.path[::-1]:
        if isinstance(node, FUNCTIONS) and any(_binds(inner, name) for inner in own_nodes(node)):
            body = [] if isinstance(node, ast.Lambda) else node.body
            line = site.statement.lineno
            return any(_binds(item, name) and item.lineno < line for item in body)
    above = (node for node in site.source.tree.body if node.lineno < top.lineno)
    return any(_binds(node, name) for node in above)


def _binds(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Import) and any(
        (alias.asname or alias.name.split(".")[0]) == name for alias in node.names
    )


def imported_above(site: Site, name: str, place: ast.stmt) -> bool:
    """Whether an import in front of a module's statement binds a name, without a condition."""
    above = (node for node in site.source.tree.body if node.lineno < place.lineno)
    imports = (node for node in above if isinstance(node, (ast.Import, ast.ImportFrom)))
    aliases = (alias for node in imports for alias in node.names)
    return any((each.asname or each.name.split(".")[0]) == name for each in aliases)


def _imports_all(node: ast.AST) -> bool:
    """``from other import *``, except from torch, whose names are known."""
    return (
        isinstance(node, ast.ImportFrom)
        and node.names[0].name == "*"
        and (node.module or "").split(".")[0] != "torch"
    )


def _used(site: Site, name: str) -> bool:
    """Whether the code around the finding uses a name already."""
    scope = site.around(ast.ClassDef) or site.function
    return scope is not None and bool(loads(scope, name))


def _add_import(site: Site) -> None:
    """Add ``import torch`` in front of the file's first import from torch, or below it where that
    stands behind something else in its line.
    """
    source = site.source
    for node in source.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "torch" in _tops(node):
            start = source.line_start(node.lineno)
            if node.col_offset:
                start = source.line_start(_last_line(site, node) + 1)
            site.replace(start, start, f"import torch{source.newline}")
            _doubt(site, "torch")
            return
    raise Declined("the file does not import torch")


def _last_line(site: Site, node: ast.stmt) -> int:
    """The last line of a module's statement and of those behind it that begin in its last line."""
    last = node.end_lineno or node.lineno
    for each in site.source.tree.body:
        if each.lineno == last:
            last = each.end_lineno or last
    return last


def add_torch(site: Site) -> str:
    """Import torch in a file that imports nothing from it: behind the installed packages' modules,
    or else the standard library's.

    Raises Declined where the file imports torch in some other way, or the name means something.
    """
    tree, source = site.source.tree, site.source
    found = [n for n in site.ask.nodes if isinstance(n, (ast.Import, ast.ImportFrom))]
    found = [n for n in found if isinstance(site.ask.scope(n), ast.Module)]
    if any("torch" in _tops(node) for node in found) or site.taken("torch"):
        raise Declined("the file does not import torch for all of its code")
    early = list(itertools.takewhile(_is_early, tree.body))
    rest = tree.body[len(early) :]
    if not rest or any(n.col_offset for n in tree.body):
        raise Declined("there is no place for an import")
    _doubt(site, "torch")
    end = source.newline
    if others := _first_group(list(itertools.takewhile(_is_installed, rest))):
        start = source.line_start((others[-1].end_lineno or others[-1].lineno) + 1)
        site.replace(start, start, f"import torch{end}")
        return "torch"
    imports = isinstance(rest[0], (ast.Import, ast.ImportFrom))
    if early and isinstance(early[-1], (ast.Import, ast.ImportFrom)):
        start = source.line_start((early[-1].end_lineno or early[-1].lineno) + 1)
        site.replace(start, start, f"{end}import torch{end}")
    else:
        start = source.line_start(first_line(rest[0]))
        site.replace(start, start, f"import torch{end}" + (end if imports else end * 2))
    return "torch"


def _first_group(imports: list[ast.stmt]) -> list[ast.stmt]:
    """Those in front of the first gap."""
    ends = (
        number
        for number, (one, other) in enumerate(itertools.pairwise(imports), 1)
        if other.lineno - (one.end_lineno or one.lineno) > 1
    )
    return imports[: next(ends, len(imports))]


def _is_installed(node: ast.stmt) -> bool:
    """An import of a package that is neither the standard library's nor the file's own, as far as
    its spelling says.
    """
    if isinstance(node, ast.ImportFrom) and node.level:
        return False
    return isinstance(node, (ast.Import, ast.ImportFrom)) and not _standard(node)


def _is_early(node: ast.stmt) -> bool:
    """A docstring, or an import of the standard library."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return _standard(node)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _tops(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The top-level packages an import imports from."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]] if not node.level else []
    return [alias.name.split(".")[0] for alias in node.names]
