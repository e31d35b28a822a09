"""Functions that are left out of compiled code, so that several graph breaks become one."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace

import pytest
import torch

from pygraph_lint.analysis.domain.region import Region
from pygraph_lint.analysis.queries.interface import ProjectView
from pygraph_lint.analysis.syntax.nodes import span_of
from pygraph_lint.fixes.engine.file_fixes import fix_text
from tests.fixes.equivalence import assert_same, breaks, graphs, module_of, run
from tests.fixes.support import finding, marked, offer

DRIVERS = {
    "a loop": (
        """
        while «t.sum() < 3»:
            t = t + 1
            state = self.step(state)
        return state.exp()
        """,
        "PG302",
    ),
    "a branch in a loop": (
        """
        for turn in range(3):
            if «state.sum() > t»:
                state = self.step(state)
                continue
            seen.append(turn)
        return state
        """,
        "PG301",
    ),
    "an arm of a branch": (
        """
        if «state.sum() > t»:
            seen.append(state)
            if «t > 1»:
                seen.append(t)
        return self.step(state)
        """,
        "PG301",
    ),
    "two branches": (
        """
        if «state.sum() > t»:
            seen.append(state)
        if «t > 1»:
            seen.append(t)
        return self.step(state)
        """,
        "PG301",
    ),
}
DRIVER = """
import torch

seen = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(2, 2)

    def step(self, state):
        return self.layer(state).tanh() * 2

    def drive(self, state, t: torch.Tensor):
BODY
    def forward(self, x, t):
        return self.drive(self.step(x), t) + 1
"""


def _driver(name: str) -> tuple[str, str]:
    body, code = DRIVERS[name]
    return DRIVER.replace("BODY", textwrap.indent(textwrap.dedent(body), " " * 8)), code


@pytest.mark.parametrize("name", DRIVERS)
def test_a_function_that_breaks_in_a_loop_or_often_is_one_break(name: str) -> None:
    before, code = _driver(name)
    fix, after = offer(before, code)
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    assert "    @torch.compiler.disable(recursive=False)\n    def drive(" in after
    old, new = (module_of(text).Model() for text in (marked(before)[0], after))
    arguments = (torch.ones(2), torch.tensor(-9.0))
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 1
    assert "tanh" in str(graphs(new, arguments)[1:])  # what it calls is compiled still


# The forms of two unrelated projects, found after the rewrite was there: rows and columns that are
# scaled until they sum up to one, and a fixed point that is looked for without gradients.
ITERATIONS = {
    "scaled": """
    if mask is not None:
        x = x.masked_fill(mask, 0.0)
    for _ in range(9):
        x = x / x.sum(1, keepdim=True).clamp(min=1e-6)
        x = x / x.sum(0, keepdim=True).clamp(min=1e-6)
        if «torch.max(torch.abs(x.sum(0) - 1))» < 0.1 and (x.sum(1) - 1).abs().max() < 0.1:
            break
    return x
""",
    "a fixed point": """
    with torch.no_grad():
        point = torch.zeros(x.shape[0], 1)
        for _ in range(9):
            following = torch.mean(torch.tanh(x + point / 2), dim=1, keepdim=True)
            if «torch.max(torch.abs(following - point)).item()» < 1e-2:
                point = following
                break
            point = following
    return torch.tanh(x + point)
