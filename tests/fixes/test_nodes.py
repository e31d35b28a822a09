"""Both trees of a text, side by side: each ``ast`` node leads to the libcst node of its code.

``PYGRAPH_NODE_FOLDERS`` names folders (separated as in PATH) of which every file is taken, as
``make test-nodes`` does; else a sample of the standard library is.
"""

from __future__ import annotations

import ast
import os
import random
import sysconfig
from pathlib import Path

import libcst as cst
import pytest

from pygraph_lint.fixes.engine.nodes import Mismatch, pairs, statements
from tests.fixes.node_kinds import same_kind

FOLDERS = [
    Path(name) for name in os.environ.get("PYGRAPH_NODE_FOLDERS", "").split(os.pathsep) if name
]
SAMPLE = 60


def _files() -> list[Path]:
    if FOLDERS:
        return sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))
    found = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(1).shuffle(found)
    return found[:SAMPLE]


def _without_node(tree: ast.AST) -> set[ast.AST]:
    """The nodes of which libcst has none: see ``nodes``."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            found.add(node.slice)  # also written with parentheses, which have a node
        if isinstance(node, ast.JoinedStr):
            found |= {part for part in node.values if isinstance(part, ast.Constant)}
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            found.add(node.format_spec)
            found |= {each for each in ast.walk(node.format_spec) if isinstance(each, ast.Constant)}
        if isinstance(node, ast.match_case):
            found |= set(ast.walk(node.pattern))
    return found


def check(text: bytes) -> str | None:
    """What is wrong with the map of a text; None where nothing is."""
    tree = ast.parse(text)
    module = cst.parse_module(text)
    seen: dict[ast.AST, cst.CSTNode] = {}
    back: set[int] = set()
    for one, other in pairs(tree, module):
        if one in seen or id(other) in back:
            return f"line {getattr(one, 'lineno', 0)}: {ast.dump(one)[:80]} has two nodes"
        if not same_kind(one, other):
            return f"line {getattr(one, 'lineno', 0)}: {type(one)} is no {type(other)}"
        seen[one] = other
        back.add(id(other))
    excused = _without_node(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)) and node not in seen and node not in excused:
            return f"line {node.lineno}: {ast.dump(node)[:80]} has none"
    return _texts(tree, module, seen)


def _texts(tree: ast.AST, module: cst.Module, seen: dict[ast.AST, cst.CSTNode]) -> str | None:
    """Names and numbers are what stands in their nodes."""
    for one, other in seen.items():
        if isinstance(one, ast.Name) and isinstance(other, cst.Name) and one.id != other.value:
            return f"{one.id} is not {other.value}"
        if isinstance(one, ast.Attribute) and isinstance(other, cst.Attribute):
            if one.attr != other.attr.value and one.attr.isascii():
                return f"{one.attr} is not {other.attr.value}"
        if isinstance(one, ast.Constant) and isinstance(other, (cst.SimpleString, cst.Integer)):
            if other.evaluated_value != one.value:
                return f"{one.value!r} is not {other.value}"
    return None


@pytest.mark.parametrize("path", _files(), ids=str)
def test_each_node_has_one_of_its_kind(path: Path) -> None:
    text = path.read_bytes()
    try:
        ast.parse(text)
        cst.parse_module(text)
    except (SyntaxError, ValueError, cst.ParserSyntaxError):
        pytest.skip("not a module of this Python, or nothing that libcst reads")
    assert check(text) is None


ODD = """
@(lambda f: f)
@a.b(1)[2]
class C(A, *B, metaclass=M, **K):
    x: (int) = (yield_ := 3)
    async def f(self, a, /, b: "é" = 1, *c, d=(2), e, **g) -> "ü":
        async with (a as b, c): pass
        async for i, in await (d): break
        else: del a, (b), [c]
        return (yield), [*a, *(b)], {**a, "é": b}, {*a}
def g(*, k): return x[1, ::2], x[(1, 2)], x[1,], x[*a], x[a:b, *c], -1 ** -x
"é"; x = y = (z); x += 1,; assert (a), "é"
if a and b and (c and d) or not e: pass
elif (a if b else c) < d is not e in (f): pass
else:
    if a: pass
    else: pass
try: pass
except (A, B) as e: raise E from e
except: raise
else: x
finally: del (a, b)
f"é{a!r:{b}>{c}} {d:x}" f"{e}" 'x', f'{x=}', "a" "b", b"c" b"d", (f"{a}" "b")
lambda a, *b, c=1, **d: (a, b), lambda: 0
[a for b in c if d if e for f, g in h], {a: b for a in b}, {a for a in b}, (a for a in b)
f(a for a in b), f(*a, b, *c, d=e, **g), f((a for a in b), c)
while (n := f()): continue
else: pass
import a.b as c, d; from . import (e as f,); from g import *
def h():
    global a, b
    x, *y = (yield from z), ...
    print(a)  ;  return
with a, b as (c, d): nonlocal_ = 1j + 0x1f + 1_0.0e3
match a, b:
    case [1, *_] if c: d
    case {"x": y}: e
    case _: pass
"""


def test_odd_syntax() -> None:
    assert check(ODD.encode()) is None
    assert check(ODD.replace("\n", "\r\n").encode()) is None
    assert check(b"\xef\xbb\xbf" + ODD.encode()) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f(a)", "f(a, b)"),
        ("f(a, b)", "f(a)"),
        ("f(a=1)", "f()"),
        ("x = 1", "x: int"),
        ("a; b", "a"),
    ],
)
def test_trees_of_different_texts_do_not_fit(one: str, other: str) -> None:
    with pytest.raises(Mismatch):
        list(pairs(ast.parse(one), cst.parse_module(other)))


def test_statements_behind_semicolons() -> None:
    found = list(statements(ast.parse("a; b\nc").body, cst.parse_module("a; b\nc")))
    assert [type(node).__name__ for _, node in found] == ["Expr", "Expr", "Expr"]
