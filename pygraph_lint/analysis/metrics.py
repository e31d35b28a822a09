"""Classes that measure how good a model is."""

from __future__ import annotations

from pygraph_lint.analysis.program import Program


def is_of_library(program: Program, function: str) -> bool:
    """Whether a method's class derives from a metric of a library: it evaluates, and counts where a
    step calls it.
    """
    facts = program.functions.get(function)
    lineage = program.lineage(facts.owner) if facts is not None else ()
    bases = (base for name in lineage for base in program.classes[name].bases)
    return any(base.endswith("Metric") and program.class_named(base) is None for base in bases)
