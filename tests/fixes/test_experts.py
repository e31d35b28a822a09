"""Loops over the experts that got tokens: all rows go through at once, run and compared.

Numbers are small, whole and positive, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pygraph_lint.fixes import blocks
from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked, offer

PLAIN = """
import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU()}


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 5
        self.up = nn.Parameter(torch.empty(5, 4, 3))
        self.down = nn.Parameter(torch.empty(5, 3, 2))
        self.act = ACTIVATIONS["relu"]

    def forward(self, x, index, scale):
        output = torch.zeros_like(x)
        with torch.no_grad():
            mask = torch.nn.functional.one_hot(index, num_classes=self.count)
            mask = mask.permute(2, 1, 0)
            # which experts are hit
            hit = «torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()»

        for expert in hit:
            # only one element
            expert = expert[0]
            # no such expert
            if expert == self.count:
                continue
            choice, token = torch.where(mask[expert])
            # the rows
            rows = x[token]
            gate, up = nn.functional.linear(rows, self.up[expert]).chunk(2, dim=-1)  # both
            y = nn.functional.linear(self.act(gate) * up, self.down[expert])
            y = y * scale[token, choice, None]
            output.index_add_(0, token, y.to(output.dtype))

        return output
"""

PLAIN_LOOP = """
            sizes = mask.sum(dim=(-1, -2))
            order = index.flatten().argsort(stable=True)

        token, choice = order // index.size(1), order % index.size(1)
        # the rows
        rows = x[token]
        gate, up = grouped_matmul(rows, self.up.transpose(1, 2), sizes).chunk(2, dim=-1)  # both
        y = grouped_matmul(self.act(gate) * up, self.down.transpose(1, 2), sizes)
        y = y * scale[token, choice, None]
        output.index_add_(0, token, y.to(output.dtype))

"""

PASSING = """
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 5
        self.routed = 3
        self.same = nn.Identity()
        self.up = nn.Parameter(torch.empty(5, 4, 3))
        self.down = nn.Parameter(torch.empty(3, 3, 2))
        self.act = nn.ReLU()

    def forward(self, x, index, scale):
        output = torch.zeros_like(x)
        mask = F.one_hot(index, num_classes=self.count).permute(2, 1, 0)
        hit = «torch.nonzero(mask.sum((1, 2)) > 0)»
        for number in hit:
            expert = int(number.item())
            choice, token = torch.where(mask[expert].squeeze(0))
            if token.numel() == 0:
                continue

            if expert >= self.routed or self.up is None:
                y = self.same(x[token])
            else:
                gate, up = F.linear(x[token], self.up[expert]).chunk(2, dim=-1)
                y = self.act(gate) * up
                y = F.linear(y, self.down[expert])

            output.index_add_(0, token, y * scale[token, choice, None])
        return output
"""

PASSING_LOOP = """
        sizes = mask.sum((1, 2))
        order = index.flatten().argsort(stable=True)
        token, choice = order // index.size(1), order % index.size(1)
        expert = index.flatten()[order]

        if self.up is None:
            y = self.same(x[token])
        else:
            gate, up = grouped_matmul(
                x[token], self.up[: self.routed].transpose(1, 2), sizes
            ).chunk(2, dim=-1)
            y = self.act(gate) * up
            y = grouped_matmul(y, self.down[: self.routed].transpose(1, 2), sizes)
            y = torch.where((expert >= self.routed)[:, None], self.same(x[token]), y)

        output.index_add_(0, token, y * scale[token, choice, None])
"""

HELD = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.empty(5 * 3, 2))
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        \"\"\"Two products.\"\"\"
        y = self.act(x @ one)
        return y.matmul(two.t())


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x, index, scale):
        output = torch.zeros_like(x)
        mask = torch.nn.functional.one_hot(index, num_classes=5).permute(2, 1, 0)
        hit = «torch.gt(mask.sum(dim=(-2, -1)), 0).nonzero(as_tuple=False)»
        for expert in hit:
            expert = expert[0]
            with torch.no_grad():
                choice, token = torch.where(mask[expert])
            w = self.layer.w.view(5, 3, 2)[expert]
            y = self.layer(x[token], w, w)
            output.index_add_(0, token, y * scale[token, choice, None])
        return output
"""

