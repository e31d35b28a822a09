"""A pytest plugin: `--one-in N` runs about one in N cases of each test function, at least one.

Which ones is decided by a hash of their names, the same in each copy of a package.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--one-in", type=int, default=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other cases out."""
    share = config.getoption("--one-in")
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    kept = {min(cases, key=_place) for cases in functions.values()}
    kept |= {item for item in items if _place(item) % share == 0}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _place(item: pytest.Item) -> int:
    return int.from_bytes(hashlib.sha256(item.nodeid.encode()).digest()[:8], "big")
