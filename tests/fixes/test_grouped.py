"""Rows of several groups times a matrix for each: multiplied in blocks, run and compared.

Numbers are small, whole and positive, so that sums are exact in any order (no zero has a sign).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pygraph_lint.fixes import blocks
from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

MODEL = """
import torch
import torch.nn.functional as F
from torch import nn


# copied from elsewhere
class Experts(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(count, 3, size))
        self.count = count

    def forward(self, inputs, expert_size):
        parts = inputs.split(expert_size, dim=0)
        results = []
        for i in range(self.count):
            results.append(F.linear(parts[i], self.weight[i]))
        joined = torch.cat(results, dim=0)
        return joined


class Router(nn.Module):
    def forward(self, choice):
        order = choice.argsort(stable=True)
        expert_size = torch.stack([(choice == i).sum() for i in range(4)])

        # Dynamo breaks
        # here
        expert_size = «expert_size.tolist()»

        return order, expert_size, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()
        self.experts = Experts(4, 5)

    def forward(self, x, choice):
        order, expert_size, _ = self.router(choice)
        topology = (order, expert_size)
        order, expert_size = topology
        rows = self.experts(x[order], expert_size)
        return torch.zeros_like(rows).index_add(0, order, rows)
"""

SLICES = '''
import torch


def product(rows, weights, sizes):
    """Rows times the weight of their group."""
    count = rows.shape[0]
    width = weights.shape[-1]
    output = torch.zeros(count, width, dtype=rows.dtype)

    ends = torch.cumsum(sizes, dim=0)
    # from nothing
    zero = torch.zeros(1, dtype=torch.long, device=ends.device)
    ends = torch.cat((zero, ends))

    for i in range(weights.shape[0]):
        start = ends[i]
        end = ends[i + 1]
        part = rows[«start»:end]

        result = torch.matmul(part, weights[i])
        output[start:end] = result
    return output


def forward(rows, weights, sizes):
    return product(
        rows,
        weights,
        sizes.cpu(),
    )
'''


def _helper() -> str:
    return blocks.HELPER.lstrip()


def _split_after() -> str:
    text = marked(MODEL)[0].replace("# copied", f"{_helper()}\n\n# copied")
    start, end = text.index("        parts ="), text.index("        return joined")
    call = "joined = grouped_matmul(inputs, self.weight.transpose(1, 2), expert_size)"
    text = f"{text[:start]}        {call}\n{text[end:]}"
    gone = "        # Dynamo breaks\n        # here\n        expert_size = expert_size.tolist()\n\n"
    assert gone in text
    return text.replace(gone, "")


def _slices_after() -> str:
    text = marked(SLICES)[0].replace("def product", f"{_helper()}\n\ndef product")
    start, end = text.index("    count = rows.shape"), text.index("    return output")
    call = "    output = grouped_matmul(rows, weights, sizes)\n"
    return f"{text[:start]}{call}{text[end:]}".replace("sizes.cpu()", "sizes")


def test_a_split_by_sizes_of_another_module_becomes_blocks() -> None:
    fix = expect(MODEL, _split_after(), "PG203", "unsafe")
    assert "as a tensor" in fix.reason


def test_slices_by_offsets_become_blocks() -> None:
    fix = expect(SLICES, _slices_after(), "PG407", "unsafe")
    assert "rounded" in fix.reason


def test_the_helper_is_written_once() -> None:
    text = (
        _slices_after()
        + marked(SLICES)[0]
        .replace("def product", "def other")
        .replace("part = rows[start:end]", "part = rows[«start»:end]")
        .split("import torch\n")[1]
        .split("def forward")[0]
    )
    expect(text, marked(text)[0].replace(*_loop_to_call(marked(text)[0])), "PG407", "unsafe")


def _loop_to_call(text: str) -> tuple[str, str]:
    """The body of the second function, and what becomes of it."""
    behind = text.index("def other")
    start, end = (
        text.index("    count = rows.shape", behind),
        text.index("    return output", behind),
    )
    return text[start:end], "    output = grouped_matmul(rows, weights, sizes)\n"


def _model(text: str, weight: torch.Tensor) -> Callable[..., Any]:
    """A function of the input, the choice and the weight, all of which get gradients."""
    model = module_of(text).Model()

    def forward(x: torch.Tensor, choice: torch.Tensor, weight: torch.Tensor) -> Any:
        return torch.func.functional_call(model, {"experts.weight": weight}, (x, choice))

    return forward


@FEW
@given(choice=st.lists(st.integers(0, 3), max_size=12), seed=st.integers(0, 9))
def test_experts_compute_the_same(choice: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    weight = torch.randint(1, 5, (4, 3, 5)).double().requires_grad_()
    x = torch.randint(1, 5, (len(choice), 5)).double().requires_grad_()
    arguments = (x, torch.tensor(choice, dtype=torch.long), weight)
    seen = run(_model(marked(MODEL)[0], weight), arguments)
    new = _model(_split_after(), weight)
    assert seen.error is None
    assert_same(seen, run(new, arguments))
    assert_same(seen, run(compiled(new), arguments))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@FEW
@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6), columns=st.integers(1, 3))
def test_slices_compute_the_same(dtype: torch.dtype, sizes: list[int], columns: int) -> None:
    rows = torch.randint(1, 5, (sum(sizes), columns)).to(dtype).requires_grad_()
    weights = torch.randint(1, 5, (len(sizes), columns, 2)).to(dtype).requires_grad_()
    old, new = module_of(marked(SLICES)[0]).forward, module_of(_slices_after()).forward
    seen = run(old, (rows, weights, torch.tensor(sizes)))
    assert seen.error is None
    assert_same(seen, run(new, (rows, weights, torch.tensor(sizes))))


@pytest.mark.parametrize("transposed", [False, True])
@FEW
@given(sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_torchs_kernel_computes_the_same(transposed: bool, sizes: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    helper = module_of(f"import torch\n\n\n{_helper()}").grouped_matmul
    weights = torch.randn(len(sizes), 16, 8, dtype=torch.bfloat16)
    if transposed:
        weights = weights.transpose(1, 2).contiguous().transpose(1, 2)
    arguments = (torch.randn(sum(sizes), 16, dtype=torch.bfloat16), weights, torch.tensor(sizes))
    used: list[int] = []
    kernel = torch.nn.functional.grouped_mm

    def counted(*given: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        used.append(1)
        return kernel(*given, offs=offs)

    loop = run(module_of(marked(SLICES)[0]).forward, arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "grouped_mm", counted)
        assert_same(loop, run(helper, arguments))
    assert used
    assert_same(loop, run(compiled(helper), arguments))


@pytest.mark.parametrize(
    ("dtype", "columns", "learns"),
    [
        (torch.float32, 16, False),
        (torch.bfloat16, 15, False),
        (torch.bfloat16, 16, True),
    ],
)
def test_torchs_kernel_is_used_only_where_it_can_be(
    dtype: torch.dtype, columns: int, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        raise AssertionError

    monkeypatch.setattr(torch.nn.functional, "grouped_mm", never)
    helper = module_of(f"import torch\n\n\n{_helper()}").grouped_matmul
    rows = torch.randn(5, columns, dtype=dtype, requires_grad=learns)
    assert helper(rows, torch.randn(2, columns, 8, dtype=dtype), torch.tensor([2, 3])).shape == (
        5,
        8,
    )


def test_no_break_is_left() -> None:
    choice = torch.tensor([3, 1, 1, 0, 3, 3])
    arguments = (torch.ones(6, 5), choice, torch.ones(4, 3, 5))
    assert breaks(_model(marked(MODEL)[0], arguments[2]), arguments) > 0
    assert breaks(_model(_split_after(), arguments[2]), arguments) == 0
    rows, weights, sizes = torch.ones(6, 5), torch.ones(3, 5, 2), torch.tensor([1, 0, 5])
    assert breaks(module_of(marked(SLICES)[0]).forward, (rows, weights, sizes)) > 0
    assert breaks(module_of(_slices_after()).forward, (rows, weights, sizes)) == 0


def test_blocks_are_at_most_twice_as_many_rows() -> None:
    helper = module_of(f"import torch\n\n\n{_helper()}").grouped_matmul
    seen: list[int] = []
    bmm = torch.bmm

    def counted(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        seen.append(one.shape[0] * one.shape[1])
        return bmm(one, other)

    for rows in (1, 2, 7, 64):
        for groups in (1, 3, 8, 100):
            sizes = torch.bincount(torch.randint(0, groups, (rows,)), minlength=groups)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(torch, "bmm", counted)
                helper(torch.ones(rows, 2), torch.ones(groups, 2, 2), sizes)
            assert rows <= seen[-1] <= 2 * rows


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("inputs.split(expert_size, dim=0)", "inputs.split(expert_size, dim=1)"),
        ("torch.cat(results, dim=0)", "torch.cat(results, dim=1)"),
        ("torch.cat(results, dim=0)", "torch.stack(results)"),
        ("F.linear(parts[i], self.weight[i])", "F.linear(parts[i], self.weight[i], self.bias)"),
        ("F.linear(parts[i], self.weight[i])", "F.linear(parts[i], self.weight[0])"),
        ("F.linear(parts[i], self.weight[i])", "F.linear(parts[0], self.weight[i])"),
        ("return joined", "return joined, parts[0]"),
        ("return joined", "return joined, results"),
        ("return joined", "return joined * len(expert_size)"),
        ("range(self.count)", "range(2)"),
        ("self.count = count", "self.count = count - 1"),
        ("topology = (order, expert_size)", "topology = sum(expert_size)"),
        ("topology = (order, expert_size)", "self.expert_size = expert_size"),
        ("self.experts(x[order], expert_size)", "self.experts(expert_size, x[order])"),
        ("order, expert_size, _ =", "order, lengths, _ ="),
        ("order, expert_size, _ = self.router(choice)", "order = self.router(choice)"),
        ("class Model", "grouped_matmul = None\n\n\nclass Model"),
    ],
)
def test_other_splits_stay(old: str, new: str) -> None:
    assert old in MODEL
    decline(MODEL.replace(old, new, 1), "PG203", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(weights.shape[0])", "range(2)"),
        ("torch.matmul(part, weights[i])", "torch.matmul(weights[i], part)"),
        ("torch.matmul(part, weights[i])", "torch.matmul(part, weights[0])"),
        ("torch.matmul(part, weights[i])", "torch.matmul(part, weights[i]) + 1"),
        ("output[start:end] = result", "output[start:end] += result"),
        ("output[start:end] = result", "output[end:start] = result"),
        ("output[start:end] = result", "output[i] = result"),
        ("start = ends[i]", "start = ends[i - 1]"),
        ("torch.cat((zero, ends))", "torch.cat((ends, zero))"),
        ("torch.cat((zero, ends))", "torch.cat((zero, ends), dim=1)"),
        ("torch.cumsum(sizes, dim=0)", "torch.cumprod(sizes, dim=0)"),
        ("torch.zeros(1, dtype", "torch.zeros(2, dtype"),
        ("torch.zeros(count, width", "torch.ones(count, width"),
        ("    ends = torch.cumsum", "    print(output)\n    ends = torch.cumsum"),
        ("def forward", "def grouped_matmul():\n    pass\n\n\ndef forward"),
    ],
)
def test_other_slices_stay(old: str, new: str) -> None:
    assert old in SLICES
    decline(SLICES.replace(old, new, 1), "PG407", "")


def test_what_else_is_read_stays() -> None:
    before = SLICES.replace("return output\n", "return output, ends\n")
    after = _slices_after().replace("return output\n", "return output, ends\n")
    kept = textwrap.indent(
        textwrap.dedent(SLICES.split("dtype=rows.dtype)\n\n")[1].split("    for")[0]), "    "
    )
    call = "    output = grouped_matmul"
    expect(before, after.replace(call, f"{kept}{call}", 1), "PG407", "unsafe")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@FEW
@given(sizes=st.lists(st.integers(0, 7), min_size=2, max_size=6), without=st.integers(1, 5))
def test_the_last_groups_may_have_no_weight(
    dtype: torch.dtype, sizes: list[int], without: int
) -> None:
    helper = module_of(f"import torch\n\n\n{_helper()}").grouped_matmul
    count = max(len(sizes) - without, 1)
    rows = torch.randint(1, 5, (sum(sizes), 16)).to(dtype)
    weights = torch.randint(1, 5, (len(sizes), 16, 8)).to(dtype)
    given_all = helper(rows, weights, torch.tensor(sizes))
    given_some = helper(rows, weights[:count], torch.tensor(sizes))
    known = sum(sizes[:count])
    assert given_some.shape == given_all.shape
    assert torch.equal(given_some[:known], given_all[:known])