HELD_LOOP = """
        sizes = mask.sum(dim=(-2, -1))
        order = index.flatten().argsort(stable=True)
        token, choice = order // index.size(1), order % index.size(1)
        w = self.layer.w.view(5, 3, 2)
        y = self.layer(x[token], w, w, sizes)
        output.index_add_(0, token, y * scale[token, choice, None])
"""


def _helper() -> str:
    return blocks.HELPER.lstrip()


def _after(before: str, loop: str, end: str = "        return output") -> str:
    """The source with the helper in front of its first class, and the loop written otherwise."""
    text = marked(before)[0]
    lines = text.splitlines(keepends=True)
    first = next(row for row, line in enumerate(lines) if "hit = " in line)
    first -= "#" in lines[first - 1]
    start = sum(map(len, lines[:first]))
    kept = "            # which experts are hit" if "#" in lines[first] else ""
    text = text[:start] + kept + loop.lstrip("\n" if not kept else "") + text[text.index(end) :]
    return text.replace("class ", f"{_helper()}\n\nclass ", 1)


def _held_after() -> str:
    text = _after(HELD, HELD_LOOP)
    text = edited(
        text,
        "self, x: torch.Tensor, one: torch.Tensor, two: torch.Tensor)",
        "\n        self,\n        x: torch.Tensor,\n        one: torch.Tensor,\n"
        "        two: torch.Tensor,\n        sizes: torch.Tensor,\n    )",
    )
    text = edited(text, "x @ one", "grouped_matmul(x, one, sizes)")
    return edited(text, "y.matmul(two.t())", "grouped_matmul(y, two.transpose(1, 2), sizes)")


CASES = {
    "plain": (PLAIN, _after(PLAIN, PLAIN_LOOP)),
    "passing": (PASSING, _after(PASSING, PASSING_LOOP)),
    "held": (HELD, _held_after()),
}


@pytest.mark.parametrize("name", CASES)
def test_all_experts_are_multiplied_at_once(name: str) -> None:
    before, after = CASES[name]
    fix = expect(before, after, "PG401", "unsafe")
    assert "rounded" in fix.reason


