"""Programs in which readers found that a fix changes something: now the same before and after, or
left alone. What was wrongly safe has to be unsafe or declined.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, module_of, run

HEAD = "import torch\nfrom torch import Tensor, nn\n\n\n"
ROWS = "    rows = [int(each.sum().item()) for each in x]\n    return x * rows[0]\n"
SAME = {
    "a string that looks like comments stands above": (
        f'import torch\n\nTEXT = """\n# nothing\n# last"""\ndef forward(x: torch.Tensor):\n{ROWS}'
        "    return rows, len(TEXT)\n"
    ),
    "a form feed in a comment": (
        f"{HEAD}class Layer(nn.Module):\n    def forward(self, x: Tensor):\n        y = x * 2\n"
        "        rows = [int(v.sum().item()) for v in x]  # page\x0c        y = y * 0\n"
        "        return y * rows[0]\n\n\nforward = Layer()\n"
    ),
    "a generator that is used up later": (
        f"{HEAD}def forward(x: Tensor):\n    k = 1\n"
        "    rows = [(v.item() * k for v in w) for w in x]\n    k = 10\n"
        "    return x, [next(r) for r in rows]\n"
    ),
    "a name that match binds anew": (
        f"{HEAD}def forward(x: Tensor):\n    draw = torch.rand(1)\n    match [0, 0]:\n"
        "        case [draw, _]:\n            pass\n    if draw < 0.5:\n        x = x * 2\n"
        "    return x\n"
    ),
    "the comparison of a name that match binds anew": (
        f"{HEAD}class Layer(nn.Module):\n    def __init__(self, limit=4.0):\n"
        "        super().__init__()\n        self.limit = limit\n\n"
        "    def forward(self, x: Tensor):\n        total = x.sum()\n        match [1, 0]:\n"
        "            case [total, _]:\n                pass\n        over = self.limit < total\n"
        "        if over:\n            x = x * 2\n        else:\n            x = x + 1\n"
        "        return x\n\n\nforward = Layer()\n"
    ),
    "a name that another function makes global": (
        f"{HEAD}def remember(x: Tensor):\n    global _read_cols\n    _read_cols = x.shape[0]\n\n\n"
        "def forward(x: Tensor):\n    remember(x)\n"
        "    cols = [v.sum().item() for v in x]\n    return x, cols\n"
    ),
    "a class with an attribute called torch": (
        f"{HEAD}class Plan:\n    torch = 'none'\n\n    def _low(self, x: Tensor):\n"
        "        while x.sum() > 9:\n            x = x / 2\n        return x\n\n\n"
        "def forward(x: Tensor):\n    return Plan()._low(x)\n"
    ),
    "a line between two strings": (
        f'{HEAD}def g(*parts):\n    return parts\n\n\ndef forward(x: Tensor):\n    return g("""a\n'
        f'def""", x * torch.tensor(2.5, device=x.device), """ {"s" * 18} text (aaaa, bbbb)\n'
        '""")[1:]\n'
    ),
    "a line in a string that looks like two strings": (
        f"{HEAD}def g(*parts):\n    return parts\n\n\n"
        'def forward(x: Tensor):\n    return g("abc" """def"\n"a" (long text of words, and others '
        'that follow) "d""", torch.zeros(3).to(x.device)[0]\n    )\n'
    ),
}


def _fixed(text: str, folder: Path, unsafe: bool, closed: bool = True) -> str:
    path = folder / "program.py"
    path.write_text(text)
    runner = Runner(load(), {"regions": "all", "assume_closed": closed})
    after = loop.fix_files(runner, runner.collect([str(folder)]), unsafe).after
    return after.get(path, text.encode()).decode()


@pytest.mark.parametrize("name", SAME)
def test_unsafe_fixes_keep_what_they_do_not_speak_of(name: str, tmp_path: Path) -> None:
    text = SAME[name]
    old, new = (module_of(each) for each in (text, _fixed(text, tmp_path, True)))
    x = torch.arange(6.0).reshape(2, 3)
    assert_same(run(old.forward, (x,)), run(new.forward, (x,)))


