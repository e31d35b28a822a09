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
    safe = closed and name != "draws"
    assert fix is not None and fix.applicability == ("safe" if safe else "unsafe")
    old, new = (module_of(each) for each in (marked(text)[0], after))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    old, new = (getattr(each, "Sampler", lambda each=each: each.forward)() for each in (old, new))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


NEAR = {
    "warns": (LOOPS, "        x = x / 2\n", "        x = x / 2\n        warnings.warn('half')\n"),
    "warns on the side": (
        LOOPS,
        "        x = x / 2\n",
        "        x = x / (warnings.warn('h') or 2)\n",
    ),
    "logs for its caller": (
        LOOPS,
        "        x = x / 2\n",
        "        x = x / 2\n        logger.info('half', stacklevel=2)\n",
    ),
    "asks": (LOOPS, "x / 2", "x / (2 if torch.compiler.is_compiling() else 4)"),
    "asks by another name": (
        LOOPS,
        "def halved",
        "ASKS = torch.compiler.is_compiling\n\n\ndef halved",
    ),
    "calls itself": (LOOPS, "    return x\n", "    return x if x.min() > 0 else halved(x + 1)\n"),
    "is decorated": (LOOPS, "def halved", "@torch.no_grad()\ndef halved"),
    "takes an array": (
        LOOPS,
        "halved(x: torch.Tensor",
        "halved(x: torch.Tensor, z: np.ndarray = ()",
    ),
    "makes an array": (LOOPS, "x.max() > 1", "x.detach().numpy().max() > 1"),
    "draws with numpy": (LOOPS, "x / 2", "x / (2 + np.random.rand())"),
    "is handed on": (LOOPS, "halved(x.exp())", "next(map(halved, [x.exp()]))"),
    "has attributes": (LOOPS, "halved(x.exp())", "halved(x.exp()) * halved.scale"),
    "is looked up": (READS, "self.index_of(", "getattr(self, 'index_of')("),
    "is of a class with a decorator": (READS, "class Sampler", "@register\nclass Sampler"),
    "is of a class with a metaclass": (READS, "nn.Module)", "nn.Module, metaclass=Meta)"),
}


def _safe(folder: Path, *texts: str) -> list[str]:
    """The rewrites that safe fixes make in files of a closed project, which are written."""
    for number, text in enumerate(texts):
        (folder / f"file_{number}.py").write_text(text)
    runner = Runner(load(), {"regions": "all", "assume_closed": True})
    fixed = loop.fix_files(runner, runner.collect([str(folder)]), False)
    for path, data in fixed.after.items():
        path.write_bytes(data)
    return [fix.rewrite for _, fix in fixed.applied]


@pytest.mark.parametrize("text", [READS, LOOPS])
def test_it_is_safe_where_only_calls_meet_the_function(text: str, tmp_path: Path) -> None:
    assert _safe(tmp_path, marked(text)[0]) == ["breaking_function"]


@pytest.mark.parametrize("said", ["print('half', x)", "logger.info('half')"])
def test_what_a_function_says_is_said_as_before(said: str, tmp_path: Path) -> None:
    text = marked(LOOPS)[0].replace("        x = x / 2\n", f"        x = x / 2\n        {said}\n")
    text = text.replace("import torch\n", "import logging\n\nimport torch\n", 1)
    text = text.replace("\n\n\n", "\n\nlogger = logging.getLogger(__name__)\n\n\n", 1)
    assert _safe(tmp_path, text) == ["breaking_function"]
    after = (tmp_path / "file_0.py").read_text()
    assert "@torch.compiler.disable" in after
    old, new = map(module_of, (text, after))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    assert_same(run(old.forward, given), run(new.forward, given))


@pytest.mark.parametrize("kind", ["staticmethod", "classmethod"])
def test_a_method_without_self_is_one_too(kind: str, tmp_path: Path) -> None:
    text = marked(READS)[0].replace("    def index_of", f"    @{kind}\n    def index_of", 1)
    text = text.replace("(self, known", "(known" if kind == "staticmethod" else "(cls, known", 1)
    assert _safe(tmp_path, text) == ["breaking_function"]
    old, new = map(module_of, (text, (tmp_path / "file_0.py").read_text()))
    given = (torch.ones(2), torch.tensor([0.0, 1.0]))
    assert_same(run(old.Sampler(), given), run(new.Sampler(), given))
    assert breaks(new.Sampler(), given) == 1


