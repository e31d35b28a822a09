"""Programs that a safe fix must not change: each is fixed as a whole file, with and without
``assume-closed``, and gives the same as before.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from pygraph_lint.files.sources import decode
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, module_of, run

_HEAD = "import random\n\nimport numpy as np\nimport torch\nfrom torch import nn\n\n\n"
_X = torch.ones(2, 3)
_FINITE = "if x.is_floating_point() and torch.isinf(x).any():\n    x = torch.clamp(x, -4.0, 4.0)\n"
_DROP = "draw = torch.rand([])\nif draw < {}:\n    x = x * 0\n"
_ROUNDED = "np.ceil(np.sqrt({})).astype(int).item()"
_COUNTING = "def {}(self{}):\n    self.asked += 1\n    return {}"


def _model(
    body: str, head: str = "x: torch.Tensor", init: str = "", more: str = "", above: str = ""
) -> str:
    """A module whose ``forward`` has this body."""
    parts = [("    ", more), ("        ", f"super().__init__()\n{init}"), ("        ", body)]
    more, init, body = (
        "\n".join(indent + line for line in text.splitlines()) for indent, text in parts
    )
    start = "    def __init__(self) -> None:\n"
    return (
        f"{_HEAD}{above}class Model(nn.Module):\n{start}{init}\n\n{more}\n\n"
        f"    def forward(self, {head}):\n{body}\n"
    )


def _counting(name: str, arguments: str = "", value: str = "0.9", decorator: str = "") -> str:
    return f"class Box:\n    asked = 0\n\n{decorator}" + "".join(
        f"    {line}\n" for line in _COUNTING.format(name, arguments, value).splitlines()
    )


_PROGRAMS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    # Of two errors, the first one stays the first.
    "size below zero, no tensor": (
        _model("return torch.zeros(n).to(x.device)", "n, x=None"),
        [(-1, None), (2, _X)],
    ),
    "a view that does not fit, no tensor": (
        _model("return torch.arange(6).view(n, 2).to(x.device)", "n: int, x"),
        [(4, None), (3, _X)],
    ),
    "no tensor in an attribute": (
        _model("return torch.arange(n).to(self.kept.device)", "n: int", "self.kept = None"),
        [(-4,), (4,)],
    ),
    "a factor too large, no tensor": (
        _model("return (torch.arange(4, dtype=torch.int8) * k).to(x.device)", "x, k: int"),
        [(None, 2**70), (_X, 3)],
    ),
    "an error between a factory and its move": (
        _model("rows = torch.arange(4)\nn = [1][k]\nreturn rows.to(x.device) + n", "x, k: int"),
        [(None, 3), (_X, 0)],
    ),
    "a shape that is asked for in a try": (
        _model(
            "try:\n    n = x.shape[0]\nexcept AttributeError:\n    n = 2\n"
            "return torch.zeros(k, n).to(x.device)",
            "x, k",
        ),
        [(None, -1), (_X, 2)],
    ),
    # What is called device need not be one.
    "a dtype called device": (
        _model("return torch.zeros(3).to(self.device)", init="self.device = torch.float64"),
        [(_X,)],
    ),
    "a tensor called device": (
        _model("return torch.zeros(3).to(self.device)", init="self.device = torch.ones(2).int()"),
        [(_X,)],
    ),
    "a tensor read through a walrus": (
        _model("y = (rows := torch.arange(3)).to(x.device)\nreturn y, rows"),
        [(_X,), (_X.to("meta"),)],
    ),
    # A probability is asked for once more only where that shows nowhere.
    "complex draws are not compared": (
        _model(
            "draw = torch.rand(1, dtype=torch.complex64)\nif draw < p:\n    x = x * 0\nreturn x",
            "x: torch.Tensor, p: float",
        ),
        [(_X, 0.0)],
    ),
    "a property that counts": (
        _model(
            _DROP.format("self.p") + "return x, self.asked",
            init="self.asked = 0",
            more="@property\n" + _COUNTING.format("p", "", "0.9"),
        ),
        [(_X,)],
    ),
    "a property of a part that counts": (
        _model(
            _DROP.format("self.box.p") + "return x, self.box.asked",
            init="self.box = Box()",
            above=_counting("p", decorator="    @property\n") + "\n\n",
        ),
        [(_X,)],
    ),
    "a comparison that counts": (
        _model(
            _DROP.format("self.p") + "return x, self.p.asked",
            init="self.p = Box()",
            above=_counting("__gt__", ", other", "True") + "\n\n",
        ),
        [(_X,)],
    ),
    "an attribute that is made up": (
        _model(
            _DROP.format("self.p") + "return x",
            more="def __getattr__(self, name):\n    if name == 'p':\n        print(name)\n"
            "        return 0.9\n    return super().__getattr__(name)",
        ),
        [(_X,)],
    ),
    "a probability of any kind": (
        _model(_DROP.format("p") + "return x", "x: torch.Tensor, p"),
        [(_X, 1j), (_X, [1]), (_X, torch.tensor([0.0, 0.1])), (_X, 0.9)],
    ),
    # Names that are listed, numbers that are negative.
    "names of the file": (
        _model(f"return {_ROUNDED.format('x.shape[0]')}, sorted(globals()) == NAMES")
        + "\n\nNAMES = sorted([*globals(), 'NAMES'])\n",
        [(_X,)],
    ),
    "a negative number": (
        _model(f"return {_ROUNDED.format('int(self.k)')}", init="self.k = -2"),
        [(_X,)],
    ),
    "the shape of an array": (_model("return int(np.max(x.shape))", "x"), [(_X,)]),
    # Somebody else holds the tensor that a guard would copy.
    "a hook that keeps what a layer gives": (
        _model(
            f"x = self.norm(x)\n{_FINITE}self.saved[0].add_(1)\nreturn x",
            init="self.norm = nn.LayerNorm(3)\nself.saved = []\n"
            "self.norm.register_forward_hook(lambda m, i, o: self.saved.append(o.detach()))",
        ),
        [(_X,)],
    ),
    "a dropout that gives its argument": (
        _model(f"x = self.drop(x)\n{_FINITE}return x", init="self.drop = nn.Dropout(0.0).eval()"),
        [(_X,), (_X.requires_grad_(),)],
    ),
    "a gradient that is kept": (
        _model(f"x = x.float() * 2\nx.retain_grad()\n{_FINITE}x.sum().backward()\nreturn x.grad"),
        [(torch.ones(2, 3, requires_grad=True),)],
    ),
    "a mark on a tensor": (
        _model(f"x = torch.softmax(x, -1)\nx.mark = 3\n{_FINITE}return x, x.mark"),
        [(_X,)],
    ),
    # A function that calls itself deeply.
    "deep calls": (
        _model(
            "return len(draws(700))",
            above="def draws(n):\n    found = np.zeros(3)\n    for i in range(3):\n"
            "        found[i] = np.random.normal()\n    if n:\n        draws(n - 1)\n"
            "    return found\n\n\n",
        ),
        [(_X,)],
    ),
}


def _fixed(text: str, folder: Path, closed: bool) -> str:
    path, settings = folder / "model.py", folder / "settings.toml"
    path.write_text(text)
    settings.write_text(f"assume-closed = {str(closed).lower()}\n")
    runner = Runner(rules=load(), overrides={}, config=settings)
    made = loop.fix_files(runner, runner.collect([str(path)]), False)
    return decode(made.after[path]).text if path in made.after else text


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("name", _PROGRAMS)
def test_safe_fixes_change_nothing(name: str, closed: bool, tmp_path: Path) -> None:
    text, calls = _PROGRAMS[name]
    fixed = _fixed(text, tmp_path, closed)
    for given in calls:
        seen = []
        for each in (text, fixed):
            module = module_of(each)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                seen.append((run(module.Model(), given), said))
        (before, said_before), (after, said_after) = seen
        assert_same(before, after)
        assert said_before.getvalue() == said_after.getvalue()


def test_an_export_knows_a_number_beside_an_attribute(tmp_path: Path) -> None:
    """``self.k`` is a constant of the export as long as the other number is one."""
    body = "t = torch.tensor(2, device=x.device)\nn = self.k * t\nreturn x[: int(n)]"
    text = _model(body, init="self.k = torch.tensor(1)")
    fixed = _fixed(text, tmp_path, False)
    made = torch.export.export(module_of(fixed).Model(), (_X.detach(),), strict=False)
    assert made.module()(_X.detach()).shape == (2, 3)
