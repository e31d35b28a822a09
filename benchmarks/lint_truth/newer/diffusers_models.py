"""The models of diffusers that the other set measures, in the newer version."""

from __future__ import annotations

import dataclasses

from benchmarks.lint_truth import build_diffusers
from benchmarks.lint_truth.builders import Entry


def entries() -> list[Entry]:
    """All of them, in eval mode; a class that is gone counts as one that cannot be built."""
    return [dataclasses.replace(entry, modes=("eval",)) for entry in build_diffusers.entries()]
