"""What pygraph decided for each region of this process, where it is in use."""

from __future__ import annotations

import sys
from typing import Any

_UNDECIDED = {"observing", "deciding"}


def regions() -> list[dict[str, Any]]:
    """Every region's row of pygraph's report; none where pygraph was not imported."""
    package = sys.modules.get("pygraph_rt")
    if package is None:
        return []
    found: list[dict[str, Any]] = package.report().to_dict()["regions"]
    return found


def made() -> bool:
    """Whether no region is still being watched or compared."""
    return not any(region["state"] in _UNDECIDED for region in regions())
