"""Proof obligations: each kind that can be proven is explained where it is defined."""

from __future__ import annotations

import re

from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.interprocedural import proof


def test_every_kind_of_obligation_is_explained() -> None:
    lines = (Need.__doc__ or "").splitlines()
    kinds = {
        kind for line in lines if re.match(r"    ``\w+``.* {2}", line) for kind in _kinds(line)
    }
    # An option that is only passed on by its name is never proven itself.
    assert kinds == {*proof._PROOFS, "named"}


def _kinds(line: str) -> list[str]:
    return re.findall(r"``(\w+)``", line.strip().partition("  ")[0])
