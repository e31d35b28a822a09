"""What other files call is left out of compiled code, and so are constructors."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import forget_modules, marked, offer

ENDS = {
    "a number": "return (t + known).max().item()",
    "a choice": "return known if t > 1 else kept",
    "rows": "return known[known > -9]",
    "a loop": "while t < 3:\n    t = t + known[0]\nreturn t",
    "two": "if t > 1:\n    kept.append(1)\nif known[0] > 5:\n    kept.append(2)\nreturn known",
}
INNER = "import torch\n\nkept = []\n\n\ndef inner(t: torch.Tensor, known: torch.Tensor):\n"
PASSES = {
    "a name": "found = inner(t, known)\nreturn found",
    "a little work": "return known * inner(t, known)",
    "in a loop": "for _ in range(2):\n    t = t + inner(t, known)\nreturn t * 2",
    "two calls": "low = inner(t, known)\nhigh = inner(t + 1, known)\nreturn low, high",
    "in a test": "if inner(t, known) is not None:\n    t = t + 1\nreturn t",
}
MUCH = " * 2 + ".join(f"x.{name}()" for name in "sin cos tan abs sinh cosh tanh neg".split())
MODEL = f"""
import torch
from passes import passes


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, known: torch.Tensor):
        y = {MUCH}
        return passes(y.sum(), known), {MUCH.replace("x", "y")}
"""
MODULES = ("inner", "passes", "model")


def _written(folder: Path, ends: str, passes: str) -> None:
    files = {
        "inner": INNER + textwrap.indent(ends, "    "),
        "passes": "import torch\nfrom inner import inner\n\n\ndef passes(t, known):\n"
        + textwrap.indent(passes, "    "),
        "model": MODEL,
    }
    for name, text in files.items():
        (folder / f"{name}.py").write_text(f"{text}\n")


def _fixed(folder: Path, **settings: object) -> loop.Fixed:
    runner = Runner(load(), {"regions": "all", **settings}, isolated=True)
    fixed = loop.fix_files(runner, runner.collect([str(folder)]), True)
    for path, data in fixed.after.items():
        path.write_bytes(data)
    return fixed


def _imported() -> ModuleType:
    forget_modules(MODULES)
    importlib.invalidate_caches()
    torch._dynamo.reset()
    return importlib.import_module("model")


GIVEN = (torch.tensor([0.25, 0.5]), torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("ends", ["rows", "a number"])
def test_what_calls_it_in_another_file_goes_with_it(folder: Path, ends: str, passes: str) -> None:
    _written(folder, ENDS[ends], PASSES[passes])
    old = _imported().Model()
    fixed = _fixed(folder)
    new = _imported().Model()
    texts = [(folder / f"{name}.py").read_text() for name in MODULES]
    assert ["@torch.compiler.disable" in text for text in texts] == [True, True, False]
    assert_same(run(old, GIVEN), run(new, GIVEN))
    before = breaks(old, GIVEN)
    torch._dynamo.reset()
    assert before > breaks(new, GIVEN) == 1
    assert not any(finding.code == loop.DISABLED_CALL for finding in fixed.findings)


@pytest.mark.parametrize("ends", ENDS)
def test_what_only_another_file_calls_is_left_out(folder: Path, ends: str) -> None:
    _written(folder, ENDS[ends], f"t = t + 1\ny = x = known\ny = {MUCH}\nreturn y, inner(t, known)")
    old = _imported().Model()
    _fixed(folder)
    new = _imported().Model()
    assert (folder / "inner.py").read_text().count("@torch.compiler.disable") == 1
    assert "disable" not in (folder / "passes.py").read_text()
    given = (torch.tensor([0.25, 0.5]), torch.tensor([1.0, 48.0]))
    assert_same(run(old, given), run(new, given))


SOME = "if known.sum() > 0:\n    kept.append(1)\nreturn (t * known).sin() + t.cos()"
LOOP = (
    "for row in known:\n    t = (t + 9).sin() * row.cos()\n    if row > 1:\n        kept.append(1)"
)
FURTHER = "\n\n    def further(self, t):\n        return t.tan()\n"
BOTH = "\n\n    def both(self, t, known):\n        return self.inner(t, known), t\n"
# What the method does, and what stands below it.
ALONE = {
    "a graph's work": (SOME, "", False),
    "one call more": (f"t = self.further(t)\n{SOME}", FURTHER, True),
    "called here, too": (SOME, BOTH, True),
    "in a loop": (f"{LOOP}\nreturn t", "", True),
    "as much as it asks": ("kept.append(known.max().item())\nreturn t + 1", "", True),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_method_that_users_may_compile_by_itself_stays(folder: Path, name: str) -> None:
    body, below, left_out = ALONE[name]
    _written(folder, "return t", f"y = x = known\ny = {MUCH}\nreturn y, Made().inner(t, known)")
    path = folder / "inner.py"
    head = (
        "import torch\n\nkept = []\n\n\nclass Made:\n    def inner(self, t: torch.Tensor, known):\n"
    )
    path.write_text(f"{head}{textwrap.indent(body, ' ' * 8)}{below}\n")
    caller = folder / "passes.py"
    caller.write_text(caller.read_text().replace("import inner\n", "import Made\n"))
    old = _imported().Model()
    _fixed(folder)
    assert ("disable" in path.read_text()) is left_out
    assert "disable" not in caller.read_text()
    assert_same(run(old, GIVEN), run(_imported().Model(), GIVEN))


def test_what_nothing_in_a_region_calls_stays(folder: Path) -> None:
    _written(folder, ENDS["a choice"], "return known")
    _fixed(folder)
    assert "disable" not in (folder / "inner.py").read_text()


def test_what_calls_what_was_left_out_before_stays(folder: Path) -> None:
    _written(folder, ENDS["rows"], PASSES["a little work"])
    text = (folder / "inner.py").read_text()
    (folder / "inner.py").write_text(
        text.replace("def inner", "@torch.compiler.disable\ndef inner")
    )
    assert not _fixed(folder).applied
    fixed = _fixed(folder, preview=True)  # who asks for the rule is offered its fix
    assert [finding.code for finding, _ in fixed.applied] == [loop.DISABLED_CALL]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_file_in_which_the_rule_is_ignored_stays(folder: Path, ignored: bool) -> None:
    _written(folder, ENDS["a choice"], PASSES["a name"])
    glob = "**/passes.py" if ignored else "**/other.py"
    fixed = _fixed(folder, per_file_ignores={glob: (loop.DISABLED_CALL,)})
    assert (folder / "inner.py") in fixed.after
    assert ((folder / "passes.py") in fixed.after) is not ignored
    assert all(finding.code != loop.DISABLED_CALL for finding in fixed.findings)


MADE = {
    "of Module": ("nn.Module", "super().__init__()\nself.scale = scale"),
    "with its name": ("nn.Module", "super(Scaled, self).__init__()\nself.scale = scale"),
    "of the class": ("nn.Module", "nn.Module.__init__(self)\nself.scale = scale"),
    "of its own base": ("Base", "super().__init__(scale)"),
    "with keywords": ("Base", "super(Scaled, self).__init__(scale=scale)"),
    "with a layer": ("nn.Module", "super().__init__()\nself.last = nn.ReLU()\nself.scale = scale"),
    "with much": (
        "nn.Module",
        "super().__init__()\nx = torch.ones(2)\n" + f"x = {MUCH}\n" * 2 + "self.scale = scale",
    ),
}
MAKES = """
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale


