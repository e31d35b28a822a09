"""Preconditions of the rewrites around a region: set-up methods, flags, manual capture."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines

_SETUP = """import torch


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = «torch.nn.Parameter(torch.ones(3))»


class Model(torch.nn.Module):
{methods}
"""


def _setup(*methods: str) -> str:
    return _SETUP.format(methods="\n".join(f"    {line}" for line in methods))


_ONCE = """import threading
import torch

LOCK = threading.Lock()


class State:
    done = False


def forward(x, state=None):
    state = state or State()
    {call}
    return x, {shown}


def prepare(state):
    if state.done:
        return
    with «LOCK»:
        {body}
"""


def _once(
    body: str = "state.done = True", call: str = "prepare(state)", shown: str = "state.done"
) -> str:
    """A function that is to act once."""
    return _ONCE.format(call=call, shown=shown, body=body.replace("\n", "\n        "))


CASES = [
    # setup_once
    Case(
        "setup_once",
        "nothing-back",
        "PG513",
        _once("state.done = True\nreturn 3", "y = prepare(state)", "y"),
        lambda: (torch.ones(2),),
    ),
    Case("setup_once", "set", "PG513", _once("state.count = 1")),
    Case("setup_once", "host-only", "PG513", _once("state.done = torch.ones(2)")),
    Case(
        "setup_once",
        "free",
        "PG513",
        _once() + "\n\ndef _prepare(state):\n    state.done = 3\n",
        lambda: (torch.ones(2),),
    ),
    Case("setup_once", "torch-there", "PG513", _once().replace("import torch\n", "")),
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
