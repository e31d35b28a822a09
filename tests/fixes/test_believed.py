"""What only other files show: a call path is enough for an unsafe fix that says so, never for a
safe one, and who looks at functions makes leaving one out unsafe.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
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
    assert [fix.rewrite for _, fix in made] == ["breaking_function"]  # whatever `limit` is
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


DRAWS = """
import numpy as np
import torch
{imports}

{decorator}
def noise(count):
    total = 0.0
    for index in range(count):
        total += np.random.normal(){says}
    return total


@torch.compile
def step(x):
    return x + noise(3)
"""
LOOKING = {
    "its code": (
        "import draws\n\n\ndef names():\n    return draws.noise.__code__\n",
        {},
    ),
    "a decorator": (
        "def named(function):\n    function.arguments = function.__code__.co_varnames\n"
        "    return function\n",
        {"imports": "from looking import named", "decorator": "@named"},
    ),
    "a warning": (
        "import warnings\n\n\ndef old():\n    warnings.warn('old', stacklevel=3)\n",
        {"imports": "from looking import old", "says": "\n        old()"},
    ),
    "its caller": (
        "import sys\n\n\ndef caller():\n    return sys._getframe(2).f_code.co_name\n",
        {"imports": "from looking import caller", "says": "\n        print(caller())"},
    ),
    "nothing": ("import warnings\n\n\ndef old():\n    warnings.warn('old', stacklevel=2)\n", {}),
}


@pytest.mark.parametrize("how", LOOKING)
def test_what_another_file_looks_at_is_not_left_out_safely(how: str, tmp_path: Path) -> None:
    looking, parts = LOOKING[how]
    draws = DRAWS.format(**{"imports": "", "decorator": "", "says": "", **parts})
    made = _fixed(tmp_path, {"draws.py": draws, "looking.py": looking}, False).applied
    assert [fix.rewrite for _, fix in made] == ["breaking_function"] * (how == "nothing")
