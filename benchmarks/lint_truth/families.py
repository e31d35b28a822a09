"""Families of models, the unit of the two halves."""

from __future__ import annotations

import re

from benchmarks.lint_truth.builders import Entry

#: The end of a class name that says which head a model has.
HEAD = re.compile(r"(Model|For[A-Z].*|Encoder|TextModel|VisionModel)$")


def family_of(entry: Entry) -> str:
    """The family of a model: its class name without the head ("BartForX" -> "Bart")."""
    return entry.family or HEAD.sub("", entry.cls)
