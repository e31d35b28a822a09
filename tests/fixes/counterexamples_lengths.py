"""Preconditions of the rewrites of lengths that only the device knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from tests.fixes.counterexamples import Case, lines


def _groups(result: str = "y", count: str = "weight.shape[0]") -> str:
    """Rows split by sizes that the device knew, times a matrix for each part."""
    return lines(
        "sizes = «sizes.tolist()»",
        "parts = rows.split(sizes)",
        "results = []",
        f"for i in range({count}):",
        "    results.append(parts[i] @ weight[i])",
        "y = torch.cat(results)",
        f"return {result}",
        head="rows, weight, sizes",
    )


def _slices(
    before: str = "first = 0", count: str = "weight.shape[0]", dtype: str = "rows.dtype"
) -> str:
    """Rows sliced by offsets on the device, times a matrix for each slice."""
    return lines(
        f"y = torch.zeros(rows.shape[0], weight.shape[2], dtype={dtype})",
        before,
        "ends = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])",
        f"for i in range({count}):",
        "    y[«ends[i]» : ends[i + 1]] = rows[ends[i] : ends[i + 1]] @ weight[i]",
        "return y, first",
        head="rows, weight, sizes",
    )


def _largest(*between: str, head: str = "x, grid", result: str = "torch.arange(x.numel())") -> str:
    """A range up to the largest of the numbers that a loop has read."""
    return lines(
        "for h, w in grid.tolist():",
        "    x = x.expand(h, w).sum().view(1)",
        *between,
        "size = grid.max()",
        f"return x, «torch.arange(size)», {result}",
        head=head,
    )


def _least(numbers: Iterable[int]) -> int:
    return min(numbers)


_ROUTED = """import torch


class Router(torch.nn.Module):
    def forward(self, x):
        sizes = x.sum(1)
        sizes = «sizes.tolist()»
        return x, sizes


class Experts(torch.nn.Module):
    def forward(self, rows, sizes, weight):
        parts = rows.split(sizes)
        results = []
        for i in range(weight.shape[0]):
            results.append(parts[i] @ weight[i])
        y = torch.cat(results)
        return y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()

    def forward(self, x):
        x, counts = self.router(x)
        return counts


forward = Model()
"""


def _kept(*body: str, value: str = "self.size - 1", head: str = "", decorator: str = "") -> str:
    """A module that reads a cached property."""
    forward = "\n".join(f"        {line}" for line in body)
    above = f"    {decorator}\n" if decorator else ""
    return (
        f"from functools import cached_property\n\nimport torch\n\n{head}\n\n"
        "class Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.size = 3\n\n{above}    @cached_property\n    def left(self):\n"
        f"        return {value}\n\n    def forward(self, x):\n{forward}\n\n\n"
        "def forward(x):\n    return Model()(x)\n"
    )


_DOUBLED = "def doubled(kept):\n    return property(lambda self: kept.func(self) * 2)\n"
_PROPERTY = "def property(function):\n    return 7\n"


def _halves(*body: str, result: str = "x[:count]") -> str:
    """A helper that takes a number in a tensor, and code that calls it."""
    helper = f"def first(x, count):\n    y = x[:«count»]\n    return {result}\n\n\n"
    return lines(*body, head="x, n").replace("def forward", f"{helper}def forward")


def _step(*body: str, behind: str = "return x * y", other: str = "") -> str:
    """A step that depends on a number read from a tensor."""
    arm = [f"    {line}" for line in body]
    test = "if n and «x.sum().item()» > 2:"
    rest = [other] if other else []
    return lines("y = 1", test, *arm, *rest, behind, head="x: torch.Tensor, n")


def _ones() -> tuple[torch.Tensor]:
    return (torch.ones(3),)


def _halving_rows() -> tuple[torch.Tensor, ...]:
    return torch.ones(4, 4), torch.tensor([[4, 3], [3, 2]])


def _looping(*body: str) -> str:
    """A row read in every turn of a loop."""
    return lines(
        "other = n.view(-1)",
        "for i in range(2):",
        *(f"    {line}" for line in body),
        "    x = x[:h, :w]",
        "return x",
        head="x, n: torch.Tensor",
    )


def _grouped(*sizes: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Four rows, two matrices, and sizes."""
    return lambda: (torch.ones(4, 3), torch.ones(2, 3, 2), torch.tensor(sizes))


