"""Preconditions of the rewrites around a region: set-up methods, flags, manual capture."""

from __future__ import annotations

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


CASES = [
    # setup_once
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
    # autocast_cache
    # kept_output
    # generator_registered
    # stream_order
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