def _loop(*lines: str) -> str:
    """A training loop with these lines in its body."""
    body = "".join(f"        {line}\n" for line in lines)
    return (
        "def train(model: nn.Module, data, optimizer, device: torch.device, n: int):\n"
        f"    for x, y in data:\n{body}        loss = (model(x) - y).sum()\n"
        "        loss.backward()\n        optimizer.step()\n"
    )


STAYS = {
    "a global device that a call sets": (
        "def switch():\n    global DEVICE\n    DEVICE = 'meta'\n\n\nDEVICE = 'cpu'\n\n\n"
        + _loop("ids = torch.arange(n)", "switch()", "ids = ids.to(device=DEVICE)")
    ),
    "an attribute that is set between": _loop(
        "ids = torch.arange(model.w.shape[0])", "model.w = y", "ids = ids.to(model.w.device)"
    ),
    "moved in each turn": _loop(
        "ids = torch.arange(n)", "kept = [ids.to(device, copy=True) for _ in range(2)]"
    ),
    "a view that is made without grad": (
        "def forward(x: Tensor, n: int):\n    with torch.no_grad():\n"
        "        m = torch.zeros(n).unsqueeze(0).to(x.device)\n    return m.add_(x)\n"
    ),
    "a range that a tracer refuses": (
        "def forward(x: Tensor):\n    return x + torch.range(0, 3, dtype=torch.long).to(x.device)\n"
    ),
    "numbers that the dtype may not hold": (
        "def forward(x: Tensor, n: int):\n    return torch.arange(n).to(x.device, torch.uint16)\n"
    ),
    "a call of full that is not whole": (
        "def forward(x: Tensor):\n    return torch.full().to(x.device)\n"
    ),
    "a flag that is named like a dtype": (
        "def forward(x: Tensor, keep_dtype: bool):\n"
        "    return torch.zeros(3).to(x.device, keep_dtype)\n"
    ),
    "a move that says how memory is laid out": (
        "def forward(x: Tensor):\n"
        "    return torch.zeros(2, 3, 4, 4).cuda(memory_format=torch.channels_last) + x\n"
    ),
    "a move to the GPU that does something": (
        "def forward(x: Tensor, seen: list):\n"
        "    return torch.zeros(3).cuda(non_blocking=seen.append(1)) + x\n"
    ),
    "arguments of the move that do something": (
        "def forward(x: Tensor, seen: list):\n"
        "    return torch.zeros(3).to(x.device, non_blocking=seen.append(1))\n"
    ),
    "a count that a trace knows": (
        "def forward(x: Tensor, n: int):\n    k = torch.tensor(n, device=x.device)\n"
        "    return range(int(k * torch.tensor(2, device=x.device)))\n"
    ),
    "a length that a trace knows": (
        "def forward(x: Tensor):\n    k = torch.tensor(len(x)) + torch.tensor(1, device=x.device)\n"
        "    return range(int(k))\n"
    ),
    "a number that is made like a tensor": (
        "def forward(x: Tensor):\n    k = x.new_tensor(3) + torch.tensor(1, device=x.device)\n"
        "    return range(int(k))\n"
    ),
    "a size of its elements": (
        "def forward(x: Tensor):\n    k = torch.tensor(x.element_size())\n"
        "    return range(int(k * torch.tensor(2, device=x.device)))\n"
    ),
    "a method of something else": (
        "def forward(x: Tensor, metric):\n    metric.add(x, torch.tensor(3.0, device=x.device))\n"
        "    return x\n"
    ),
    "a device that is computed by a call": (
        "def forward(x: Tensor, pick):\n    return torch.zeros(3).to(device=pick())\n"
    ),
    "a comment in brackets around the factory": (
        "def forward(x: Tensor):\n    return (\n        (  # rows\n            torch.zeros(3)\n"
        "        ).to(x.device)\n    )\n"
    ),
    "a comparison whose name has another type elsewhere": (
        "def forward(x: Tensor, o):\n    skip = torch.tensor(False)\n"
        "    for _ in range(2):\n        draw = torch.rand([])\n        skip = draw < o.p\n"
        "        if skip:\n            x = x * 2\n    if skip:\n        x = x + 1\n    return x\n"
    ),
    "infinity in a dtype that may have none": (
        "def forward(x: Tensor):\n"
        "    return x * torch.tensor(float('inf'), dtype=x.dtype, device=x.device)\n"
    ),
    "a draw with a second name": (
        "def forward(x: Tensor, o):\n    draw = keep = torch.rand(1)\n    keep -= 2\n"
        "    if draw < o.p:\n        return x\n    return x * 3\n"
    ),
    "a draw that is handed on in passing": (
        "def forward(x: Tensor, o, y: list):\n    y.append(draw := torch.rand(1))\n"
        "    if draw < o.p:\n        return x\n    return x * 3\n"
    ),
    "a draw that may not be made": (
        "def forward(x: Tensor, o, flag: bool):\n    if flag:\n"
        "        draw = torch.rand([])\n    if draw < o.p:\n        return x\n    return x * 3\n"
    ),
    "a draw that is matched anew": (
        "def forward(x: Tensor, y: list, o):\n    draw = torch.rand([])\n    match y:\n"
        "        case [draw, _]:\n            pass\n    if draw < o.p:\n        return x\n"
        "    return x * 3\n"
    ),
    "a draw in something that swallows errors": (
        "def forward(x: Tensor, o, q):\n    with q():\n        draw = torch.rand(1)\n"
        "    if draw < o.p:\n        return x\n    return x * 3\n"
    ),
    "a draw that an object of its own compares": (
        "def forward(x: Tensor, o, pool):\n    draw = torch.rand([])\n"
        "    if draw in pool:\n        x = x + 1\n"
        "    if draw < o.p:\n        return x\n    return x * 3\n"
    ),
    "a tracer may hand in the probability": (
        "def forward(x: Tensor, p: float):\n    draw = torch.rand([])\n    skip = draw < p\n"
        "    if x.requires_grad and skip:\n        return x\n    return x * 3\n"
    ),
}


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("name", STAYS)
def test_a_safe_fix_is_not_made(name: str, closed: bool, tmp_path: Path) -> None:
    text = f"{HEAD}{STAYS[name]}"
    assert _fixed(text, tmp_path, False, closed) == text


