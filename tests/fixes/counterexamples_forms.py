"""For each precondition of the rewrites for checks, masks and experts, code that goes wrong
without it.
"""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines


def _experts(*body: str, behind: str = "", count: str = "3") -> str:
    """A loop over experts that were hit."""
    return lines(
        f"mask = torch.nn.functional.one_hot(index, {count}).permute(2, 1, 0)",
        "hit = mask.sum((-1, -2)).nonzero()",
        "out = torch.zeros_like(x)",
        "for e in hit:",
        "    e = e[0]",
        *(f"    {line}" for line in body),
        behind or "del mask",
        "return out",
        head="x: torch.Tensor, index: torch.Tensor",
    )


_PAIR = "pos, token = «torch.where(mask[e])»"
_SUM = "out.index_add_(0, token, y)"


def _routed() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(4.0)[:, None].repeat(1, 2), torch.tensor([[0], [1], [1], [2]])


def _reading(*body: str, before: str = "", call: str = "reads(x)") -> str:
    """A function that reads, and one that calls it."""
    head = "x: torch.Tensor"
    called = f"def forward(x: torch.Tensor):\n    return x + {call}\n"
    own = "\n".join(f"    {line}" for line in body)
    return f"import torch\n\n{before}def reads({head}):\n{own}\n\n\n{called}"


_LOOP = ("while «x.sum() > 0»:", "    x = x - 1", "return x")
_ITEM = "return «x.max().item()»"


def _dropped(
    draw: str = "torch.rand([])", layer: str = "torch.relu(x)", others: str = "", end: str = "x"
) -> str:
    """A layer that a draw drops."""
    branch = (f"skip = {draw} < p", f"if «not skip»{others}:", f"    x = {layer}")
    return lines(*branch, f"return {end}", head="x: torch.Tensor, p")


_XY = "x: torch.Tensor, y"
_IF = ("at = x > 0", "if «at.any()»:")

_TWO = "x: torch.Tensor, y: torch.Tensor"


