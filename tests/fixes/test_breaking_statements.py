"""Statements beside each other that end the graph become one call."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pygraph_lint.analysis.queries.interface import ProjectView
from pygraph_lint.analysis.syntax.nodes import span_of
from pygraph_lint.findings import Fix
from pygraph_lint.fixes.engine.file_fixes import apply, fix_text
from pygraph_lint.fixes.engine.loop import fix_files
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import edited, finding, marked

MODEL = """
import torch
from torch import nn


@torch.compiler.disable
def sizes_of(z):
    return [len(z)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, rows: torch.Tensor):
        x = self.first(x)
BODY
        x = self.first(x)
        return x
"""
RANGE = """
        low = «x.min().item()»
        high = «x.max().item()»
        x = (x - low) / (high - low)
"""
# A call of what is left out already counts, and what is light stands in between.
CALL = """
        sizes = sizes_of(rows)
        count = len(sizes)  # of sizes
        # all of them
        total = «rows.sum().item()»
        x = x * total + count + sizes[0]
"""
LOOP = """
        total = 0
        for row in rows:
            total = total + «row.sum().item()»
            most = [
                «x.max().item()»,
                total,
            ]
        x = x * total + most[0]
"""
# What is set where it is needed first, or where a value asks for it.
FIRST = """
        if not hasattr(self, "known"):
            # only once
            self.known = sizes_of(rows)
        total = «rows.sum().item()»
        x = x * total + self.known[0]
"""
CHOICE = """
        seen = []
        if «x.max()» > 9:
            seen.append(1)
        elif len(rows) > 7:
            seen.append(2)
        else:
            seen.append(3)
        total = «rows.sum().item()»
        x = x * total + seen[0]
"""
THEN = """
        low = «x.min().item()»
        if low < 99 and len(rows):
            self.sizes = sizes_of(rows)
            self.low = low
        x = x - self.low + self.sizes[0]
"""
FORMS = {
    "a range": RANGE,
    "a call": CALL,
    "a loop": LOOP,
    "set at first": FIRST,
    "a choice": CHOICE,
    "set then": THEN,
}


def _offer(text: str) -> tuple[Fix | None, str]:
    """What is offered for the first marked place, where the checks know what is left out."""
    plain, spans = marked(text)
    calls = (each for each in ast.walk(ast.parse(plain)) if isinstance(each, ast.Call))
    named = (each for each in calls if ast.unparse(each.func) in ("sizes_of", "_read_sizes"))
    left_out = frozenset(map(span_of, named))
    view = ProjectView(left_out=left_out)
    found = [replace(finding(plain, span, "PG201"), view=view) for span in spans]
    fixes = fix_text(plain, found)
    usable = [each for each in fixes if each is not None and each.applicability != "declined"]
    return fixes[0], apply(plain, usable)[0]


def _model(form: str) -> str:
    return MODEL.replace("BODY\n", form.removeprefix("\n"))


@pytest.mark.parametrize("name", FORMS)
def test_they_become_one_call(name: str) -> None:
    before = _model(FORMS[name])
    fix, after = _offer(before)
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_statements", "unsafe")
    given = (torch.ones(3, 2), torch.tensor([[1, 2], [3, 4]]))
    old, new = (module_of(text).Model() for text in (marked(before)[0], after))
    assert_same(run(old, given), run(new, given))
    if name != "a loop":
        assert breaks(module_of(after).Model(), given) == 1
        assert breaks(module_of(marked(before)[0]).Model(), given) == 2


def test_comments_go_with_them_and_what_is_not_used_stays_there() -> None:
    _, after = _offer(_model(CALL))
    assert "    count = len(sizes)  # of sizes\n    # all of them\n    total = rows" in after
    assert "        sizes, count, total = _read_sizes(rows)\n" in after
    _, after = _offer(edited(_model(CALL), " + count + sizes[0]", ""))
    assert "        total = _read_total(rows)\n" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        high = «x.max().item()»\n", "        high = 2.0\n"),
        ("        high =", "        x = self.first(x)\n        high ="),
        ("        high =", "        x = x @ x.t() @ x\n        high ="),
        ("        high =", "        if len(x) > 9:\n            low = 0\n        high ="),
        ("        high =", "        later = lambda: low\n        high ="),
        ("        low =", "        later = lambda: low\n        low ="),
        ("«x.max().item()»", "max(super().__dir__(), «x.max().item()»)"),
        ("        high =", "        print(locals())\n        high ="),
        ("        return x", "        return x * eval('low')"),
        ("        low = ", "        low = '''\n  '''; low = "),
    ],
)
def test_what_is_not_beside_it_or_is_tied_to_its_place_stays(old: str, new: str) -> None:
    fix, _ = _offer(edited(_model(RANGE), old, new))
    assert fix is None or fix.rewrite != "breaking_statements" or fix.applicability == "declined"


def test_names_that_an_error_may_leave_without_a_value_stay() -> None:
    tried = RANGE.replace("        ", "            ").replace("\n", "\n        try:\n", 1)
    tried += "        except ValueError:\n            x = x * low\n"
    fix, _ = _offer(_model(tried))
    assert fix is None or fix.rewrite != "breaking_statements" or fix.applicability == "declined"


@pytest.mark.parametrize(
    ("manager", "moves"),
    [
        ("torch.no_grad()", True),
        ("contextlib.suppress(ValueError)", False),
        ("torch.no_grad(), self.held", False),
    ],
)
def test_a_context_manager_that_may_hold_an_error_back_keeps_them(
    manager: str, moves: bool
) -> None:
    body = RANGE.replace("        ", "            ").replace(
        "\n", f"\n        with {manager}:\n", 1
    )
    fix, _ = _offer("import contextlib\n" + _model(body))
    moved = fix is not None and fix.rewrite == "breaking_statements"
    assert (moved and fix.applicability != "declined") is moves


def test_what_another_file_leaves_out_counts(tmp_path: Path) -> None:
    texts = {
        "sizes.py": (
            "import torch\n\n\n@torch.compiler.disable\ndef sizes_of(z):\n    return [len(z)]\n"
        ),
        "model.py": (
            "import torch\nfrom torch import nn\n\nfrom sizes import sizes_of\n\n\n"
            "class Model(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
            "        sizes = sizes_of(x)\n        total = x.sum().item()\n"
            "        return x * total + sizes[0]\n\n\nmodel = torch.compile(Model())\n"
        ),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "settings.toml").write_text("")
    runner = Runner(rules=load(), overrides={}, config=tmp_path / "settings.toml")
    fixed = fix_files(runner, runner.collect([str(tmp_path)]), True)
    assert [fix.rewrite for _, fix in fixed.applied] == ["breaking_statements"]
    (after,) = fixed.after.values()
    assert b"        sizes, total = _read_sizes(x)\n" in after


def test_functions_made_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    ends = "low = x.min().item()\n        high = x.max().item()"
    text = "import torch\nfrom torch import nn\n"
    for name, more in (("One", ""), ("Two", " * 2")):
        text += (
            f"\n\nclass {name}(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
            f"        {ends}{more}\n        return x * (high - low)\n"
        )
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "settings.toml").write_text("")
    runner = Runner(rules=load(), overrides={}, config=tmp_path / "settings.toml")
    fixed = fix_files(runner, runner.collect([str(tmp_path)]), True)
    (after,) = fixed.after.values()
    names = ("_read_low", "_read_low_2")
    assert all(after.count(f"def {name}(x):".encode()) == 1 for name in names)
    module, x = module_of(after.decode()), torch.tensor([1.0, 3.0])
    assert module.One()(x).tolist() == [2.0, 6.0]
    assert module.Two()(x).tolist() == [5.0, 15.0]


def test_branches_that_a_call_may_pass_by_stay() -> None:
    """What each of them does is done in few calls: moved, the graph would end in all of them."""
    arms = """
        if len(rows) > 7:
            self.one = sizes_of(rows)
        if len(rows) > 8:
            self.two = [«rows.sum().item()»]
