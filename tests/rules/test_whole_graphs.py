"""What is said of code as a graph of one piece, statement by statement, is what torch.compile does.

Each line is what the findings at it claim, under torch.compile and with ``fullgraph=True``, and a
statement over ``x`` (4 x 4), ``n`` (1-d, whole numbers) and ``i`` (0-d, 2), which are inputs.
"""

from __future__ import annotations

import textwrap
from types import ModuleType

import pytest
import torch

from tests.rules.conftest import lint_text

PROGRAM = """import numpy as np
import torch

TABLE = [0.1, 0.2, 0.3, 0.4]


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor, i: torch.Tensor):
        y = x.clone()
        out = []
{}
        return y, out
"""
STATEMENTS = """
break ok     y = y * int(n[0])
break error  y = y * TABLE[n[0]]
break error  y = y * TABLE[i - 1]
break error  y = y * TABLE[x[0].argmax()]
break ok     y = y * TABLE[int(i)]
break ok     out = [int(v) for v in n]
break error  out = sorted([int(v) for v in n])
break error  out = sorted([int(n[0]), n[1].item()])
break error  out = sorted((n[0].item(), 1))
break ok     out = max(int(n[0]), int(n[1]))
break error  out = {int(v) for v in n}
break error  out = {n[0].item(), 1}
break error  out = {n[0].item(): x}
break error  out = {int(v): x for v in n}
break ok     out = {"a": n[0].item()}
break error  for k in np.unique(n.numpy()): out.append(k)
break error  for k in np.flatnonzero(n.numpy()): out.append(k)
break ok     out = np.unique(n.numpy())
break error  for k in torch.unique(n): out.append(k)
break error  for j, k in enumerate(torch.unique(n)): out.append(k)
break error  for j, k in zip(*torch.where(x > 0)): out.append(k)
break error  out = [k + 1 for k in x[x > 0]]
break ok     out = torch.unique(n)
break error  u = torch.unique(n); out = [k + 1 for k in u]
break error  u = x[x > 0]; out = [u[k] for k in range(len(u))]
break ok     u = torch.unique(n); u = u.sum(); out = [u + k for k in range(3)]
break ok     u = torch.unique(n); out = [u, [k for k in n]]
break ok     y = y * len(torch.unique(n))
break error  for k in range(n[0].item()): y = y + 1
break ok     for k in x[n[0].item()]: y = y + 1
break error  y = x[n.argmax()]
break error  y = x[:, n.sum() - 6]
break error  k = n.argmax(); y = x[k]
break error  y[n.argmax()] = x[0]
break error  y[n.argmax()] = 0.0
break error  y[x.sum() > 0] = 0.0
break error  y[:, torch.any(x > 0)] = 0.0
break error  y[x.sum() > 0] = x
break error  y[x.sum() > 0] += 1.0
break error  y = y[x.sum() > 0]
break error  y = y * torch.fft.fftfreq(n[1], device=y.device)[0]
break error  y = y * torch.fft.rfftfreq(n[1], d=0.5, device=y.device)[0]
ok ok        y = y * torch.fft.fftfreq(x.shape[0], d=0.5, device=y.device)
break error  k = n[0].item(); y = y if k < 2 else y + 1
break error  k = n[0].item(); y = y if k else y + 1
break ok     k = n[0].item(); y = y * k
break error  y = y * {1: 2.0, 3: 4.0}[n[0].item()]
break error  y = y * torch.fft.rfftfreq(4, d=x[0, 0].item(), device=y.device)[0]
break ok     out = x.reshape(-1)[:7].split(n.tolist())
break ok     out = [part.sum() for part in x.reshape(-1)[:7].split(n.tolist())]
break ok     k = n[0].item(); y = y * (k < 2)
ok ok        y[x > 0] = 0.0
ok ok        y.masked_fill_(x.sum() > 0, 0.0)
break ok     y = y[x > 0]
"""


def _cases() -> list[tuple[str, str, str]]:
    found = (line.split(maxsplit=2) for line in STATEMENTS.strip().splitlines())
    return [(compiled, whole, statement) for compiled, whole, statement in found]


def _does(text: str, whole: bool) -> str:
    """What torch.compile makes of a program."""
    module = ModuleType("statement")
    exec(compile(text, "statement.py", "exec"), module.__dict__)
    given = torch.arange(16.0).reshape(4, 4) - 3, torch.tensor([1, 3, 1, 2]), torch.tensor(2)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        torch.compile(module.Model(), backend="eager", fullgraph=whole)(*given)
    except Exception:  # Dynamo's own, and what symbolic sizes raise
        assert whole
        return "error"
    finally:
        breaks = len(torch._dynamo.utils.counters["graph_break"])
        torch._dynamo.reset()
    return "break" if breaks else "ok"


@pytest.mark.parametrize(("compiled", "whole", "statement"), _cases())
def test_a_statement_in_a_graph_of_one_piece(compiled: str, whole: str, statement: str) -> None:
    text = PROGRAM.format(textwrap.indent(statement, " " * 8))
    said = [finding.consequences for finding in lint_text(text)]
    claims = {name: {each[name] for each in said} for name in ("compile", "fullgraph")}
    assert ("break" in claims["compile"], "error" in claims["fullgraph"]) == (
        compiled == "break",
        whole == "error",
    )
    assert (_does(text, False), _does(text, True)) == (compiled, whole)
