"""Preconditions of the rewrites of masks, chains of arms, loops, set-up methods and replay."""

from __future__ import annotations

import numpy as np
import torch

from tests.fixes.counterexamples import Case, lines

_DROP = """import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, p):
        for layer in [torch.sin, torch.cos]:
            draw = torch.rand([])
{body}
        return x


forward = Model()
"""


def _loop(*body: str) -> str:
    return _DROP.format(body="\n".join(f"            {line}" for line in body))


def _bounds(made: str) -> str:
    """Slices bounded by what is made of a list."""
    body = (f"ends = {made}", "for end in ends:", "    x[: «end»] += 1", "return x")
    return lines(*body, head="x, sizes")


def _constant(call: str) -> str:
    """A model that makes a tensor in forward."""
    return (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n\n    def forward(self, x: torch.Tensor):\n"
        f"        t = «{call}»\n        return x * t\n\n\nforward = Model()\n"
    )


_CHAIN = ("if «x.sum() > 0»:", "    x = x * 2")


MODULE = "class C(torch.nn.Module):"


def _held(head: str, *constructor: str) -> str:
    """A class with this constructor, whose method reads an attribute."""
    body = "\n".join(f"        {line}" for line in constructor)
    method = "    def forward(self, x):\n        return x * «self.m»\n"
    return f"import torch\n\n{head}\n    def __init__(self):\n{body}\n\n{method}"