"""
    fix, _ = _offer(_model(arms))
    assert fix is None or fix.rewrite != "breaking_statements" or fix.applicability == "declined"


def test_a_call_of_what_was_made_so_stays() -> None:
    """A function that is left out would only be called by another one."""
    fix, _ = _offer(_model(CALL).replace("sizes_of", "_read_sizes"))
    assert fix is None or fix.rewrite != "breaking_statements" or fix.applicability == "declined"


@pytest.mark.parametrize("later", ["seen += 1", "del seen", "seen = seen + 1"])
def test_what_is_only_changed_afterwards_is_handed_back(later: str) -> None:
    reads = f"""
        low = «x.min().item()»
        seen = low + 1
        high = «x.max().item()»
        {later}
        x = x * low * high
"""
    fix, _ = _offer(_model(reads))
    assert fix is not None and fix.rewrite == "breaking_statements"
    assert any("return low, seen, high" in edit.content for edit in fix.edits)


def test_long_results_get_a_line_each() -> None:
    values = [f"a_value_of_x_that_is_number_{each}" for each in range(4)]
    reads = "".join(f"\n        {each} = «x.min().item()»" for each in values)
    _, after = _offer(_model(f"{reads}\n        x = x * {' * '.join(values)}\n"))
    inner = "".join(f"{{0}}    {each},\n" for each in values)
    assert f"    return (\n{inner.format('    ')}    )\n" in after
    assert f"        (\n{inner.format('        ')}        ) = _read_{values[0]}(x)\n" in after


def test_a_function_that_only_writes_is_named_by_what_it_writes_to() -> None:
    writes = """
        rows[0] = «x.max().item()»
        rows[1] = «x.min().item()» * self.scale
"""
    fix, _ = _offer(_model(writes))
    assert fix is not None and fix.rewrite == "breaking_statements"
    assert any("def _write_rows(self, rows, x):" in edit.content for edit in fix.edits)


def test_a_function_that_only_sets_attributes_is_named_by_the_first() -> None:
    sets = """
        self._low = «x.min().item()»
        self.high = «x.max().item()»
"""
    fix, _ = _offer(_model(sets))
    assert fix is not None and fix.rewrite == "breaking_statements"
    assert any("def _read_low(self, x):" in edit.content for edit in fix.edits)


def test_nothing_stands_behind_a_return_that_moves() -> None:
    returns = """
        for _ in range(3):
            if x.dim() > 1:
                x = x * «x.min().item()»
                return x * «x.max().item()»
            x = x + 1
"""
    fix, _ = _offer(_model(returns))
    assert fix is not None and fix.rewrite == "breaking_statements"
    assert any(edit.content.count("return ") == 1 and "def " in edit.content for edit in fix.edits)


def test_strings_of_several_lines_keep_their_spaces() -> None:
    reads = """
        low = «x.min().item()» + len("one\\
        two")
        high = «x.max().item()»
"""
    for text, moves in ((reads, False), (reads.replace("\\\n        two", " two"), True)):
        fix, _ = _offer(_model(text))
        moved = fix is not None and fix.rewrite == "breaking_statements"
        assert (moved and fix.applicability == "unsafe") == moves, text
