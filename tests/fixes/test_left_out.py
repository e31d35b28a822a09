"""When leaving a function out of compiled code is safe: in a closed project where nothing but calls
meets it, and nothing is traced as a whole. Eager code stays what it was.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
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
def test_eager_code_stays_what_it_is(name: str, closed: bool) -> None:
    text, code = FORMS[name]
    fix, after = offer(text, code, closed=closed)
    assert fix is not None and fix.applicability == "unsafe"
    old, new = (module_of(each) for each in (marked(text)[0], after))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    old, new = (getattr(each, "Sampler", lambda each=each: each.forward)() for each in (old, new))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


def _fixed(folder: Path, *texts: str, unsafe: bool = False) -> list[str]:
    """The rewrites that are made in files of a closed project, which are written."""
    for number, text in enumerate(texts):
        (folder / f"file_{number}.py").write_text(text)
    runner = Runner(load(), {"regions": "all", "assume_closed": True})
    fixed = loop.fix_files(runner, runner.collect([str(folder)]), unsafe)
    for path, data in fixed.after.items():
        path.write_bytes(data)
    return [fix.rewrite for _, fix in fixed.applied]


@pytest.mark.parametrize("text", [READS, LOOPS])
def test_it_is_never_safe(text: str, tmp_path: Path) -> None:
    """What it computes is then what eager code computes, and not compiled any more."""
    assert not _fixed(tmp_path, marked(text)[0])
    assert _fixed(tmp_path, marked(text)[0], unsafe=True) == ["breaking_function"]


@pytest.mark.parametrize("kind", ["staticmethod", "classmethod"])
def test_a_method_without_self_is_one_too(kind: str, tmp_path: Path) -> None:
    text = marked(READS)[0].replace("    def index_of", f"    @{kind}\n    def index_of", 1)
    text = text.replace("(self, known", "(known" if kind == "staticmethod" else "(cls, known", 1)
    assert _fixed(tmp_path, text, unsafe=True) == ["breaking_function"]
    old, new = map(module_of, (text, (tmp_path / "file_0.py").read_text()))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    assert_same(run(old.Sampler(), given), run(new.Sampler(), given))
    assert breaks(new.Sampler(), given) == 1


@pytest.mark.parametrize("compiled", ["_halved", "self._halved", "other"])
def test_what_torch_compile_is_given_is_not_left_out(compiled: str, tmp_path: Path) -> None:
    text = marked(LOOPS)[0].replace("halved", "_halved")
    text += f"\n\ndef fast(self, other):\n    return torch.compile({compiled})\n"
    made = _fixed(tmp_path, text, unsafe=True)
    assert ("breaking_function" in made) is (compiled == "other")


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


@pytest.mark.parametrize(
    ("above", "put"),
    [
        ("# halves x\n# pyre-fixme[2]: more\n#  of it\n", 1),
        ("# pylint: disable-next=invalid-name\n", 0),
        ("# noqa: N802\n# type: ignore[misc]\n", 0),
        ("# mypy: ignore\n@staticmethod\n# pyright: ignore\n", 2),
        ("# pyright: ignore\n@staticmethod\n", 2),
        ("# halves x, of type: tensor\n", 1),
        ("    # pylint: enable=all\n", 1),
        ('TEXT = """\n# noqa: all"""\n', 2),
    ],
)
def test_what_a_comment_tells_a_tool_about_the_next_line_stays_there(above: str, put: int) -> None:
    _, after = offer(LOOPS.replace("def halved", f"{above}def halved"), "PG302")
    lines = above.splitlines(keepends=True)
    lines.insert(put, "@torch.compiler.disable(recursive=False)\n")
    assert f"import torch\n\n\n{''.join(lines)}def halved" in after
