"""Functions that are left out of compiled code: never safe, and eager code stays what it was."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import marked, offer

READS = """
import torch


class Sampler(torch.nn.Module):
    def index_of(self, known: torch.Tensor, t: torch.Tensor):
        found = (known == t).nonzero()
        return «found[0].item()»

    def forward(self, x: torch.Tensor, known: torch.Tensor):
        return x * self.index_of(known, known[1]) + known.sin()
"""
LOOPS = """
import torch


def halved(x: torch.Tensor):
    while «x.max() > 1»:
        x = x / 2
    return x


def forward(x: torch.Tensor, known: torch.Tensor):
    return halved(x.exp()) + known.sin()
"""
DRAWS = """
import random

import torch


def noise(seed):
    drawn = random.Random(«seed»).random()
    return drawn + random.Random(seed + 1).random()


def forward(x: torch.Tensor, known: torch.Tensor):
    return x * noise(3) + known.sin()
"""
FORMS = {"a read": (READS, "PG201"), "a loop": (LOOPS, "PG302"), "draws": (DRAWS, "PG506")}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("closed", [False, True])
def test_it_is_never_safe_and_eager_code_stays(name: str, closed: bool) -> None:
    text, code = FORMS[name]
    fix, after = offer(text, code, closed=closed)
    assert fix is not None and fix.applicability == "unsafe"
    assert "it runs as eager code" in fix.reason
    old, new = (module_of(each) for each in (marked(text)[0], after))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    old, new = (getattr(each, "Sampler", lambda each=each: each.forward)() for each in (old, new))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


def test_compiled_code_rounds_otherwise_than_what_is_left_out() -> None:
    """Why it is never safe: Inductor keeps float32 between operations in half precision."""
    text, code = FORMS["a loop"]
    text = text.replace("        x = x / 2\n", "        x = (x * 1.7 + 0.3) / 4.1\n")
    _, after = offer(text, code)
    x = torch.linspace(0.1, 3.0, 301).bfloat16()
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    found = [torch.compile(each)(x, x) for each in (old, new)]
    assert torch.equal(old(x, x), new(x, x)) and not torch.equal(*found)


def test_functions_made_inside_are_handed_over() -> None:
    """A comprehension that is moved may call what the function around it made or imported."""
    for line in ("def scale(n):\n        return n.nonzero()", "from torch import nonzero as scale"):
        text = (
            "import torch\n\n\ndef forward(x: torch.Tensor, known: torch.Tensor):\n"
            f"    {line}\n    rows = [len(«scale(row)») for row in known.split(2)]\n"
            "    return x * rows[0], known.sin()\n"
        )
        fix, after = offer(text, "PG401", closed=True)
        assert fix is not None and "_read_rows(scale, known)" in after
        old, new = (module_of(each).forward for each in (marked(text)[0], after))
        given = (torch.ones(2), torch.tensor([0.0, 1.0]))
        assert_same(run(old, given), run(new, given))


@pytest.mark.parametrize(
    ("matrix", "fixed"), [("adj", False), ("self.adj", True), ("mat1=self.adj, mat2=x", True)]
)
def test_a_sparse_argument_breaks_the_graph_where_it_is_handed_on(matrix: str, fixed: bool) -> None:
    text = f"""
        import torch

        class Layer(torch.nn.Module):
            def forward(self, x, adj):
                return self._spread(x * 2, adj) + 1

            def _spread(self, x, adj):
                for _ in range(3):
                    x = «torch.sparse.mm({matrix if "=" in matrix else matrix + ", x"})»
                return x
    """
    fix, _ = offer(text, "PG514")
    assert (fix is not None and fix.applicability == "unsafe") == fixed