""",
}


@pytest.mark.parametrize("name", ITERATIONS)
def test_foreign_iterations_are_one_break(name: str) -> None:
    head = "import torch\n\n\ndef iterated(x, mask=None):"
    tail = "\n\ndef forward(x):\n    return iterated(x.exp()) * 2\n"
    before = f"{head}{ITERATIONS[name]}{tail}"
    fix, after = offer(before, "PG301" if name == "scaled" else "PG201")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    arguments = (torch.linspace(0, 1, 9).reshape(3, 3),)
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) >= breaks(new, arguments) == 1


NOT_LEFT_OUT = {
    "one branch beside much work": (
        "if «t > 1»:\n    seen.append(t)\n"
        "state = state.sin() * 2 + state.cos() * 3 + state.exp() * 4 + t\nreturn self.step(state)"
    ),
    "much work between two": (
        "if «t > 1»:\n    seen.append(t)\n"
        + "state = state.sin() * 2 + state.cos() * 3 + state.exp() * 4 + t\n" * 2
        + "if «t > 2»:\n    seen.append(t)\nreturn state"
    ),
    "a loop that may not be there": (
        "if self.training:\n    for turn in range(3):\n"
        "        if «t > 1»:\n            seen.append(t)\nreturn self.step(state)"
    ),
    "a loop that may not be reached": (
        "if self.training:\n    return state\nfor turn in range(3):\n"
        "    if «t > 1»:\n        seen.append(t)\nreturn self.step(state)"
    ),
    "what is looped over": (
        "for each in «state.tolist()»:\n    seen.append(each)\n"
        "state = state.sin() * 2 + state.cos() * 3 + state.exp() * 4 + t\nreturn self.step(state)"
    ),
    "a function inside": (
        "def inner(y):\n    while «y > 1»:\n        y = y - 1\n    return y\nreturn inner(t)"
    ),
}


@pytest.mark.parametrize("name", NOT_LEFT_OUT)
def test_a_function_that_is_compiled_for_the_most_part_stays(name: str) -> None:
    text = DRIVER.replace("BODY", textwrap.indent(NOT_LEFT_OUT[name] + "\n", " " * 8))
    fix, _ = offer(text, "PG301")
    assert fix is None or fix.rewrite != "breaking_function" or fix.applicability == "declined"


SMALL = {
    "a check": "if «x.max() > 9»:\n    seen.append(9)\nreturn x",
    "a choice": "return x if «x.sum() > 0» else helper(x)",
    "a scale": "return x / max(1.0, «x.abs().max().item()»)",
    "rows and more": "rows = «x[x > 1]»\nreturn rows * 2",
    "only this": "return «x[x > 1]»",
    "behind a check of shapes": "if x.dim() != 1:\n    raise ValueError\nreturn «x[x > 1]»",
    "unless a flag is set": "if flat:\n    return x\nelse:\n    return «x[x > 1]»",
    "with a flag": "if not flat:\n    x = «x[x > 1]»\nreturn x",
}
_LITTLE = """
import torch

seen = []


def helper(x):
    return x * 2


def little(x: torch.Tensor, flat: bool = False):
BODY


def forward(x: torch.Tensor):
    return little(x.sin()).cos()
"""


@pytest.mark.parametrize("name", SMALL)
def test_a_small_function_that_breaks_is_one_break(name: str) -> None:
    text = _LITTLE.replace("BODY", textwrap.indent(SMALL[name], "    "))
    code = "PG402" if "x[" in SMALL[name] else "PG301"
    code = "PG201" if "item" in SMALL[name] else code
    fix, after = offer(text, code)
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    given = (torch.tensor([-1.0, 0.5, 2.0]),)
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given) == 1


@pytest.mark.parametrize(
    "name", ["a check", "a scale", "rows and more", "only this", "with a flag"]
)
def test_what_only_passes_on_goes_with_it(name: str) -> None:
    passes = "def passes(x):\n    y = little(x)\n    return y, 1\n\n\ndef forward"
    text = _LITTLE.replace("BODY", textwrap.indent(SMALL[name], "    "))
    text = text.replace("def forward", passes).replace(
        "return little(x.sin())", "return passes(x.sin())[0]"
    )
    code = "PG402" if "x[" in SMALL[name] else "PG301"
    code = "PG201" if "item" in SMALL[name] else code
    fix, after = offer(text, code)
    assert fix is not None and after.count("disable(recursive=False)") == 2, after
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    given = (torch.tensor([-1.0, 0.5, 2.0]),)
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given) == 1
    for other, count in (
        ("y = little(x) * 2", 2),
        ("y = [little(x)]; y = x @ x", 2),
        ("y = x and little(x).exp()", 1),
        ("y = little(x).exp() * 2 + x.sin() * 3 + x.cos() * 4 + x.tanh() * 5", 1),
    ):
        _, after = offer(text.replace("y = little(x)", other), code)
        assert after.count("disable(recursive=False)") == count, other
    chosen = text.replace("y = little(x)", "y = x if len(x) > 9 else little(x)")
    assert offer(chosen, code)[1].count("disable(recursive=False)") == 1


def test_what_another_file_calls_is_left_out_by_the_call_path() -> None:
    body = "    return x[«x.nonzero()».squeeze(1)].clone().mul_(2)"
    text = _LITTLE.replace("BODY", body).partition("\n\ndef forward")[0]
    text += "\n\ndef passes(x: torch.Tensor | None):\n    return little(x), 1\n"
    scaled = text.replace("little(x), 1", "little(x) * 2, 1")
    root = text.replace("def passes", "def forward")
    for steps, found in (
        (("calls module.passes, line 3", "calls module.little, line 9"), (2, 2, 1)),
        (("line 3 calls module.passes", "line 9 calls module.little"), (2, 2, 1)),
        (("line 3 calls module.bypasses", "line 9 calls module.little"), (2, 1, 1)),
        (("line 9 calls module.little",), (2, 1, 1)),
    ):
        region = Region("little", ("forward (forward of an nn.Module)", *steps))
        for each, count in zip((text, scaled, root), found, strict=True):
            _, after = offer(each, "PG401", region=region)
            assert after.count("@torch.compiler.disable") == count, steps


_ASKS = """
import torch


