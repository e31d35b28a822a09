"""Preconditions of the rewrites around a region: flags."""

from __future__ import annotations

from tests.fixes.counterexamples import Case, lines

CASES = [
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
