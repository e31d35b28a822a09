"""Functions that do not run on every step, by what they or their classes are called: they set up,
load, save, export or evaluate."""

from __future__ import annotations

import re

from pygraph_lint.analysis.program.program import Program

_IN_LOOPS = re.compile(
    r"(^|_)(lazy|initiali[sz]e|setup|set_up|connect|register_\w+|checkpoint)(_|$)"
    r"|^_*(evaluate|eval|validate|validation|val)(_(?!args|input|action)|$)|^_*(load|save)_"
)
def runs_once_in_loops(function: str) -> bool:
    """Whether a function that a training loop calls does not run on every step."""
    return _IN_LOOPS.search(function.rpartition(".")[2]) is not None


def is_library_metric(program: Program, function: str) -> bool:
    """Whether a method's class derives from a metric of a library: it evaluates, and counts where a
    step calls it.
    """
    facts = program.functions.get(function)
    lineage = program.lineage(facts.owner) if facts is not None else ()
    bases = (base for name in lineage for base in program.classes[name].bases)
    return any(base.endswith("Metric") and program.class_named(base) is None for base in bases)
