"""Claims of a graph break, spelling by spelling: what the linter says is what Dynamo does.

Each line of `break_spellings.txt` is a verdict and an expression over `x` (4 x 4), `t` (0-d, 2),
`n` (1-d, whole numbers) and `w` (takes gradients), all of them inputs on the device:

    break    Dynamo breaks the graph there, and a finding says so, and names the break as it does
    unnamed  the same, but the finding calls it something else
    ok       it does not, and no finding says so
    missed   it breaks, and no finding says so
    alarm    it does not break, but a finding says so
"""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType

import pytest
import torch

from benchmarks.lint_truth.device_breaks import as_on_device
from tests.rules.conftest import lint_text
from tests.rules.observe import graph_breaks

SPELLINGS = Path(__file__).with_name("break_spellings.txt").read_text().splitlines()
PROGRAM = """import copy, logging, math, os, random, time, uuid, warnings
import numpy as np
import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, t: torch.Tensor, n: torch.Tensor, w: torch.Tensor):
        y = x + 1
        z = {}
        return y, z
"""
LINE = 10


def _module(text: str, path: Path) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    module = ModuleType(path.stem)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def _run(spelling: str, path: Path, whole: bool = False) -> None:
    """Compile the program and call it; ``whole``: with fullgraph=True."""
    model = _module(PROGRAM.format(spelling), path).Model()
    counts = torch.tensor([1, 3] if "split" in spelling else [1, 3, 1, 1])
    torch._dynamo.reset()
    with as_on_device():
        compiled = torch.compile(model, backend="eager", fullgraph=whole)
        compiled(torch.randn(4, 4), torch.tensor(2), counts, torch.randn(3, requires_grad=True))
    torch._dynamo.reset()


def _breaks(spelling: str, folder: Path) -> set[str]:
    """The kinds of breaks that Dynamo reports at the spelling."""
    path = folder / "spelling.py"
    with graph_breaks(str(path)) as seen:
        _run(spelling, path)
    return {report.gb_type for report in seen.reports if report.line == LINE}


def _whole(spelling: str, folder: Path) -> str:
    """What fullgraph=True makes of it."""
    try:
        _run(spelling, folder / "whole.py", whole=True)
    except Exception:  # whatever it is, the user gets it
        torch._dynamo.reset()
        return "error"
    return "ok"


# What depends on where the number comes from, or on more than the finding knows: said wrongly.
NOT_KNOWN = {
    "n.tolist()",
    *("torch.randint(0, n.max(), (3,))", "x.narrow(0, n.min(), 1)"),
    *("torch.zeros(np.prod(x.shape))", "x.view(np.prod([2, 2]), -1)", "x[:np.prod([2, 2])]"),
    "int(np.prod([2, 2]))",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", SPELLINGS, ids=lambda row: row.split(None, 1)[1])
def test_a_break_is_claimed_where_the_graph_breaks(row: str, tmp_path: Path) -> None:
    verdict, spelling = row.split(None, 1)
    found = [
        finding
        for finding in lint_text(PROGRAM.format(spelling), torch.__version__)
        if finding.consequences["compile"] == "break" and finding.location.row == LINE
    ]
    claims = [finding.gb_type for finding in found]
    whole = {finding.consequences["fullgraph"] for finding in found}
    seen = _breaks(spelling, tmp_path)
    if verdict == "break":
        assert (_whole(spelling, tmp_path) in whole) == (spelling not in NOT_KNOWN)
    assert bool(claims) == (verdict in ("break", "unnamed", "alarm"))
    assert bool(seen) == (verdict in ("break", "unnamed", "missed"))
    assert bool(seen & set(claims)) == (verdict == "break")
