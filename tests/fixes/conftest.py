"""What tests of rewrites share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixes.support import forget_modules


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """An empty folder that the test module's `MODULES` are imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget_modules(request.module.MODULES)
