"""When leaving a function out of compiled code is safe: in a closed project that traces nothing
as a whole. Eagerly both versions are the same; that one was compiled is all that changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import edited, marked, offer

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
FORMS = {"a read": READS, "a loop": LOOPS, "draws": DRAWS}
CODES = {"a read": "PG201", "a loop": "PG302", "draws": "PG506"}


@pytest.mark.parametrize("name", FORMS)
def test_it_is_safe_where_nobody_traces_it_as_a_whole(name: str) -> None:
    text, code = FORMS[name], CODES[name]
    fix, after = offer(text, code, closed=True)
    assert fix is not None and fix.applicability == "safe", fix
    old, new = (module_of(each) for each in (marked(text)[0], after))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    old, new = (getattr(each, "Sampler", lambda each=each: each.forward)() for each in (old, new))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


@pytest.mark.parametrize("name", FORMS)
def test_it_is_unsafe_elsewhere(name: str) -> None:
    text, code = FORMS[name], CODES[name]
    for options in ({}, {"closed": True, "traced_whole": True}):
        fix, _ = offer(text, code, **options)
        assert fix is not None and fix.applicability == "unsafe"
        assert "torch.export and torch.jit.script do not see into it" in fix.reason


NEAR = {
    "frames": (LOOPS, "    return x\n", "    return x, sys._getframe(1).f_code.co_name\n"),
    "hyperparameters": (LOOPS, "    return x\n", "    return x, known.save_hyperparameters()\n"),
    "warns": (LOOPS, "        x = x / 2\n", "        x = x / 2\n        warnings.warn('half')\n"),
    "logs": (LOOPS, "        x = x / 2\n", "        x = x / 2\n        logger.info('half')\n"),
    "asks": (LOOPS, "x / 2", "x / (2 if torch.compiler.is_compiling() else 4)"),
    "asks by a name": (LOOPS, "x / 2", "x / (2 if is_compiling() else 4)"),
    "itself": (LOOPS, "    return x\n", "    return x if x.min() > 0 else halved(x + 1)\n"),
    "code": (LOOPS, "exp())", "exp()) * halved.__code__.co_argcount"),
    "a helper asks": (
        READS,
        "[0].item()",
        "[0].item() * 1\n\n    def __len__(self):\n        return torch.compiler.is_compiling()",
    ),
    "another file's": (DRAWS, "random()\n", "random() * elsewhere.scale(seed)\n"),
}


@pytest.mark.parametrize("name", NEAR)
def test_it_is_unsafe_where_something_could_see_it(name: str) -> None:
    text, old, new = NEAR[name]
    text = edited(text, old, new) if "»" in new else text.replace(old, new, 1)
    code = next(CODES[each] for each, known in FORMS.items() if known is NEAR[name][0])
    text = text.replace("import torch\n", "import torch\nimport elsewhere\n", 1)
    fix, _ = offer(text, code, closed=True)
    itself = fix is not None and "recursive=False" in fix.message  # what it calls is compiled
    assert fix is not None and (
        fix.applicability != "safe" or (name == "another file's" and itself)
    )


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


SHIPS = {
    "export": "import torch\n\n\ndef ship(m, x):\n    return torch.export.export(m, (x,))\n",
    "script": "import torch\n\n\ndef ship(m):\n    return torch.jit.script(m)\n",
    "whole": "import torch\n\n\ndef fast(m):\n    return torch.compile(m, fullgraph=True)\n",
}


@pytest.mark.parametrize("other", ["", *SHIPS])
def test_another_file_of_the_project_may_trace_it(other: str, tmp_path: Path) -> None:
    text = marked(READS)[0]
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "other.py").write_text(SHIPS.get(other, "import torch\n"))
    runner = Runner(load(), {"regions": "all", "assume_closed": True})
    made = loop.fix_files(runner, runner.collect([str(tmp_path)]), False).applied
    assert [fix.rewrite for _, fix in made] == ([] if other else ["breaking_function"])


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
