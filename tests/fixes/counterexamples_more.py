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


_SETUP = """import torch


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = «torch.nn.Parameter(torch.ones(3))»


class Model(torch.nn.Module):
{methods}
"""


def _constant(call: str) -> str:
    """A model that makes a tensor in forward."""
    return (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n\n    def forward(self, x: torch.Tensor):\n"
        f"        t = «{call}»\n        return x * t\n\n\nforward = Model()\n"
    )


def _setup(*methods: str) -> str:
    return _SETUP.format(methods="\n".join(f"    {line}" for line in methods))


_CHAIN = ("if «x.sum() > 0»:", "    x = x * 2")

CASES = [
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
    # host_setup
    Case(
        "host_setup",
        "one",
        "PG511",
        _setup(
            "def first(self):",
            "    self.part = Part()",
            "",
            "def second(self):",
            "    self.part = Part()",
            "",
            "def forward(self, x):",
            "    self.first()",
            "    self.second()",
            "    return x",
        ),
    ),
    Case(
        "host_setup",
        "bare",
        "PG511",
        _setup(
            "@torch.jit.unused",
            "def first(self):",
            "    self.part = Part()",
            "",
            "def forward(self, x):",
            "    self.first()",
            "    return x",
        ),
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
    # optimizer_capturable
    Case(
        "optimizer_capturable",
        "one",
        "PG603",
        lines("a = torch.optim.Adam(x)", "a = torch.optim.SGD(x)", "«a.step()»"),
    ),
    Case(
        "optimizer_capturable",
        "optimizer",
        "PG603",
        "from mine import Adam\n" + lines("a = Adam(x)", "«a.step()»"),
    ),
    Case(
        "optimizer_capturable",
        "starred",
        "PG603",
        lines("a = torch.optim.Adam(x, **options)", "«a.step()»", head="x, options"),
    ),
    Case(
        "optimizer_capturable",
        "counted",
        "PG603",
        lines("a = torch.optim.Adam(x)", "«a.step()»"),
    ),
    # autocast_cache
    Case(
        "autocast_cache",
        "positional",
        "PG605",
        lines("with «torch.autocast('cuda', None, True, True)»:", "    pass"),
    ),
    Case(
        "autocast_cache",
        "starred",
        "PG605",
        lines("with «torch.autocast('cuda', **x)»:", "    pass"),
    ),
    Case(
        "autocast_cache",
        "each-use",
        "PG605",
        lines("with «torch.autocast('cuda')»:", "    pass"),
    ),
    # kept_output
    Case("kept_output", "tensor", "PG601", lines("seen.append(«x»)", head="x, seen")),
    Case(
        "kept_output",
        "copy",
        "PG601",
        lines("seen.append(«x»)", "return seen[-1]", head="x: torch.Tensor, seen"),
        lambda: (torch.ones(3), []),
    ),
    # generator_registered
    Case(
        "generator_registered",
        "graph",
        "PG606",
        lines(
            "with torch.cuda.graph(torch.cuda.CUDAGraph()):",
            "    «torch.rand(2, generator=g)»",
            head="g",
        ),
    ),
    Case(
        "generator_registered",
        "draws",
        "PG606",
        lines("with torch.cuda.graph(x):", "    «torch.rand(2, generator=g)»", head="x, g"),
    ),
    # stream_order
    Case(
        "stream_order",
        "named",
        "PG607",
        lines("with «torch.cuda.stream(x())»:", "    pass"),
    ),
    Case(
        "stream_order",
        "only",
        "PG607",
        lines("with torch.no_grad(), «torch.cuda.stream(x)»:", "    pass"),
    ),
    Case("stream_order", "alone", "PG607", lines("with «torch.cuda.stream(x)»: pass")),
    Case("stream_order", "order", "PG607", lines("with «torch.cuda.stream(x)»:", "    pass")),
    # backend_flags
    Case(
        "backend_flags",
        "unnamed",
        "PG519",
        lines("with «torch.backends.cudnn.flags(enabled=False)» as seen:", "    return seen"),
    ),
    Case(
        "backend_flags",
        "flags",
        "PG519",
        lines("with «torch.backends.cudnn.flags(enabled=False)»:", "    return x.sin()"),
    ),
]