def NAME(x: torch.Tensor, limit):
BODY    if «x[0] > x[1]»:
        x = x[1:]
    return x
"""
_CHECK = (
    "    if (x * 2 + 1 - 3 + x - 4 + x).sum() * 2 - 1 > limit * 3 - 1:\n"
    "        raise ValueError('large')\n"
)
ASKS = {
    "a name for users": ("order", "", False),
    "a name that is not for users": ("_order", "", True),
    "work for an error": (
        "_order",
        "    if limit:\n        raise ValueError((x * 2 + 1 - 3 + x - 4 + x - 5 + x - 6).sum())\n",
        True,
    ),
    "work for a check that compiled code skips": (
        "_order",
        _CHECK.replace("if ", "if not torch.compiler.is_compiling() and "),
        True,
    ),
    "work": ("_order", "    x = (x * 2 + 1 - 3 + x - 4 + x - 5 + x - 6 + x) * 2\n", False),
    "a return before": ("_order", "    if limit:\n        return x\n", False),
    "a return of an inner function": (
        "_order",
        "    if limit:\n        def scaled(y):\n            return y * 2\n        x = scaled(x)\n",
        True,
    ),
}


@pytest.mark.parametrize("name", ASKS)
def test_what_other_files_may_call_is_known_by_its_name(name: str) -> None:
    called, body, left_out = ASKS[name]
    text = _ASKS.replace("NAME", called).replace("BODY", body)
    fix, after = offer(text, "PG301")
    assert fix is not None
    assert ("@torch.compiler.disable(recursive=False)" in after) is left_out, fix


KEPT = {
    "a number": "self.step = «found.sum().item()»",
    "in both arms": (
        "if len(found) > 1:\n    self.step = «found[1].item()»\n"
        "else:\n    self.step = «found[0].item()»"
    ),
    "under a name": "step = int(«found.max()»)\nself.step = step",
    "two of them": "self.low = «found.min().item()»\nself.step = «found.max().item()»",
    "one of them known": "self.low = 0\nself.step = «found.max().item()»",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_method_that_keeps_what_it_read_is_left_out(name: str) -> None:
    text = (
        "import torch\n\nclass Model(torch.nn.Module):\n"
        "    def look(self, found: torch.Tensor):\n"
        + textwrap.indent(KEPT[name], " " * 8)
        + "\n\n    def forward(self, x: torch.Tensor):\n        self.look(x.long())\n"
        "        return x * self.step\n"
    )
    fix, after = offer(text, "PG201")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    old, new = (module_of(each).Model() for each in (marked(text)[0], after))
    given = (torch.tensor([1.0, 2.0]),)
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given) == 1


TURNS = {
    "a list": "[«t.nonzero()» for t in x.split(2)]",
    "a set": "sorted({len(«t.nonzero()») for t in x.split(2)})",
    "by name": "{n: «t.nonzero()» for n, t in enumerate(x.split(2))}",
    "some": "[(n, «t.nonzero()») for n, t in enumerate(x.split(2)) if n]",
    "of two": "[«t.nonzero()» for t in x.split(2) for _ in range(2)]",
    "under the same name": "[«x.nonzero()» for x in x.split(2)]",
    "in a list": "[known[0], *[«t.nonzero()» for t in x.split(2)]]",
    "over lines": "[\n        «t.nonzero()»  # of each\n        for t in x.split(2)\n    ]",
}
_TURNING = """
import torch


def forward(x: torch.Tensor, known: torch.Tensor):
    found = TURNS
    return x * 2, found, known.sin()