@pytest.mark.parametrize("name", NEAR)
def test_it_is_unsafe_where_something_may_see_it(name: str, tmp_path: Path) -> None:
    text, old, new = NEAR[name]
    assert old in text
    head = "import torch\nimport warnings\nimport numpy as np\n"
    text = marked(text)[0].replace(old, new, 1).replace("import torch\n", head, 1)
    assert "breaking_function" not in _safe(tmp_path, text)


OTHERS = {
    "exports": "import torch\n\n\ndef ship(m, x):\n    return torch.export.export(m, (x,))\n",
    "scripts": "import torch\n\n\ndef ship(m):\n    return torch.jit.script(m)\n",
    "scripts by another name": "import torch.jit as j\n\n\ndef ship(m):\n    return j.script(m)\n",
    "whole": "import torch\n\n\ndef fast(m):\n    return torch.compile(m, fullgraph=True)\n",
    "asserts": "import torch._dynamo as d\n\n\ndef f(m):\n    d.optimize_assert('eager')(m)\n",
    "settings": "import os, torch\n\nos.environ['TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS'] = '1'\n",
    "branches": "import torch\n\n\ndef f(p, a, b, x):\n    return torch.cond(p, a, b, (x,))\n",
    "branches by another name": "from torch import Tensor, cond\n\n\ndef f(*a):\n    cond(*a)\n",
    "branches later": "import torch\n\nchoose = torch.cond\n",
    "branches by a text": "import torch\n\nchoose = getattr(torch, 'cond')\n",
    "scans": "import torch\n\n\ndef f(*a):\n    return torch.ops.higher_order.scan(*a)\n",
    "scripts by a text": "import torch\n\nfast = getattr(torch.jit, 'script')\n",
    "scripts what it imports": "from torch.jit import *\n\nfast = script\n",
    "exports within": "from torch.export._trace import _export\n",
    "exports by a text": "import importlib\n\nE = importlib.import_module('torch.export').export\n",
    "splits": "from torch.distributed.pipelining import pipeline\n",
    "converts": "import torch_tensorrt\n\n\ndef f(m):\n    return torch_tensorrt.compile(m)\n",
    "cannot be parsed": "import torch\n\ntype Pair = [\n",
    "hands on": "from file_0 import halved\n\nALL = [halved]\n",
    "hands on by another name": "from file_0 import halved as h\n\nALL = [h]\n",
    "has its name in a table": "import file_0\n\nONE = [getattr(file_0, n) for n in ('halved',)]\n",
    "imports all": "from file_0 import *\n\nALL = [halved]\n",
    "looks": "import file_0\n\nNAMES = file_0.halved.__code__.co_varnames\n",
}


# What the base class of another file does, and whether its subclasses' methods stay unseen.
BASES = {
    "nothing": ("class Base(nn.Module):\n    pass\n", True),
    "abstract": ("import abc\n\n\nclass Base(nn.Module, metaclass=abc.ABCMeta):\n    pass\n", True),
    "metaclass": ("class Base(nn.Module, metaclass=Registry):\n    pass\n", False),
    "is told": (
        "class Base(nn.Module):\n    def __init_subclass__(cls):\n        see(cls)\n",
        False,
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_a_base_class_may_look_at_methods(name: str, tmp_path: Path) -> None:
    base, unseen = BASES[name]
    text = marked(READS)[0].replace("nn.Module)", "Base)", 1)
    text = text.replace("import torch\n", "import torch\nfrom file_1 import Base\n", 1)
    made = _safe(tmp_path, text, f"from torch import nn\n\n\n{base}")
    assert made == (["breaking_function"] if unseen else [])


def test_what_all_names_is_handed_to_nobody(tmp_path: Path) -> None:
    text = f"{marked(LOOPS)[0]}\n\n__all__ = ['forward', 'halved']\n"
    assert _safe(tmp_path, text) == ["breaking_function"]


@pytest.mark.parametrize("name", OTHERS)
def test_another_file_of_the_project_may_see_it(name: str, tmp_path: Path) -> None:
    assert not _safe(tmp_path, marked(LOOPS)[0], OTHERS[name])


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
