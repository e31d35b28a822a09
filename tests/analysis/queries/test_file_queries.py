"""The query interface: values, definitions, order, effects and holders at a place."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.queries.interface import Device, ProjectView, Type
from pygraph_lint.analysis.queries.side_effects import Effects

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def ask(source: str, view: ProjectView | None = None) -> FileQueries:
    """Queries about a file."""
    return FileQueries(ast.parse(HEAD + textwrap.dedent(source)), view)


def find(queries: FileQueries, text: str, kind: type[ast.AST] = ast.expr, last: bool = False):
    """The first (or last) node of a kind that is written so."""
    wanted = ast.unparse(ast.parse(text))
    found = [
        node
        for node in ast.walk(queries.tree)
        if isinstance(node, kind) and ast.unparse(node) == wanted
        if not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
    ]
    found.sort(key=lambda node: node.lineno)
    return found[-1 if last else 0]


def test_values_at_a_node() -> None:
    queries = ask("""
        def f(x: torch.Tensor, n: int, flag=None):
            mask = x > 0
            y = torch.zeros(3, 4)
            total = y.sum()
            if flag is None:
                z = None
            else:
                z = x
            return mask, y, total, n, z
    """)
    result = find(queries, "(mask, y, total, n, z)")
    mask, y, total, n, z = (queries.known(node) for node in result.elts)
    assert (mask.must_be(Type.TENSOR), mask.dtype) == (True, "bool")
    assert (y.rank, y.device, y.must_be(Type.TENSOR)) == (2, Device.HOST, True)
    assert total.rank == 0
    assert not n.must_be(Type.TENSOR)
    assert z.may_be(Type.NONE) and z.may_be(Type.TENSOR) and not z.must_be(Type.TENSOR)


def test_what_is_guessed_is_not_certain() -> None:
    queries = ask("""
        class M(nn.Module):
            def forward(self, x: torch.Tensor, q, r, n: int, t: float, o: int = None):
                a = self.w.sum() > 0
                b = self.w.any() == 1
                c = q.size(0)
                d = q.size(0) + 1
                e = q
                f = r.size(0), r.device
                g = self.w.any() or x
                h = n, t, o
                i = -self.w.max()
                j = x.size(0) > n
                k = n + x.size(0)
    """)
    values = {
        node.targets[0].id: node.value
        for node in queries.nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for name in "abcdegi":
        assert queries.known(values[name]).types == Type.ANYTHING, name
    assert queries.known(values["f"].elts[0]).must_be(Type.NUMBER)
    n, t, o = map(queries.known, values["h"].elts)
    assert (n.must_be(Type.NUMBER), n.dtype) == (True, "int")
    assert (t.must_be(Type.NUMBER), t.dtype) == (True, "float")
    assert not o.must_be(Type.NUMBER)
    assert queries.known(values["j"]).must_be(Type.NUMBER)
    assert queries.known(values["k"]).must_be(Type.NUMBER)


def test_a_layer_called_like_a_method_may_give_its_input_back() -> None:
    queries = ask("""
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(3)
            def forward(self, x: torch.Tensor):
                a = self.norm(x)
                b = x.norm()
                c = +x
                d = -x
                return a, b, c, d
    """)
    held = [queries.is_unaliased(each) for each in find(queries, "(a, b, c, d)").elts]
    assert held == [False, True, False, True]


def test_what_a_name_holds_at_another_place() -> None:
    queries = ask("""
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.ones(3))
            def forward(self, x: torch.Tensor):
                first = torch.arange(3)
                if x.shape[0] > 2:
                    y = x * 2
                second = torch.arange(4)
                y = x + 1
                return first + y, second, self.scale
    """)
    first, second = find(queries, "torch.arange(3)"), find(queries, "torch.arange(4)")
    assert queries.known_at("x", first).must_be(Type.TENSOR)
    assert queries.known_at("y", first).types == Type.ANYTHING
    assert queries.known_at("y", second).types == Type.ANYTHING  # on one way only
    assert queries.known_at("y", find(queries, "self.scale")).must_be(Type.TENSOR)


def test_an_assumption_counts_where_linking_confirmed_it() -> None:
    source = "def f(x):\n    return x + 1\n"
    unknown = ask(source)
    assert unknown.known(find(unknown, "x + 1")).types == Type.ANYTHING
    values = [value for value in unknown._recorded(unknown.tree).values.values() if value.needs]
    view = ProjectView("module", tensors=frozenset(values[0].needs))
    queries = ask(source, view)
    assert not queries.is_tensor(find(queries, "x + 1"))
    believing = queries.believing()
    assert believing.is_tensor(find(believing, "x + 1"))
    assert believing.believed == {"x"}


def test_names_are_resolved_by_what_binds_them() -> None:
    queries = ask("""
        def f(len2):
            relu = F.relu
            len = len2
            return relu(len), torch.nn.Linear, sum([1]), len2.x
        def g(torch):
            return torch.zeros(3)
    """)
    result = find(queries, "(relu(len), torch.nn.Linear, sum([1]), len2.x)")
    calls = [queries.callee(node) or queries.qualified(node) for node in result.elts]
    assert calls == ["torch.nn.functional.relu", "torch.nn.Linear", "builtins.sum", None]
    assert queries.qualified(result.elts[0].args[0]) is None
    assert queries.callee(find(queries, "torch.zeros(3)")) is None
    place = find(queries, "torch.zeros(3)")
    assert queries.spelling("torch.nn", place) == "nn"
    assert queries.spelling("torch", place) is None  # the parameter hides it
    assert queries.means_nothing("mask", place) and not queries.means_nothing("torch", place)
    assert not queries.means_nothing("len", place)


def test_names_bound_to_each_other_mean_nothing() -> None:
    queries = ask("""
        def f(n):
            a = torch
            b = a
            for _ in range(n):
                a, b = b, a
                c = c
            return a.x, c
    """)
    result = find(queries, "(a.x, c)")
    assert [queries.qualified(node) for node in result.elts] == [None, None]


def test_the_only_value_of_a_name() -> None:
    queries = ask("""
        def f(x, c):
            a = x + 1
            b = x
            if c:
                b = x * 2
            return a, b, c
    """)
    a, b, c = find(queries, "(a, b, c)").elts
    assert ast.unparse(queries.only_value(a)) == "x + 1"
    assert queries.only_value(b) is None
    assert [ast.unparse(value) for value in queries.values(b)] == ["x", "x * 2"]
    assert queries.values(c) is None


def test_used_outside() -> None:
    queries = ask("""
        def f(x, c):
            if c:
                y = x + 1
                x = y * 2
            return x
    """)
    branch = find(queries, "if c:\n    y = x + 1\n    x = y * 2", ast.If)
    assert queries.used_outside("x", [branch])
    assert not queries.used_outside("y", [branch])


def test_what_surely_ran_before() -> None:
    queries = ask("""
        def f(x, c):
            a = x + 1
            for i in range(3):
                b = x + 2
            d = x + 3
    """)
    d = find(queries, "x + 3")
    assert queries.runs_before(find(queries, "x + 1"), d)
    assert not queries.runs_before(find(queries, "x + 2"), d)
    assert [type(node) for node in queries.steps_before(d)] == [ast.For, ast.Assign]


@pytest.mark.parametrize(
    ("statement", "effects"),
    [
        ("y = x.sum() + len(x)", Effects(rebinds=frozenset({"y"}))),
        ("x.add_(1)", Effects(mutates=frozenset({"x"}))),
        ("x[0] = y", Effects(mutates=frozenset({"x"}))),
        ("x.t()[0].mul_(2)", Effects(mutates=frozenset({"x"}))),
        ("torch.add(x, y, out=z)", Effects(mutates=frozenset({"z"}))),
        ("self.a.b = x", Effects(rebinds=frozenset({"self.a.b"}))),
        ("y = torch.rand(3)", Effects(rebinds=frozenset({"y"}), draws=True)),
        ("z = F.dropout(x)", Effects(rebinds=frozenset({"z"}), draws=True)),
        ("parts.append(x)", Effects(mutates=frozenset({"parts"}))),
        ("other(x)", Effects(unknown=True)),
        ("print(x)", Effects(unknown=True)),
        ("x += 1", Effects(rebinds=frozenset({"x"}), mutates=frozenset({"x"}))),
        ("y = pure(x)", Effects(rebinds=frozenset({"y"}))),
        ("fill(x)", Effects(mutates=frozenset({"x"}))),
        ("again(x)", Effects(unknown=True)),
        ("y = lambda: print(1)", Effects(rebinds=frozenset({"y"}))),
    ],
)
def test_effects(statement: str, effects: Effects) -> None:
    queries = ask(f"""
        def pure(a):
            b = a.float()
            return b * 2
        def fill(t):
            t.fill_(1)
        def again(t):
            return again(t)
        def f(self, x, y, z, parts, other):
            {statement}
    """)
    assert queries.effects(queries.tree.body[-1].body[0]) == effects


def test_who_else_may_hold_an_object() -> None:
    queries = ask("""
        def f(x: torch.Tensor, keep):
            a = x * 2
            a.add_(1)
            b = x + 1
            keep.append(b)
            b.add_(1)
            c = x.view(-1)
            c.add_(1)
            d = x + 1
            d.sum()
            d.mul_(2)
            keep.append(d)
    """)

    def receiver(text: str) -> ast.Name:
        return find(queries, text).func.value

    assert queries.is_unaliased(receiver("a.add_(1)"))
    assert not queries.is_unaliased(receiver("b.add_(1)"))
    assert not queries.is_unaliased(receiver("c.add_(1)"))
    assert queries.is_unaliased(receiver("d.mul_(2)"))


def test_evaluating_somewhere_else() -> None:
    queries = ask("""
        def f(x: torch.Tensor, n):
            size = x.shape[0]
            y = x + 1
            n = 3
            y.add_(n)
            return y
    """)
    size, n = find(queries, "x.shape[0]"), find(queries, "n")
    assert queries.same_value(size, find(queries, "x + 1"))
    assert not queries.same_value(size, find(queries, "y", last=True))
    assert not queries.same_value(n, find(queries, "x + 1"))


def test_the_shape_of_a_result() -> None:
    queries = ask("""
        def f(x: torch.Tensor, y: torch.Tensor):
            m = ~(x > 0)
            n = x[None]
            x = x.abs()
            y = y[None]
            return m, x, torch.zeros_like(y), n > 0, x + y, x.view(-1)
    """)
    result = find(queries, "(m, x, torch.zeros_like(y), n > 0, x + y, x.view(-1))")
    given = ["x [5]", "x [5]", "y [9]", "n [7]", None, None]
    assert [queries.shaped_like(node) for node in result.elts] == given


def test_what_others_may_do() -> None:
    source = """
        def helper(size, k=1):
            return size * k
        class M:
            def run(self, x):
                return self.part(x) + helper(3)
            def part(self, x):
                x.zero_()
                return x
    """
    alone = ask(source)
    run = find(alone, "self.part(x)")
    assert alone.called_function(run) is None and alone.effects(run).unknown
    patched = ask(source, ProjectView("module", patched=frozenset({"module.helper"})))
    assert patched.called_function(find(patched, "helper(3)")) is None
