"""Marks for tests that take long."""

from __future__ import annotations

import os

import pytest

LONG = pytest.mark.skipif(
    os.environ.get("PYGRAPH_LONG") != "1", reason="make test-long runs it: seconds for one case"
)
