"""What all tests share: nothing a test does may touch the user's own caches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Point the linter's cache at a fresh folder for each test."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYGRAPH_LINT_CACHE_DIR", str(folder))
        yield folder
