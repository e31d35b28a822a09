"""Preconditions of the rewrite of a function that is called with masked rows."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case


def _call(
    *body: str,
    given: str = "x, *rest",
    call: str = "y[m] = f(«x[m]»)",
    mask: str = "(x >= 0)",
    before: str = "y = torch.zeros_like(x)",
    result: str = "y",
) -> str:
    """A function ``f`` with this body, and code that calls it with masked rows."""
    function = "\n".join(["def f(a, b=1):", *(f"    {line}" for line in body)])
    return (
        f"import torch\n\n\n{function}\n\n\ndef forward({given}):\n    {before}\n"
        f"    m = {mask}\n    {call}\n    return {result}\n"
    )


_SOME = torch.tensor([1.0, -2.0, 3.0])

CASES = [
    Case(
        "masked_call",
        "once",
        "PG402",
        _call("return a * 2", call="for _ in range(2):\n        y[m] = f(«x[m]»)"),
    ),
    Case(
        "masked_call",
        "alone",
        "PG402",
        _call("return a * 2", call="y[m] = f(«x[m]»); return y"),
        lambda: (_SOME,),
    ),
    Case(
        "masked_call",
        "plain",
        "PG402",
        _call("return a * b", call="y[m] = f(«x[m]», x[m] + 0)"),
        lambda: (_SOME,),
    ),
    Case(
        "masked_call",
        "fits",
        "PG402",
        _call("return a * 2", before="y = torch.zeros(3, 3)", mask="(x >= 2)"),
        lambda: (_SOME,),
    ),
    Case(
        "masked_call",
        "tested",
        "PG402",
        _call("return torch.sqrt(a)", given="x, z", call="y[m] = f(«z[m]»)"),
        lambda: (_SOME, torch.tensor([1.0, -4.0, 9.0], requires_grad=True)),
    ),
    Case(
        "masked_call",
        "apart",
        "PG402",
        _call(
            "return a + 0, b",
            before="y = torch.ones_like(x)\n    z = torch.zeros_like(x)",
            call="y[m], z[m] = f(«x[m]», y[m])",
            result="y, z",
        ),
        lambda: (_SOME,),
    ),
    Case(
        "masked_call",
        "steady",
        "PG402",
        _call(
            "check(a)",
            "return a * 2",
            given="x, low=0.0",
            mask="(x >= low)\n    low = -1.0",
        )
        + "\n\ndef check(a):\n    if (a < 0).any():\n        raise ValueError\n",
        lambda: (_SOME,),
    ),
    Case(
        "masked_call",
        "branches",
        "PG402",
        _call(*(["if b > 9:", "    raise ValueError"] * 9), "return a * 2"),
    ),
    Case(
        "masked_call",
        "each",
        "PG402",
        _call(
            "return b * 2",
            given="x, z",
            mask="(x >= 2)",
            call="y[m] = f(«x[m]», z[m, :])",
        ),
        lambda: (_SOME, torch.ones(3, 1)),
    ),
    Case(
        "masked_call",
        "everywhere",
        "PG402",
        _call("return a * 2", before="y = torch.zeros_like(x, dtype=torch.float64)"),
        lambda: (_SOME,),
    ),
    Case(
        "leading",
        "own",
        "PG402",
        _call(
            "b[..., 0] = 0",
            "return a + b.sum(dim=-1)",
            given="x, z",
            call="y[m] = f(«x[m]», z[m, :])",
        ),
        lambda: (_SOME, torch.ones(3, 2)),
    ),
]