"""


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("name", TURNS)
def test_a_comprehension_that_breaks_in_each_turn_is_moved(name: str, returned: bool) -> None:
    text = _TURNING.replace("TURNS", TURNS[name])
    if returned:
        text = text[: text.index("    return")].replace("found =", "return")
    fix, after = offer(text, "PG401")
    assert fix is not None
    assert (fix.rewrite, fix.applicability) == ("breaking_statements", "unsafe")
    assert after.count("@torch.compiler.disable\ndef _read_") == 1
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    given = (torch.tensor([1.0, 0.0, 2.0, 3.0]), torch.ones(2))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


@pytest.mark.parametrize(
    "turns",
    [
        "[«t.nonzero()» * torch.softmax(x, 0) for t in x.split(2)]",
        "[(lambda: «t.nonzero()»)() for t in x.split(2)]",
        "[(last := «t.nonzero()») for t in x.split(2)]",
        "list(«t.nonzero()» for t in x.split(2))",
        "[«t.nonzero()» for t in x.split(later)] if len(x) > 9 else [0]",
        "[k for k in range(len(«x.nonzero()»))]",
        "[seen if seen is not None else «t.nonzero()» for t in x.split(2)]",
    ],
)
def test_a_comprehension_that_does_more_stays(turns: str) -> None:
    text = _TURNING.replace("TURNS", turns).replace("known: ", "seen, known: ")
    if "later" in turns:
        text = text.replace("    found", "    if len(x) > 9:\n        later = 2\n    found")
    _, after = offer(text, "PG401")
    assert "def _read_" not in after


@pytest.mark.parametrize(
    ("decorator", "left_out"),
    [
        ("@staticmethod", True),
        ("@torch.no_grad()", True),
        ("@logged", True),
        ("@logged_as('drive')", True),
        ("@torch.jit.script", False),
        ("@torch.compile(dynamic=True)", False),
        ("@numba.njit", False),
        ("@script_if_tracing.script", False),
    ],
)
def test_decorators_stay_outside_unless_they_compile(decorator: str, left_out: bool) -> None:
    head = (
        "import functools\nimport torch\n\nseen = []\n\n\ndef logged(function):\n"
        "    @functools.wraps(function)\n    def call(*args):\n        return function(*args)\n"
        "    return call\n\n\ndef logged_as(name):\n    return logged\n\n\n"
    )
    text = head + (
        f"class Model(torch.nn.Module):\n    {decorator}\n    def drive(self, x: torch.Tensor):\n"
        "        if «x.max() > 9»:\n            seen.append(9)\n        return x * 2\n\n"
        "    def forward(self, x):\n        return self.drive(x.sin()).cos()\n"
    )
    text = text.replace("self, x: t", "x: t") if decorator == "@staticmethod" else text
    fix, after = offer(text, "PG301")
    assert fix is not None and bool(fix.edits) is left_out
    if left_out:
        assert f"{decorator}\n    @torch.compiler.disable(recursive=False)\n    def" in after
        old, new = (module_of(each).Model() for each in (marked(text)[0], after))
        given = (torch.tensor([1.0, 2.0]),)
        assert_same(run(old, given), run(new, given))
        assert breaks(old, given) > breaks(new, given) > 0


def test_an_element_by_an_input_of_the_region_costs_no_break() -> None:
    for body, left_out in (("return «x[flat]»", False), ("return «x[flat * 2]»", True)):
        text = _LITTLE.replace("BODY", f"    {body}").replace("(x.sin())", "(x.sin(), n)")
        text = text.replace("flat: bool = False", "flat").replace("forward(x: ", "forward(n, x: ")
        fix, after = offer(text, "PG407")
        assert ("disable(recursive=False)" in after) is left_out
        given = (torch.tensor(1), torch.ones(3))
        assert breaks(module_of(marked(text)[0]).forward, given) == (2 if left_out else 0)


def test_what_leaves_the_graph_whole_counts_for_nothing() -> None:
    text, spans = marked(_driver("two branches")[0])
    one, two = (finding(text, span, "PG301") for span in spans)
    one, two = (replace(each, consequences={"compile": "ok"}) for each in (one, two))
    offers = fix_text(text, [one, two])
    assert all(fix is not None and fix.applicability == "declined" for fix in offers)


@pytest.mark.parametrize("known", [True, False])
def test_calls_of_what_is_left_out_count(known: bool) -> None:
    body = "outside = torch.compiler.disable(helper)\nlow = outside(x)\nx = low + x * 2 - x.exp()\n"
    body += "x = x.sin() * x.cos() * x.tan()\nreturn «x[x > 1]» + outside(x)"
    text, spans = marked(_LITTLE.replace("BODY", textwrap.indent(body, "    ")))
    calls = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))
    spots = frozenset(span_of(each) for each in calls if ast.unparse(each) == "outside(x)")
    view = ProjectView(left_out=spots if known else frozenset())
    (fix,) = fix_text(text, [replace(finding(text, spans[0], "PG402"), view=view)])
    assert fix is not None
    assert (fix.rewrite == "breaking_function" and fix.applicability == "unsafe") is known
