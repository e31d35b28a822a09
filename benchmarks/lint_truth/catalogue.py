"""The measured models of all packages, each with its family (the unit of the two halves)."""

from __future__ import annotations

import dataclasses
import importlib

from benchmarks.lint_truth.builders import Entry
from benchmarks.lint_truth.families import family_of
from benchmarks.lint_truth.versions import SETS, VersionSet


def catalogue(versions: VersionSet = SETS["current"]) -> list[Entry]:
    """Everything that is measured with `versions`, in a fixed order."""
    found = [
        entry
        for name in versions.sources
        for entry in importlib.import_module(f"{__package__}.{name}").entries()
    ]
    return [dataclasses.replace(entry, family=family_of(entry)) for entry in found]
