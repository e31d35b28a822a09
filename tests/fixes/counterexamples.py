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
    captured: bool = False


def lines(*body: str, head: str = "x: torch.Tensor") -> str:
    """A module whose ``forward`` has this body."""
    return (
        "\n".join(["import torch", "", f"def forward({head}):", *(f"    {it}" for it in body)])
        + "\n"
    )


_TEST = "«x.sum() > 0»"


CASES = [
    # factory_device
    Case(
        "factory_device",
        "starred",
        "PG101",
        lines("return «torch.zeros(3).cuda(**options)»", head="x, options"),
    ),
    Case(
        "factory_device",
        "no-comments",
        "PG101",
        lines("return «torch.zeros(3).to(", "    x.device  # there", ")»", head="x"),
    ),
    Case(
        "factories",
        "starred",
        "PG101",
        lines("return «torch.zeros(3, **options).to(x.device)»", head="x, options"),
        lambda: (torch.ones(3), {"device": "cpu"}),
    ),
    Case(  # 3e9 becomes another number on another device
        "factory_device",
        "conversion",
        "PG101",
        lines("return «torch.full((n,), 3e9).to(x.device, torch.int32)»", head="x, n"),
    ),
    Case(
        "factory_device",
        "same-device",
        "PG101",
        lines(
            "rows = torch.arange(3)",
            "x = torch.ones(3)",
            "return «rows.to(x.device)»",
            head="x: torch.Tensor",
        ),
        lambda: (torch.ones(3, device="meta"),),
    ),
    Case(
        "factories",
        "no-device",
        "PG101",
        lines("return «torch.zeros(3, device='meta').to(x.device)»"),
    ),
    Case(
        "factories",
        "no-grad",
        "PG101",
        lines("return «torch.zeros(3, requires_grad=True).to(x.device)».is_leaf"),
        lambda: (torch.ones(3, device="meta"),),
    ),
    Case(
        "factories",
        "no-out",
        "PG101",
        lines("return «torch.zeros(3, out=other).to(x.device)»", head="x, other"),
        lambda: (torch.ones(3, device="meta"), torch.ones(3)),
    ),
    Case(
        "factories",
        "not-pinned",
        "PG101",
        lines("return «torch.zeros(3, pin_memory=True).to(x.device)»"),
    ),
    Case(
        "factories",
        "integers",
        "PG101",
        lines("return «torch.arange(0, 1, 0.1).to(x.device)»"),
    ),
    Case(
        "factory_device",
        "cuda-device",
        "PG101",
        lines("return «torch.zeros(3).cuda(rank)»", head="x, rank"),
    ),
    Case(
        "factory_device",
        "flags",
        "PG101",
        lines("return «torch.zeros(3).to(x.device, non_blocking=flag)»", head="x, flag"),
        lambda: (torch.ones(3), None),
    ),
    Case(
        "factory_device",
        "one-device",
        "PG101",
        lines("return «torch.zeros(3).to(other)»", head="x, other"),
        lambda: (torch.ones(3), torch.float64),
    ),
    Case(
        "factory_device",
        "proven-device",
        "PG101",
        lines("return «torch.zeros(3).to(device)»", head="x, device"),
        lambda: (torch.ones(3), torch.float64),
    ),
    Case(
        "factory_device",
        "plain-move",
        "PG101",
        lines(
            "return «torch.zeros(1, 2, 2, 2).to(x.device, memory_format=form)».stride()",
            head="x, form",
        ),
        lambda: (torch.ones(1), torch.channels_last),
    ),
    # random_skip
    Case(
        "random_skip",
        "pure",
        "PG306",
        lines("draw = torch.rand([])", "if «draw < x.pop()»:", "    return 1", "return 0"),
        lambda: ([0.5, 0.5],),
    ),
    Case(
        "random_skip",
        "open",
        "PG306",
        lines("draw = torch.rand([])", "if «draw < 0.5»:", "    return 1", "return 0"),
    ),
    Case(
        "random_skip",
        "drawn",
        "PG306",
        lines("if «torch.rand([]) < p»:", "    return 1", "return x + torch.rand(3)", head="x, p"),
        lambda: (torch.ones(3), 0.0),
    ),
    Case(
        "random_skip",
        "truth",
        "PG306",
        lines("draw = torch.rand([])", "skip = «draw < x»", "return skip", head="x"),
        lambda: (0.0,),
    ),
    Case(
        "random_skip",
        "done",
        "PG306",
        lines(
            "draw = torch.rand([])",
            "if «x > 0 and draw < x»:",
            "    return 1",
            "return 0",
            head="x",
        ),
    ),
    # tensor_branch
    Case(
        "tensor_branch",
        "both-arms",
        "PG301",
        lines(f"if {_TEST}:", "    x = x.double()", "return x"),
        lambda: (-torch.ones(3),),
    ),
    Case(
        "condition_tensors",
        "pure",
        "PG301",
        lines(
            "if «x.sum() < 9 or x.add_(1).sum() > 0»:",
            "    y = x * 2",
            "else:",
            "    y = x * 3",
            "return y",
        ),
        lambda: (-torch.ones(3),),
    ),
    Case(
        "condition_tensors",
        "tensor",
        "PG301",
        lines("y = len(x)", "if «y > 0»:", "    x = x * 2.0", "return x"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "selectable",
        "tensors",
        "PG301",
        lines(f"if {_TEST}:", "    n = 1", "else:", "    n = 2", "return n"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "selectable",
        "moved",
        "PG301",
        lines("low = torch.ones(3)", f"if {_TEST}:", "    x = low", "return x"),
    ),
    Case(
        "tensor_branch",
        "single-return",
        "PG301",
        lines(f"if y and {_TEST}:", "    return x * 2", "return x * 3", head="x: torch.Tensor, y"),
        lambda: (torch.ones(3), False),
    ),
    Case(
        "site",
        "no-comments",
        "PG301",
        lines(f"if {_TEST}:", "    x = x * 2", "else:", "    # as before", "    x = x", "return x"),
    ),
    Case(  # it raises where the branch is not taken
        "selectable",
        "computable",
        "PG301",
        lines("y = x * 1", f"if {_TEST}:", "    y = x[3:].view(4)", "return y"),
        lambda: (-torch.ones(3),),
    ),
    Case(
        "selectable",
        "fits",
        "PG301",
        lines(f"if {_TEST}:", "    x = x * y", "return x", head="x: torch.Tensor, y"),
        lambda: (-torch.ones(3), torch.ones(2)),
    ),
    Case(  # the result would have the shape of both
        "tensor_branch",
        "updates",
        "PG301",
        lines(f"return x if {_TEST} else y", head="x: torch.Tensor, y: torch.Tensor"),
        lambda: (torch.ones(3), torch.ones(2, 3)),
    ),
    Case(
        "selectable",
        "held",
        "PG301",
        lines(f"if {_TEST}:", "    y = y * 2", "return y", head="x: torch.Tensor, y"),
        lambda: (-torch.ones(3), 3),
    ),
    Case(
        "tensor_branch",
        "updated",
        "PG301",
        lines(f"if {_TEST}:", "    y += 1", "return y", head="x: torch.Tensor, y"),
        lambda: (-torch.ones(3), 3),
    ),
    Case(  # a leaf cannot be changed in place
        "tensor_branch",
        "in-place",
        "PG301",
        lines(f"if {_TEST}:", "    x += 1", "return x"),
        lambda: (torch.full((3,), -1.0, requires_grad=True),),
    ),
    Case(
        "tensor_branch",
        "said",
        "PG301",
        lines(f"if {_TEST}:", "    print('large')", "    x = x * 2", "return x"),
    ),
    Case(  # the nearest number of 32 bits is larger
        "condition_tensors",
        "compared",
        "PG201",
        lines("if «x.sum().item()» > 0.1:", "    x = x * 2", "return x"),
        lambda: (torch.tensor([0.1]),),
    ),
    Case(
        "mask_unless_full",
        "forgets",
        "PG301",
        lines("if «torch.all(x == 1)»:", "    y = 5", "return x, y", head="x, y"),
        lambda: (torch.ones(3), 0),
    ),
    Case(
        "mask_unless_full",
        "masking",
        "PG301",
        lines("if «torch.all(x == 1)»:", "    x = None", "return x"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "mask_unless_full",
        "same-mask",
        "PG301",
        lines("return y if «x.any()» else None", head="x: torch.Tensor, y: torch.Tensor"),
        lambda: (torch.zeros(3), torch.ones(3)),
    ),
    Case(
        "mask_unless_full",
        "block",
        "PG301",
        lines("if y:", "    if «torch.all(x == 1)»:", "        x = None", "return x", head="x, y"),
    ),
    # tensor_raise
    Case(
        "tensor_raise",
        "only-raises",
        "PG303",
        lines(f"if {_TEST}:", "    x.add_(1)", "    raise ValueError('no')", "return x"),
    ),
    Case(
        "tensor_raise",
        "compiled",
        "PG303",
        lines(f"if {_TEST}:", "    raise ValueError(f'no {y}')", "return x", head="x, y"),
    ),
    Case(
        "tensor_raise",
        "asynchronous",
        "PG303",
        lines(f"if {_TEST}:", "    raise ValueError('no')", "return x", head="x: torch.Tensor"),
        lambda: (torch.ones(3),),
    ),
    # tensor_assert
    Case("tensor_assert", "truth", "PG304", lines("assert «x.max()» and x.all()", "return x")),
    Case(
        "tensor_assert",
        "guarded",
        "PG304",
        lines(
            "assert «y.max() < 3» and x[y].sum() > 0",
            "return x",
            head="x: torch.Tensor, y: torch.Tensor",
        ),
    ),
    Case(
        "tensor_assert",
        "compared",
        "PG201",
        lines("assert round(«x.max().item()», 2) <= x.min()", "return x"),
    ),
    Case("tensor_assert", "done", "PG304", lines("assert «x.max() < 3»", "return x")),
    Case(
        "tensor_assert",
        "message",
        "PG201",
        lines("assert «x.max().item()» < 3, f'{x}'", "return x"),
    ),
    Case("tensor_assert", "compiled", "PG201", lines("assert «x.max().item()» < 3", "return x")),
    # host_random
    Case(
        "host_random",
        "uniform",
        "PG504",
        "import random\n" + lines("return 1 if «random.uniform(5, 9)» > 4 else 0"),
        lambda: (0,),
    ),
    Case(
        "host_random",
        "decides",
        "PG504",
        "import random\n" + lines("return «random.random()» < 2"),
        lambda: (0,),
    ),
    Case(
        "host_random",
        "compared",
        "PG504",
        "import random\n" + lines("return isinstance(«random.random()», float)"),
        lambda: (0,),
    ),
    Case(
        "host_random",
        "stream",
        "PG504",
        "import random\n" + lines("return 1 if «random.random()» < 2 else 0"),
        lambda: (0,),
    ),
]