def _model(text: str) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A function of the input, the index, the scale and the parameters, and values for those."""
    model = module_of(text).Experts()
    names = [name for name, _ in model.named_parameters()]
    values = [torch.randint(1, 4, it.shape).double() for it in model.parameters()]

    def forward(*given: torch.Tensor) -> Any:
        arguments, parameters = given[:3], given[3:]
        state = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, state, arguments)

    return forward, [value.requires_grad_() for value in values]


def _inputs(index: list[tuple[int, int]]) -> tuple[torch.Tensor, ...]:
    rows = len(index)
    x = torch.randint(1, 4, (rows, 3)).double().requires_grad_()
    scale = torch.randint(1, 4, (rows, 2)).double().requires_grad_()
    return x, torch.tensor(index, dtype=torch.long).view(rows, 2), scale


_CHOICES = st.tuples(st.integers(0, 4), st.integers(0, 4))


@pytest.mark.parametrize("name", CASES)
@FEW
@given(index=st.lists(_CHOICES, max_size=9), seed=st.integers(0, 9))
def test_experts_compute_the_same(name: str, index: list[tuple[int, int]], seed: int) -> None:
    torch.manual_seed(seed)
    before, after = CASES[name]
    old, parameters = _model(marked(before)[0])
    new, _ = _model(after)
    # Where no token goes to any matrix, its gradient is zero and no longer None.
    arguments = (*_inputs([*index, (0, 1)]), *parameters)
    seen = run(old, arguments)
    assert seen.error is None
    assert_same(seen, run(new, arguments))
    assert_same(seen, run(compiled(new), arguments))


@pytest.mark.parametrize("name", CASES)
def test_no_break_is_left(name: str) -> None:
    before, after = CASES[name]
    old, parameters = _model(marked(before)[0])
    new, _ = _model(after)
    arguments = (*_inputs([(3, 1), (0, 1), (4, 4)]), *parameters)
    assert breaks(old, arguments) > 0
    assert breaks(new, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("hit = «torch.greater(mask.sum", "hit = «torch.less(mask.sum", ""),
        ("mask.sum(dim=(-1, -2)), 0)", "mask.sum(dim=(-1, -2)), 1)", ""),
        ("mask.sum(dim=(-1, -2))", "mask.sum(dim=(-1, -3))", ""),
        ("mask.permute(2, 1, 0)", "mask.permute(2, 0, 1)", ""),
        ("index, num_classes=self.count", "index.abs(), num_classes=self.count", ""),
        ("index, num_classes=self.count", "index", ""),
        ("return output", "return output, hit", ""),
        ("torch.where(mask[expert])", "torch.where(mask[0])", "more than compute rows"),
        ("rows = x[token]", "rows = x[choice]", "not be the same in every turn"),
        ("rows = x[token]", "rows = x[None, token]", "not be the same in every turn"),
        ("rows = x[token]", "rows = x[expert]", "no tensor of rows"),
        ("rows = x[token]", "rows = x[token].sum(0)", "may not treat each row alone"),
        ("rows = x[token]", "rows = x[token] / token.numel()", "each row alone"),
        ("rows = x[token]", "rows = x[token] * len(token)", "each row alone"),
        ("rows = x[token]", "rows = x[token] + torch.rand(3)", "in every turn"),
        ("rows = x[token]", "print(x)\n            rows = x[token]", "more than compute rows"),
        ("y * scale[token, choice, None]", "y * scale[token, choice, 0]", "in every turn"),
        ("y * scale[token, choice, None]", "y * expert", "goes into arithmetic"),
        ("rows = x[token]", "rows = x[token] + y", "of the turn before"),
        (".chunk(2, dim=-1)", ".chunk(2, dim=0)", "more than compute rows"),
        (".chunk(2, dim=-1)", ".chunk(2)", "more than compute rows"),
        ("rows, self.up[expert])", "rows, self.up[0])", "not a matrix of the group"),
        ("rows, self.up[expert])", "rows, self.up[expert], self.bias)", "in every turn"),
        ("output.index_add_(0, token", "output.index_add_(1, token", "adding its rows"),
        ("output.index_add_(0, token", "output.index_copy_(0, token", "adding its rows"),
        ("output.index_add_(0, token", "output.index_add_(0, choice", "adding its rows"),
        ("torch.zeros_like(x)", "x", "turns may read output"),
        ("mask = mask.permute", "index.clamp_(0)\n            mask = mask.permute", "taken out"),
        ("import torch\n", "import torch\n\ngrouped_matmul = None\n", "means something else"),
    ],
)
def test_other_loops_stay(old: str, new: str, reason: str) -> None:
    decline(edited(PLAIN, old, new), "PG401", reason)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("expert >= self.routed", "expert < self.routed", "large number"),
        ("expert >= self.routed or", "expert >= self.routed and", "large number"),
        ("or self.up is None", "or token.numel() > 3", "each row alone"),
        ("y = self.same(x[token])", "y = self.same(gate)", "turn before"),
        ("                y = self.same(x[token])", "                z = x[token]", "one name"),
        ("y = self.act(gate) * up", "print(up)", "one name"),
    ],
)
def test_other_branches_stay(old: str, new: str, reason: str) -> None:
    decline(edited(PASSING, old, new), "PG401", reason)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("two: torch.Tensor)", "two=None)", "more than rows and matrices"),
        ("two: torch.Tensor)", "*two)", "more than rows and matrices"),
        ("(x[token], w, w)", "(x[token], one=w, two=w)", "more than rows and matrices"),
        ("self.act(x @ one)", "self.act(x @ one).sum(0)", "may not treat each row alone"),
        ("y = self.act", "print(x)\n        y = self.act", "more than compute rows"),
        ("return y.matmul(two.t())", "return one", "no tensor of rows"),
        ("y = self", "sizes = self", "means something else"),
        ("= Layer()", "= Layer(1).half()", "not seen here"),
    ],
)
def test_other_modules_stay(old: str, new: str, reason: str) -> None:
    decline(edited(HELD, old, new), "PG401", reason)


def test_the_output_may_be_called_something_else_afterwards() -> None:
    changed = edited(
        PLAIN, "        return output\n", "        output = output * 2\n        return output\n"
    )
    fix, text = offer(changed, "PG401")
    assert fix is not None
    assert fix.applicability == "unsafe", fix.reason
    assert "for expert in hit" not in text
    inside = edited(PLAIN, "            # the rows\n", "            output = output * 2\n")
    decline(inside, "PG401", "")


def test_two_loops_share_the_helper() -> None:
    again = PLAIN.split("\n\n\n", 1)[1].replace("class Experts", "class Others")
    after = _after(PLAIN, PLAIN_LOOP)
    other = after[after.index("class Experts") :].replace("class Experts", "class Others")
    expect(f"{PLAIN}\n\n{again}", f"{after}\n\n{other}", "PG401", "unsafe")