def test_a_probability_that_is_a_plain_attribute_is_asked_first(tmp_path: Path) -> None:
    body = "    draw = torch.rand([])\n    if draw < o.p:\n        return x\n    return x * 3\n"
    text = f"{HEAD}def forward(x: Tensor, o):\n{body}"
    assert _fixed(text, tmp_path, False, closed=False) == text
    assert "if o.p > 0 and draw < o.p:" in _fixed(text, tmp_path, False)


def test_an_import_of_torch_is_never_added_safely(tmp_path: Path) -> None:
    text = (
        "from torch import Tensor, tensor\n\n__all__ = ['f']\n\n\n"
        "def f(x: Tensor):\n    return x * tensor(2.5, device=x.device)\n"
    )
    assert _fixed(text, tmp_path, False) == text
    assert "import torch\n" in _fixed(text, tmp_path, True)


def test_torch_may_not_be_imported_where_a_call_may_not_ask_for_it(tmp_path: Path) -> None:
    text = (
        "from typing import TYPE_CHECKING\n\nfrom torch import Tensor, tensor\n\n"
        "if TYPE_CHECKING:\n    import torch\n\n\ndef f(x: Tensor, d: 'str | None' = None):\n"
        "    return x * tensor(2.5, device=x.device if d is None else torch.device(d))\n"
    )
    assert _fixed(text, tmp_path, False) == text