CASES = [
    # leaving functions out
    Case("site", "compiled", "PG201", _reading(_ITEM), captured=True),
    Case(
        "disable",
        "named",
        "PG201",
        lines("def reads(y):", "    return «y.max().item()»", "return x + reads(x)"),
    ),
    Case(
        "site",
        "compiled",
        "PG401",
        lines("return [«y.nonzero()» for y in x]"),
        captured=True,
    ),
    # breaking_function
    Case("breaking_function", "helper", "PG302", lines(*_LOOP)),
    Case("breaking_function", "lookup", "PG407", _reading("return «x[x]» + «x[x * 2]»")),
    Case("breaking_function", "bare", "PG302", _reading(*_LOOP, before="@torch.jit.script\n")),
    Case(
        "breaking_function",
        "pays",
        "PG301",
        _reading(
            "if «x.sum() > 0»:",
            "    x = torch.cat([x, x])",
            "x = x.sin() * 2 + x.cos() * 3 + x.exp() * 4",
            "return x.max()",
        ),
    ),
    Case(
        "breaking_function",
        "returns",
        "PG302",
        _reading("while «x.sum() > 0»:", "    x = x - 1", "    yield x", call="next(reads(x))"),
    ),
    Case(  # a number becomes a tensor
        "tensor_branch",
        "number",
        "PG301",
        lines("low = 0.5", "if «x.sum() > 0»:", "    low += 1.0", "return low"),
        lambda: (-torch.ones(3),),
    ),
    Case(
        "tensor_branch",
        "held",
        "PG301",
        lines("if «x.sum() > 0»:", "    y = y * 2", "return y", head="x: torch.Tensor, y"),
        lambda: (-torch.ones(3), 3),
    ),
    Case(  # the element may not be there
        "tensor_branch",
        "fits",
        "PG301",
        lines("if «x.sum() > 0»:", "    y[i] = 0", "return y", head=f"{_TWO}, i: int"),
        lambda: (-torch.ones(3), torch.ones(3), 5),
    ),
    Case(  # it is asked behind the write
        "tensor_branch",
        "computable",
        "PG301",
        lines("if «x[0]»:", "    x[0] = 0", "return x"),
    ),
    Case("selectable", "number", "PG301", lines("if «x > 2.0»:", "    x = 2.0", "return x")),
    # dropped_layer
    Case("dropped_layer", "always", "PG306", _dropped()),
    Case("dropped_layer", "drawn", "PG306", _dropped(draw="x.sum()")),
    Case("dropped_layer", "carried", "PG306", _dropped(layer="torch.relu(p)")),
    Case("dropped_layer", "kept", "PG306", _dropped(end="x.add_(1)")),
    Case("dropped_layer", "pure", "PG306", _dropped(others=" or seen.pop()")),
    # expert_loop
    Case(
        "expert_loop",
        "inside",
        "PG401",
        _experts(_PAIR, "y = x[token] * 2", _SUM, behind="out = out + y.sum()"),
        _routed,
    ),
    Case(
        "expert_loop",
        "new",
        "PG401",
        _experts(_PAIR, "y = x[token]", "y.mul_(2)", _SUM, behind="out = out + x"),
        _routed,
    ),
    Case(
        "expert_loop",
        "known",
        "PG401",
        _experts(_PAIR, "y = x[token] * len(token)", _SUM),
        _routed,
    ),
    Case(
        "expert_loop",
        "extra",
        "PG401",
        _experts("if e == 1:", "    continue", _PAIR, "y = x[token] * 2", _SUM),
        _routed,
    ),
    Case(
        "expert_loop",
        "counted",
        "PG401",
        _experts(_PAIR, "y = x[token] * torch.rand(3)[e]", _SUM),
    ),
    Case(
        "expert_loop",
        "row-wise",
        "PG401",
        _experts(_PAIR, "y = x[token] - x[token].mean(0)", _SUM),
        _routed,
    ),
    Case(
        "expert_loop",
        "moved",
        "PG401",
        _experts(_PAIR, "y = x[token] * 2", _SUM).replace(
            "    out =", "    mask = torch.ones(2, 1, 3) > 0\n    out =", 1
        ),
    ),
    Case(
        "expert_loop",
        "all-tokens",
        "PG401",
        _experts(_PAIR, "y = x[token] * 2", _SUM),
    ),
    # guard_assert
    Case(
        "site",
        "compiled",
        "PG301",
        lines("assert «(x > 0).all()», f'{x}'", "return x"),
        captured=True,
    ),
    Case(
        "guard_assert",
        "only-asks",
        "PG301",
        lines("assert «(y := x + 1).any()», f'{x}'", "return y"),
    ),
    Case(
        "guard_assert",
        "checked",
        "PG301",
        lines("assert «(x > 0).all()», f'{x}'", "return x"),
    ),
    # masked_write
    Case(
        "masked_write",
        "mask",
        "PG406",
        lines(
            "out = torch.zeros(3)",
            "at = torch.arange(2, device=x.device)",
            "«out[at] = x[at] * 2»",
            "return out",
        ),
        lambda: (torch.ones(3),),
    ),
    Case(
        "masked_write",
        "pure",
        "PG406",
        lines(
            "out = torch.zeros(2, 3)",
            "at = x > 0",
            "«out[stack.pop()][at] = x[at] * 2»",
            "return out, stack",
            head="x: torch.Tensor, stack: list",
        ),
        lambda: (torch.ones(3), [1, 0]),
    ),
    Case(
        "masked_write",
        "elementwise",
        "PG406",
        lines(
            "out = torch.zeros(3)", "at = x > 0", "«out[at] = x[at] - x[at].mean()»", "return out"
        ),
        lambda: (torch.tensor([1.0, 2.0, -9.0]),),
    ),
    Case(
        "masked_write",
        "everywhere",
        "PG406",
        lines("at = x > 0", "«y[at] = x[at] * 2»", "return y", head="x: torch.Tensor, y"),
    ),
    # masked_reduction
    Case(
        "masked_reduction",
        "mask",
        "PG402",
        lines("at = torch.arange(2, device=x.device)", "return «x[at]».mean()"),
        lambda: (torch.tensor([1.0, 2.0]),),
    ),
    Case(
        "masked_reduction",
        "elementwise",
        "PG402",
        lines("at = x > 1", "return «x[at]».cumsum(0).sum()"),
        lambda: (torch.tensor([1.0, 2.0, 5.0]),),
    ),
    Case("masked_reduction", "rounding", "PG402", lines("at = x > 1", "return «x[at]».sum()")),
    Case(
        "masked_reduction",
        "first",
        "PG402",
        lines(
            "at = y > 0",
            "return left.pop(), «(x * len(left))[at]».sum()",
            head="x: torch.Tensor, y: torch.Tensor, left: list",
        ),
        lambda: (torch.ones(3), torch.ones(3), [1, 2]),
    ),
    # mask_guard
    Case(
        "mask_guard",
        "under",
        "PG301",
        lines(
            "at = x > 0", "if «at.any()»:", "    x[at] = 1.0", "    y = 1", "return x, y", head=_XY
        ),
        lambda: (torch.zeros(3), 0),
    ),
    Case(
        "mask_guard",
        "mask",
        "PG301",
        lines(
            "at = torch.zeros(1, dtype=torch.long)", "if «at.any()»:", "    x[at] = 1.0", "return x"
        ),
        lambda: (torch.zeros(3),),
    ),
    Case(
        "mask_guard",
        "fits",
        "PG301",
        lines(*_IF, "    y[at] = 1.0", "return y", head=_XY),
        lambda: (torch.zeros(3), torch.zeros(2)),
    ),
    Case(
        "mask_guard",
        "said",
        "PG301",
        lines(*_IF, "    print('set')", "    x[at] = 1.0", "return x"),
    ),
    # say_sometimes
    Case(
        "say_sometimes",
        "counted",
        "PG702",
        lines("for row in x:", "    print(f'{«row»}')", "return x"),
    ),
    Case(
        "say_sometimes",
        "only-says",
        "PG702",
        lines(
            "seen = []",
            "for step, row in enumerate(x):",
            "    print(seen.append(1), «row»)",
            "return seen",
        ),
        lambda: (torch.ones(3, 2),),
    ),
    Case(
        "say_sometimes",
        "less",
        "PG702",
        lines("for step, row in enumerate(x):", "    print(«row»)", "return x"),
    ),
    # loop_copy
    Case(
        "loop_copy",
        "written",
        "PG704",
        lines("for row in x:", "    row = «row.to(**where)»", "return row", head="x, where"),
    ),
    Case(
        "loop_copy",
        "given",
        "PG704",
        lines(
            "for row in x:",
            "    row = «row.to(x.device, non_blocking=fast)»",
            "return row",
            head="x, fast",
        ),
    ),
    Case(
        "loop_copy",
        "own-method",
        "PG704",
        lines(
            "class Rows:",
            "    def to(self, device):",
            "        return x",
            "rows = Rows()",
            "return «rows.to(x.device)»",
        ),
    ),
    Case(
        "loop_copy",
        "stays",
        "PG704",
        lines("for row in x:", "    row = «row.to(x.device)»", "return row"),
    ),
    # tensor_raise
    Case(
        "tensor_raise",
        "uncaught",
        "PG303",
        lines(
            "try:",
            "    if «x.sum() > 0»:",
            "        raise ValueError(f'{x}')",
            "except ValueError:",
            "    x = x * 2",
            "return x",
        ),
    ),
    # masked_write
    Case(
        "masked_write",
        "unsaved",
        "PG406",
        lines(
            "z = x * 1",
            "seen = [z]",
            "at = x > 0",
            "«z[at] = z[at].sin()»",
            "return z, seen",
        ),
        lambda: (torch.ones(3, requires_grad=True),),
    ),
    Case(
        "masked_write",
        "unsaved",
        "PG406",
        lines("z = x * 1", "seen = [z]", "«z[x > 0] *= x.sum()»", "return z, seen"),
        lambda: (torch.ones(3, requires_grad=True),),
    ),
    Case(
        "masked_write",
        "unsaved",
        "PG406",
        lines(
            "z = torch.zeros_like(x)",
            "y = x * 1",
            "at = x > 0",
            "«z[at] = y[at].sin()»",
            "y.mul_(2)",
            "return z",
        ),
        lambda: (torch.ones(3, requires_grad=True),),
    ),
    # scaled_operand
    Case(
        "scaled_operand",
        "pure",
        "PG202",
        lines("return «torch.add(x, stack[-1], alpha=stack.pop())»", head="x, stack: list"),
    ),
    Case(
        "scaled_operand",
        "plain",
        "PG202",
        lines("return «torch.add(x, x, alpha=x.max(), **more)»", head="x: torch.Tensor, more"),
    ),
    Case(
        "scaled_operand",
        "rounding",
        "PG202",
        lines("return «torch.add(x, x, alpha=x.max())»"),
    ),
    # element_index
    Case(
        "element_index",
        "whole",
        "PG407",
        lines("return x[«x.sum() > 0»]"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "element_index",
        "tensor",
        "PG407",
        lines("return rows[«x.argmax()»]", head="x: torch.Tensor, rows: list"),
        lambda: (torch.ones(3), [1, 2, 3]),
    ),
    Case(
        "element_index",
        "read",
        "PG407",
        lines("x[«x[:, 0].argmax()»].zero_()", "return x"),
        lambda: (torch.ones(3, 2),),
    ),
    Case(
        "element_index",
        "read",
        "PG407",
        lines("row = x[«x[:, 0].argmax()»]", "row += 1", "return x"),
        lambda: (torch.ones(3, 2),),
    ),
    Case("element_index", "copy", "PG407", lines("return x[«x.argmax()»]")),
    Case(
        "element_index",
        "whole",
        "PG407",
        lines("return «x[t]»", head="x: torch.Tensor, t"),
        lambda: (torch.ones(3), torch.tensor([True, False, True])),
        notes={"position": "yes"},
    ),
    Case(
        "element_index",
        "pure",
        "PG407",
        lines("return «x.add_(1)[t]»", head="x: torch.Tensor, t: int"),
        lambda: (torch.ones(3), 1),
        notes={"position": "yes"},
    ),
    Case(
        "element_index",
        "table",
        "PG407",
        "import torch\n\n\nclass Model:\n    def __init__(self, table):\n"
        "        self.table = torch.ones(3)\n        self.table = table\n\n"
        "    def forward(self, i: int):\n        return «self.table[i]»\n",
        notes={"position": "yes"},
    ),
]
