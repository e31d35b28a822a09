"""What only a call path shows: enough for an unsafe fix that says so, never for a safe one."""

from __future__ import annotations

import textwrap
from pathlib import Path

import torch

from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.interprocedural.proof import along, path_of
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import breaks, module_of, run

HELPER = """
import torch


def positive(limit, value):
    if limit > 0:
        value = value * 2
    return value
"""
CALLER = """
import torch
from helper import positive


class Model(torch.nn.Module):
    def forward(self, x):
        return positive(x.sum(), x.abs())
"""


def _fixed(folder: Path, files: dict[str, str], unsafe: bool) -> loop.Fixed:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    runner = Runner(load(), {"regions": "all", "assume_closed": True})
    return loop.fix_files(runner, runner.collect([str(folder)]), unsafe)


def test_a_parameter_is_what_a_call_path_passes(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"helper.py": HELPER, "model.py": CALLER}, True)
    ((_, fix),) = fixed.applied
    assert fix.applicability == "unsafe"
    assert "`limit`, `value` must be a tensor" in fix.reason
    after = module_of(fixed.after[tmp_path / "helper.py"].decode()).positive
    before = module_of(HELPER).positive
    for sign in (1.0, -1.0):
        arguments = (torch.tensor(sign), torch.ones(3))
        assert torch.equal(run(before, arguments).outputs[0], run(after, arguments).outputs[0])
    assert breaks(before, arguments) > breaks(after, arguments) == 0


def test_safe_fixes_do_not_rest_on_call_paths(tmp_path: Path) -> None:
    made = _fixed(tmp_path / "two", {"helper.py": HELPER, "model.py": CALLER}, False).applied
    assert not made
    alone = _fixed(tmp_path / "one", {"helper.py": HELPER}, True)
    assert not alone.applied


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    """A number by its annotation is not made a tensor by one caller who passes one."""
    annotated = textwrap.dedent(HELPER).replace("limit, value", "limit: int, value")
    made = _fixed(tmp_path, {"helper.py": annotated, "model.py": CALLER}, True).applied
    assert {fix.rewrite for _, fix in made} <= {"breaking_function"}  # leaves it as it is


def test_an_assumption_does_not_grow_for_ever() -> None:
    """A property that gives an object with the same property leads nowhere."""
    held = Need("param", "f", "x")
    longer = along(held, (".inv",) * 6)
    assert longer is not None
    assert along(held, (*path_of(longer), ".inv")) is None