CASES = [
    # row_list
    Case(
        "row_list",
        "looked-at",
        "PG203",
        lines(
            "def grow(sizes):",
            "    sizes[0] += 1",
            "    return sizes[0]",
            "for i in range(2):",
            "    x = x * grow(«n[i].tolist()») * grow(«n[i].tolist()»)",
            "return x",
            head="x, n: torch.Tensor",
        ),
        _halving_rows,
    ),
    Case(
        "row_list",
        "same",
        "PG203",
        _looping("n = other.view(2, 2) - 1", "h, w = «n[i].tolist()»"),
        _halving_rows,
    ),
    Case(
        "row_list",
        "only-rows",
        "PG203",
        _looping("n.add_(-1)", "h, w = «n[i].tolist()»"),
        _halving_rows,
    ),
    Case(
        "row_list",
        "unchanged",
        "PG203",
        _looping("other.add_(-1)", "h, w = «n[i].tolist()»"),
        _halving_rows,
    ),
    # grouped_split
    Case("grouped_split", "passed-on", "PG203", _groups("y, sizes[0]"), _grouped(1, 3)),
    Case("grouped_split", "every-group", "PG203", _groups(count="1"), _grouped(1, 3)),
    Case("grouped_split", "named-alike", "PG203", _ROUTED, lambda: (torch.ones(2, 3),)),
    Case("grouped_split", "blocks", "PG203", _groups(), _grouped(1, 2)),
    # grouped_slices
    Case("grouped_slices", "every-group", "PG407", _slices(count="1"), _grouped(1, 3)),
    Case("grouped_slices", "new-output", "PG407", _slices("first = y[0]"), _grouped(1, 3)),
    Case("grouped_slices", "dtype", "PG407", _slices(dtype="torch.double"), _grouped(1, 3)),
    Case("grouped_slices", "blocks", "PG407", _slices(), _grouped(1, 2)),
    # plain_property
    Case(
        "plain_property",
        "only-decorator",
        "PG513",
        _kept("return x * «self.left»", head=_DOUBLED, decorator="@doubled"),
        _ones,
    ),
    Case(
        "plain_property",
        "arithmetic",
        "PG513",
        _kept("return x * «self.left» - self.left", value="torch.rand(())"),
        _ones,
    ),
    Case(
        "plain_property",
        "never-set",
        "PG513",
        _kept("self.left = 5", "return x * «self.left»"),
        _ones,
    ),
    Case(
        "plain_property",
        "property",
        "PG513",
        _kept("return x * «self.left»", head=_PROPERTY),
        _ones,
    ),
    Case(
        "plain_property",
        "kept",
        "PG513",
        _kept("y = x * «self.left»", "self.size = 9", "return y * self.left"),
        _ones,
    ),
    # number_argument
    Case(
        "number_argument",
        "bounds",
        "PG407",
        _halves("size = torch.IntTensor([n])", "return first(x, size[0])", result="y, count"),
        lambda: (torch.ones(3), 2),
    ),
    Case(
        "number_argument",
        "unchanged",
        "PG407",
        _halves("size = torch.IntTensor([n])", "n = 1", "return first(x, size[0])"),
        lambda: (torch.ones(3), 2),
    ),
    Case(
        "number_argument",
        "whole",
        "PG407",
        _halves("size = torch.IntTensor([n])", "return first(x, size[0])"),
        lambda: (torch.ones(3), 2.5),
    ),
    # host_maximum
    Case(
        "host_maximum",
        "sizes",
        "PG407",
        _largest(result="size"),
        lambda: (torch.ones(1), torch.tensor([[2, 3]])),
    ),
    Case(
        "host_maximum",
        "same",
        "PG407",
        _largest("grid = grid * 2"),
        lambda: (torch.ones(1), torch.tensor([[2, 3]])),
    ),
    Case(
        "host_maximum",
        "builtin",
        "PG407",
        _largest(head="x, grid, max"),
        lambda: (torch.ones(1), torch.tensor([[2, 3]]), _least),
    ),
    Case(
        "host_maximum",
        "rows",
        "PG407",
        _largest(),
        lambda: (torch.ones(1), torch.zeros(0, 2, dtype=torch.int64)),
    ),
    # tensor_step
    Case(
        "tensor_step",
        "pure",
        "PG201",
        _step("y = y + n.pop()", behind="return x * y, n"),
        lambda: (torch.zeros(3), [1]),
    ),
    Case(
        "tensor_step",
        "bound",
        "PG201",
        _step("z = y + 1", behind="return x * z"),
        lambda: (torch.ones(3), True),
    ),
    Case(
        "tensor_step",
        "selectable",
        "PG201",
        _step("y = y + 1", behind="return x, y"),
        lambda: (torch.ones(3), True),
    ),
    Case(
        "tensor_step",
        "once",
        "PG201",
        _step("y = y + 1", "y = y * 2"),
        lambda: (torch.ones(3), True),
    ),
    Case(
        "tensor_step",
        "alone",
        "PG201",
        _step("y = y + 1; z = 2", behind="return x * y"),
    ),
    Case(
        "tensor_step",
        "simple-else",
        "PG201",
        _step("y = y + 1", behind="return x + y * 1", other="else:\n        y = 5"),
        lambda: (torch.zeros(3), True),
    ),
    Case(
        "tensor_step",
        "no-comments",
        "PG201",
        lines(
            "y = 1",
            "if n and «x.sum().item()» > 2:  # why",
            "    y = y + 1",
            "return x * y",
            head="x: torch.Tensor, n",
        ),
    ),
    Case("tensor_step", "both-arms", "PG201", _step("y = y + 1")),
    # last_masked
    Case(
        "last_masked",
        "simple",
        "PG402",
        lines(
            "while n and «x[m]».view(x.size(0), -1, x.size(2))[:, -1].sum() > 0:",
            "    x = x - 1",
            "    m = ~m",
            "return x",
            head="x, m, n",
        ),
        lambda: (torch.tensor([[[1.0], [9.0]]]), torch.tensor([[True, False]]), True),
    ),
    Case(
        "last_masked",
        "alone",
        "PG402",
        lines("m = ~m; y = «x[m]».view(x.size(0), -1, x.size(2))[:, -1]", "return y", head="x, m"),
        lambda: (torch.tensor([[[1.0], [9.0]]]), torch.tensor([[True, False]])),
    ),
    Case(
        "last_masked",
        "counts",
        "PG402",
        lines("return «x[m]».view(x.size(0), -1, x.size(2))[:, -1]", head="x, m"),
        lambda: (torch.ones(1, 2, 1), torch.tensor([[False, False]])),
    ),
    # host_divisor
    Case(
        "host_divisor",
        "two-numbers",
        "PG520",
        lines("import numpy as np", "return x * int(«np.lcm(n, 4, dtype=int)»)", head="x, n"),
    ),
    Case(
        "host_divisor",
        "numbers",
        "PG520",
        lines("import numpy as np", "return x * float(«np.gcd(n, 4)»[0])", head="x, n"),
        lambda: (torch.ones(2), [2, 3]),
    ),
]