CASES = [
    # guard_logging
    Case("guard_logging", "statement", "PG501", lines("y = «print(x)»", "return y")),
    Case("guard_logging", "only-says", "PG502", lines("«x.append(1)»", "return x")),
    # the other guards
    Case("guard_effect", "statement", "PG508", lines("return «x.requires_grad_()»")),
    Case("guard_check", "only-checks", "PG402", lines("return check(«x[x > 0]»)")),
    # attribute_buffer
    *(
        Case("attribute_buffer", name, "PG105", _held(*lines_of))
        for name, *lines_of in (
            ("module", "class C(Base):", "super().__init__()", "self.m = torch.ones(3)"),
            ("ready", MODULE, "self.m = torch.ones(3)", "super().__init__()"),
            ("tensor", MODULE, "super().__init__()", "self.m = make()"),
            ("alone", MODULE, "super().__init__()", "self.n = 1; self.m = torch.ones(3)"),
            ("follows", MODULE, "super().__init__()", "self.m = torch.ones(3)"),
        )
    ),
    # item_branch
    Case("item_branch", "alone", "PG201", lines("if «x.sum().item()» > 0: x = x * 2", "return x")),
    Case(
        "item_branch",
        "pure",
        "PG201",
        lines(
            "if «x.pop().sum().item()» > 0:",
            "    return torch.relu(y)",
            "return torch.abs(y)",
            head="x, y",
        ),
    ),
    Case(
        "item_branch",
        "selected",
        "PG201",
        lines("if «x.max().item()» > 0.1:", "    x = x * 2", "return x"),
        lambda: (torch.tensor([0.1]),),
    ),
    # mask_write
    Case(
        "mask_write",
        "one-target",
        "PG406",
        lines("«x[x < 0]» = y = 5", "return x, y"),
        lambda: (-torch.ones(3),),
    ),
    Case(
        "mask_write",
        "number",
        "PG406",
        lines("«x[x < 0]» = y", "return x", head="x, y"),
        lambda: (-torch.ones(3), torch.arange(3.0)),
    ),
    Case(
        "mask_write",
        "own-mask",
        "PG406",
        lines("«x[y]» = 0", "return x", head="x, y"),
        lambda: (torch.ones(3, 3), torch.tensor([True, False, False])),
    ),
    Case(
        "mask_write",
        "fits",
        "PG406",
        lines("«x[x < 0]» = -1e9", "return x"),
        lambda: (-torch.ones(3, dtype=torch.float16),),
    ),
    # item_arithmetic
    Case(
        "item_arithmetic",
        "arithmetic",
        "PG201",
        lines("return x * 2, «x.sum().item()»"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "item_arithmetic",
        "promotion",
        "PG201",
        lines("return x * «y.item()»", head="x: torch.Tensor, y"),
        lambda: (torch.ones(3, dtype=torch.int32), torch.ones((), dtype=torch.float64)),
    ),
    # mask_copy
    Case(
        "mask_copy",
        "same-mask",
        "PG406",
        lines("y = torch.zeros_like(x)", "«y[x < 0]» = x[x > 0]", "return y"),
        lambda: (torch.tensor([-1.0, 2.0]),),
    ),
    Case(
        "mask_copy",
        "pure-mask",
        "PG406",
        lines(
            "y = torch.zeros(2, 2)",
            "z = torch.ones(2, 2)",
            "«y[m.pop().view(2, -1)]» = z[m.pop().view(2, -1)]",
            "return y, len(m)",
            head="m",
        ),
        lambda: ([torch.tensor([True, False, True, False])] * 3,),
    ),
    Case(
        "mask_copy",
        "fits",
        "PG406",
        lines("y = torch.zeros_like(x)", "«y[m]» = x[m]", "return y", head="x, m"),
        lambda: (torch.ones(2, 2), torch.tensor([True, False])),
    ),
    Case(
        "mask_copy",
        "refused",
        "PG406",
        lines("«x[x > 0]» = y[x > 0]", "return x", head="x, y"),
        lambda: (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    ),
    # masked_reduction
    Case(
        "masked_reduction",
        "whole",
        "PG402",
        lines("return «x[x > 0]».sum(dtype=torch.float64)"),
        lambda: (torch.ones(2),),
    ),
    Case(
        "masked_reduction",
        "pure-mask",
        "PG402",
        lines("y = torch.zeros(2, 2)", "return «y[m.pop().view(2, -1)]».sum(), len(m)", head="m"),
    ),
    Case(
        "masked_reduction",
        "fits",
        "PG402",
        lines("return «x[m]».sum()", head="x, m"),
        lambda: (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([True, False])),
    ),
    Case(
        "masked_reduction",
        "order",
        "PG402",
        lines("return «x[x > 0]».mean()"),
        lambda: (torch.tensor([1, 2]),),
    ),
    # tensor_chain
    Case(
        "tensor_chain",
        "not-elif",
        "PG301",
        lines(
            "if n:",
            "    x = x * 3",
            "elif «x.sum() > 0»:",
            "    x = x * 2",
            "elif n == 0:",
            "    x = x * 5",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
    ),
    Case(
        "tensor_chain",
        "no-statics",
        "PG301",
        lines(
            "if n and «x.sum() > 0»:",
            "    x = x * 2",
            "elif n == 0:",
            "    x = x * 5",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
        lambda: (torch.ones(3), 0),
    ),
    Case(
        "tensor_chain",
        "static-elif",
        "PG301",
        lines(
            *_CHAIN,
            "elif n.pop():",
            "    x = x * 5",
            "else:",
            "    x = x * 4",
            "return x, len(n)",
            head="x, n",
        ),
        lambda: (torch.ones(3), [0, 1]),
    ),
    Case(
        "tensor_chain",
        "same-names",
        "PG301",
        lines(
            "y = x * 1",
            "if «x.sum() > 0»:",
            "    y = x * 2",
            "    x = x * 3",
            "elif n == 0:",
            "    y = x * 5",
            "    x = x * 6",
            "else:",
            "    x = x * 4",
            "    y = x.exp()",
            "return x, y",
            head="x, n",
        ),
        lambda: (torch.ones(3), 1),
    ),
    Case(
        "tensor_chain",
        "both-arms",
        "PG301",
        lines(
            *_CHAIN,
            "elif n == 0:",
            "    x = x.double()",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
        lambda: (torch.ones(3), 0),
    ),
    Case(
        "tensor_chain",
        "alone",
        "PG301",
        lines(
            "if «x.sum() > 0»: x = x * 2",
            "elif n == 0:",
            "    x = x * 5",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
    ),
    Case(
        "tensor_chain",
        "once",
        "PG301",
        lines(
            "if «x.sum() > 0»:",
            "    x = x * 3",
            "    x = x * 2",
            "elif n == 0:",
            "    x = x * 6",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
        lambda: (torch.ones(3), 1),
    ),
    Case(
        "tensor_chain",
        "pure",
        "PG301",
        lines(
            *_CHAIN,
            "elif n:",
            "    x = x * n.pop()",
            "else:",
            "    x = x * 4",
            "return x, len(n)",
            head="x, n",
        ),
        lambda: (torch.ones(3), [2]),
    ),
    Case(
        "tensor_chain",
        "tensors",
        "PG301",
        lines(
            "y = 0",
            "if «x.sum() > 0»:",
            "    y = 2",
            "elif n == 0:",
            "    y = 5",
            "else:",
            "    y = 4",
            "return y",
            head="x, n",
        ),
        lambda: (torch.ones(3), 0),
    ),
    Case(
        "tensor_chain",
        "no-comments",
        "PG301",
        lines(
            "if «x.sum() > 0»:",
            "    x = x * 2  # twice",
            "elif n == 0:",
            "    x = x * 5",
            "else:",
            "    x = x * 4",
            "return x",
            head="x, n",
        ),
    ),
    # always_layer
    Case(
        "always_layer",
        "drawn",
        "PG306",
        "import random\n"
        + _loop("if «draw < p»:", "    continue", "x = layer(x)").replace(
            "torch.rand([])", "random.random()"
        ),
        lambda: (torch.ones(3), 1.0),
    ),
    Case(
        "always_layer",
        "carried",
        "PG306",
        _loop("if «draw < p»:", "    continue", "x = layer(p)"),
    ),
    Case(
        "always_layer",
        "tensor",
        "PG306",
        "import torch\n\n\ndef forward(x, p):\n    for layer in [abs, len]:\n"
        "        if «torch.rand([]) < p»:\n            continue\n        x = layer(x)\n"
        "    return x\n",
        lambda: ([1, 2], 1.0),
    ),
    Case(
        "always_layer",
        "always",
        "PG306",
        _loop("if «draw < p»:", "    continue", "x = layer(x)"),
    ),
    Case(
        "always_layer",
        "ends",
        "PG306",
        _loop("if p:", "    if «draw < p»:", "        continue", "    x = x + 1", "x = layer(x)"),
        lambda: (torch.ones(3), 1e-9),
    ),
    Case(
        "always_layer",
        "rest",
        "PG306",
        _loop("if «draw < p»:", "    continue", "else:", "    x = layer(x)", "x = x + 1"),
        lambda: (torch.ones(3), 0.0),
    ),
    Case(
        "always_layer",
        "only-here",
        "PG306",
        _loop(
            "drop = False",
            "if «draw < p»:",
            "    drop = True",
            "if not drop:",
            "    x = layer(x)",
        ).replace("        return x\n", "        return x, drop\n"),
        lambda: (torch.ones(3), 0.0),
    ),
    Case(
        "always_layer",
        "alone",
        "PG306",
        _loop("if «draw < p»: continue", "else: x = layer(x)"),
    ),
    Case(
        "always_layer",
        "no-comments",
        "PG306",
        _loop("if «draw < p»:", "    continue", "# the layer", "x = layer(x)"),
    ),
    # scalar_fill
    Case(
        "scalar_fill",
        "plain",
        "PG104",
        lines(
            "t = «torch.tensor(1.0, device='cpu', requires_grad=True)»",
            "return (t * x).sum().requires_grad",
        ),
    ),
    Case(
        "scalar_fill",
        "device",
        "PG104",
        lines("return «torch.tensor(1.0, dtype=x.dtype)» * x"),
    ),
    Case(
        "scalar_fill",
        "number",
        "PG104",
        lines("return «torch.tensor(n, dtype=x.dtype, device=x.device)» * x", head="x, n"),
        lambda: (torch.ones(2), [1.0, 2.0]),
    ),
    Case(
        "scalar_fill",
        "typed",
        "PG104",
        lines("return «torch.tensor(n, device=x.device)»", head="x, n"),
        lambda: (torch.ones(2), np.float64(1.0)),
        notes={"number": "yes"},
    ),
    Case(
        "scalar_fill",
        "written",
        "PG104",
        lines("return «torch.tensor(n, dtype=x.dtype, device=x.device)»", head="x, n"),
        lambda: (torch.ones(2), 1e39),
        notes={"number": "yes"},
    ),
    # constant_buffer
    Case(
        "constant_buffer",
        "plain",
        "PG104",
        _constant("torch.tensor([1.0, 2.0], requires_grad=True)"),
        lambda: (torch.ones(2),),
    ),
    Case(
        "constant_buffer",
        "constant",
        "PG104",
        _constant("torch.tensor([1.0, x.numel()])"),
    ),
    Case(
        "constant_buffer",
        "fixed-dtype",
        "PG104",
        _constant("torch.tensor([1.0, 2.0], dtype=x.dtype)"),
    ),
    Case(
        "constant_buffer",
        "module",
        "PG104",
        _constant("torch.tensor([1.0, 2.0])").replace("(torch.nn.Module)", "(Base)"),
    ),
    Case(
        "constant_buffer",
        "joined",
        "PG104",
        _constant("torch.tensor([1.0, 2.0])").replace("return x * t", "return t.add_(x)"),
    ),
    Case(
        "constant_buffer",
        "follows",
        "PG104",
        _constant("torch.tensor([1.0, 2.0])"),
    ),
    # host_bounds
    Case(
        "host_bounds",
        "bounds",
        "PG407",
        _bounds("torch.tensor(sizes)").replace("return x", "return x, ends"),
        lambda: (torch.ones(3), [1, 2]),
    ),
    Case(
        "host_bounds",
        "once",
        "PG407",
        _bounds("torch.tensor(sizes)").replace("    for", "    ends = ends + 1\n    for"),
    ),
    Case(
        "host_bounds",
        "flat",
        "PG407",
        _bounds("torch.tensor(sizes).cumsum(1)"),
        lambda: (torch.ones(3), [1, 2]),
    ),
    Case(
        "host_bounds",
        "plain",
        "PG407",
        _bounds("torch.tensor(sizes, dtype=torch.int8)"),
        lambda: (torch.ones(3), [1.5]),
    ),
    Case(
        "host_bounds",
        "builtin",
        "PG407",
        _bounds("torch.tensor(sizes)").replace("x[: «end»] += 1", "x = x + range(«end»)")
        + "\n\ndef range(n):\n    return n / 2 if torch.is_tensor(n) else 0\n",
        lambda: (torch.ones(3), [1, 2]),
    ),
    Case(
        "host_bounds",
        "numbers",
        "PG407",
        _bounds("torch.tensor([[1], [2]]).cumsum(0)"),
        lambda: (torch.ones(3), [1, 2]),
    ),
    Case("host_bounds", "proven", "PG407", _bounds("torch.tensor(sizes.numbers)")),
    # factory_gradient
    Case(
        "factory_gradient",
        "asked",
        "PG508",
        lines("return «torch.zeros_like(x).requires_grad_(n)»", head="x, n"),
        lambda: (torch.ones(2), False),
    ),
    Case(
        "factory_gradient",
        "starred",
        "PG508",
        lines("return «torch.zeros(2, **n).requires_grad_()»", head="x, n"),
        lambda: (torch.ones(2), {"requires_grad": False}),
    ),
    Case(
        "factory_gradient",
        "compiled",
        "PG508",
        lines("return «torch.zeros_like(x).requires_grad_()»"),
    ),
    # builtin_math
    Case(
        "builtin_math",
        "tensors",
        "PG206",
        "import math\n" + lines("return «math.sqrt(n)» * x", head="x: torch.Tensor, n"),
        lambda: (torch.ones(3), 4),
    ),
    Case(
        "builtin_math",
        "joined",
        "PG206",
        "import math\n" + lines("return x * 2, «math.sqrt(x.sum())»"),
        lambda: (torch.ones(3),),
    ),
    Case(
        "builtin_math",
        "promotion",
        "PG206",
        "import math\n" + lines("return y * «math.sqrt(x.sum())»", head="x: torch.Tensor, y"),
        lambda: (torch.ones(3, dtype=torch.float64), torch.ones((), dtype=torch.float32)),
    ),
]