class Scaled(BASE):
    def __init__(self, scale):
BODY

    def forward(self, x):
        return x * self.scale


def forward(x: torch.Tensor, scale):
    scaled = Scaled(2.0)
    for _ in range(3):
        x = scaled(x)
        if x.sum() > 100:
            break
    return x
"""


@pytest.mark.parametrize("name", MADE)
def test_a_constructor_that_is_traced_alone_is_left_out(name: str) -> None:
    base, body = MADE[name]
    first = next(line for line in body.splitlines() if "__init__" in line)
    body = textwrap.indent(body.replace(first, f"«{first}»"), " " * 8)
    text = MAKES.replace("BASE", base).replace("BODY", body)
    fix, after = offer(text, "PG511")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    assert after.count("@torch.compiler.disable\n") == 1
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    given = (torch.ones(2), 2.0)
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given)


SIZED = "if {}:\n    known = known + known.max().item()\nreturn known"
PASSED = {
    "by default": ("t is None", "inner(t, known)", True),
    "given by name": ("size is None", "inner(t, known, size=3)", False),
    "given by place": ("size is None", "inner(t, known, 3)", False),
    "left to the default": ("size is None", "inner(t, known)", True),
    "a flag that is set": ("not flat", "inner(t, known, flat=True)", False),
    "a flag that is not": ("not flat", "inner(t, known)", True),
    "perhaps among others": ("size is None", "inner(t, *[known, 3])", False),
    "perhaps by name": ("size is None", "inner(t, known, **{'size': 3})", False),
    "handed on, but not given": ("size is None", "inner(t, known, size)", True),
    "handed on by name": ("size is None", "inner(t, known, size=size)", True),
    "worked out of what is handed on": ("size is None", "inner(t, known, size or 3)", False),
    "handed on, with another default": ("not flat", "inner(t, known, flat=whole)", False),
}


@pytest.mark.parametrize("name", PASSED)
def test_a_default_says_nothing_where_another_file_passes_a_value(folder: Path, name: str) -> None:
    test, call, left_out = PASSED[name]
    _written(folder, SIZED.format(test.replace("t is", "size is")), f"return {call}, {MUCH}")
    for file, old, new in (
        ("inner.py", "known: torch.Tensor):", "known: torch.Tensor, size=None, flat=False):"),
        (
            "passes.py",
            "def passes(t, known):",
            "def passes(t, known, size=None, whole=True):\n    x = known",
        ),
    ):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))
    _fixed(folder)
    assert ("@torch.compiler.disable" in (folder / "inner.py").read_text()) is left_out
