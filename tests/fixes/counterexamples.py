"""For each precondition, code that goes wrong without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Case(NamedTuple):
    """``arguments`` makes what ``forward`` of the source is called with; None where no CPU can show
    the harm.
    """

    rewrite: str
    precondition: str
    code: str
    source: str
    arguments: Callable[[], tuple[Any, ...]] | None = None
    kind: str = ""
    notes: dict[str, str] = {}


def _lines(*lines: str, head: str = "x") -> str:
    return (
        "\n".join(["import torch", "", f"def forward({head}):", *(f"    {it}" for it in lines)])
        + "\n"
    )


HALF = "if x.dtype == torch.float16 and «torch.isinf(x).any()»:"
NOTED = {"meets": "x.device", "uses": "device"}


def _half() -> tuple[Any, ...]:
    return (torch.ones(3, dtype=torch.float16),)


CASES = [
    # factory_device
    Case(
        "factory_device",
        "starred",
        "PG101",
        _lines("return «torch.zeros(3, **options).to(x.device)»", head="x, options"),
        lambda: (torch.ones(3), {"device": "cpu"}),
    ),
    Case(
        "factory_device",
        "no-device",
        "PG101",
        _lines("return «torch.zeros(3, device='meta').to(x.device)»"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "factory_device",
        "no-grad",
        "PG101",
        _lines("return «torch.zeros(3, requires_grad=True).to(x.device)».is_leaf"),
        lambda: (torch.ones(3, device="meta"),),
    ),
    Case(
        "factory_device",
        "no-out",
        "PG101",
        _lines("return «torch.zeros(3, out=other).to(x.device)»", head="x, other"),
        lambda: (torch.ones(3, device="meta"), torch.ones(3)),
    ),
    Case(
        "factory_device",
        "not-pinned",
        "PG101",
        _lines("return «torch.zeros(3, pin_memory=True).to(x.device)»"),
    ),
    Case(
        "factory_device",
        "integers",
        "PG101",
        _lines("return «torch.arange(0, 1, 0.1).to(x.device)»"),
    ),
    Case(
        "factory_device",
        "cuda-device",
        "PG101",
        _lines("return «torch.zeros(3).cuda(rank)»", head="x, rank"),
    ),
    Case(
        "factory_device",
        "one-device",
        "PG101",
        _lines("return «torch.zeros(3).to(other)»", head="x, other"),
        lambda: (torch.ones(3), torch.float64),
    ),
    Case(
        "factory_device",
        "proven-device",
        "PG101",
        _lines("return «torch.zeros(3).to(device)»", head="x, device"),
        lambda: (torch.ones(3), torch.float64),
    ),
    Case(
        "factory_device",
        "plain-move",
        "PG101",
        _lines(
            "return «torch.zeros(1, 2, 2, 2).to(x.device, memory_format=form)».stride()",
            head="x, form",
        ),
        lambda: (torch.ones(1), torch.channels_last),
    ),
    Case(
        "factory_device",
        "uses",
        "PG102",
        _lines("n = «torch.arange(3)»", "return x + n, n.tolist()"),
        lambda: (torch.ones(3, device="meta"),),
        "host.factory",
        {"meets": "x.device"},
    ),
    # scalar_tensor
    Case(
        "scalar_tensor",
        "plain",
        "PG103",
        _lines("t = «torch.tensor(2.0, requires_grad=True)»", "return (x * t).requires_grad"),
        lambda: (torch.ones(3),),
        notes=NOTED,
    ),
    Case(
        "scalar_tensor",
        "number",
        "PG103",
        _lines("return x * «torch.tensor(value)»", head="x, value"),
        lambda: (torch.ones(3), [1.0, 2.0, 3.0]),
        notes=NOTED,
    ),
    Case("scalar_tensor", "exact", "PG103", _lines("return x * «torch.tensor(0.1)»"), notes=NOTED),
    Case(
        "scalar_tensor",
        "uses",
        "PG103",
        _lines("t = «torch.tensor(2.0)»", "return x * t, t.tolist()"),
        lambda: (torch.ones(3, device="meta"),),
        notes={"meets": "x.device"},
    ),
    # finite_guard
    Case(
        "finite_guard",
        "same-name",
        "PG307",
        _lines("x = x + 0", HALF, "    x = torch.clamp(y, -4, 4)", "return x", head="x, y"),
        lambda: (torch.ones(3, dtype=torch.float16), torch.ones(2, 3, dtype=torch.float16)),
    ),
    Case(
        "finite_guard",
        "local",
        "PG307",
        _lines(
            "limit = 1",
            "x = x + 0",
            HALF,
            "    limit = 5.0",
            "    x = torch.clamp(x, max=limit)",
            "return x, limit",
        ),
        _half,
    ),
    Case(
        "finite_guard",
        "static",
        "PG307",
        _lines(
            "x = x + 0",
            HALF,
            "    limit = seen.pop()",
            "    x = torch.clamp(x, max=limit)",
            "return x",
            head="x, seen",
        ),
        lambda: (torch.ones(3, dtype=torch.float16), [2.0]),
    ),
    Case(
        "finite_guard",
        "alone",
        "PG307",
        _lines("x = x + 0", HALF + " x = torch.clamp(x, -5, 5)", "return x"),
    ),
    Case(
        "finite_guard",
        "else-if",
        "PG307",
        _lines(
            "if False:",
            "    pass",
            "elif «torch.isinf(x).any()»:",
            "    x = torch.clamp(x, -5, 5)",
            "return x",
        ),
    ),
    Case(
        "finite_guard",
        "number-bounds",
        "PG307",
        _lines("x = x + 0", HALF, "    x = torch.clamp(x, max=limit)", "return x", head="x, limit"),
        lambda: (torch.ones(3, dtype=torch.float16), torch.ones(3, dtype=torch.float64)),
    ),
    Case(
        "finite_guard",
        "floating",
        "PG307",
        _lines(
            "x = x + 0",
            "if «torch.isinf(x).any()»:",
            "    x = torch.clamp(x, -5.0, 5.0)",
            "return x",
        ),
        lambda: (torch.ones(3, dtype=torch.int64),),
    ),
    Case(
        "finite_guard",
        "fresh",
        "PG307",
        _lines(HALF, "    x = torch.clamp(x, -5, 5)", "return x"),
        _half,
    ),
    # random_skip
    Case(
        "random_skip",
        "pure",
        "PG306",
        _lines("draw = torch.rand([])", "if «draw < x.pop()»:", "    return 1", "return 0"),
        lambda: ([0.5, 0.5],),
    ),
    Case(
        "random_skip",
        "drawn",
        "PG306",
        _lines("if «torch.rand([]) < p»:", "    return 1", "return x + torch.rand(3)", head="x, p"),
        lambda: (torch.ones(3), 0.0),
    ),
    Case(
        "random_skip",
        "truth",
        "PG306",
        _lines("draw = torch.rand([])", "skip = «draw < x»", "return skip"),
        lambda: (0.0,),
    ),
    Case(
        "random_skip",
        "done",
        "PG306",
        _lines("draw = torch.rand([])", "if «x > 0 and draw < x»:", "    return 1", "return 0"),
    ),
    # guard_logging
    Case("guard_logging", "statement", "PG501", _lines("y = «print(x)»", "return y")),
    Case("guard_logging", "only-says", "PG502", _lines("«x.append(1)»", "return x")),
    Case("guard_logging", "in-function", "PG501", "import torch\n«print(1)»\n"),
    Case("guard_logging", "alone", "PG501", _lines("x = 1; «print(x)»", "return x")),
    Case("guard_logging", "guard", "PG501", _lines("«print(x)»", "return x")),
]
