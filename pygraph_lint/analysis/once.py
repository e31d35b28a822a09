"""Functions that run once, or now and then: they set up, load, save or export, by their names."""

from __future__ import annotations

import re

from pygraph_lint.analysis.model import FunctionFacts

_IN_LOOPS = re.compile(
    r"(^|_)(lazy|initiali[sz]e|setup|set_up|connect|register_\w+|checkpoint)(_|$)"
    r"|^_*(evaluate|eval|validate|validation|val)(_(?!args|input|action)|$)|^_*(load|save)_"
)
# What a sequence starts with is made on each call: `init_hidden`, `initialize_state`.
_IN_MODELS = re.compile(
    r"(^|_)(lazy_init|(initiali[sz]e|setup|set_up)(?!_\w*(hidden|state|cache|memory))"
    r"|calibrate|calibration|export|exporting|register_\w+)(_|$)"
    r"|^_*(init_(param|weight|embed|codebook|buffer)|(load|save)_)"
)


def once_in_loops(function: str) -> bool:
    """Whether a function that a training loop calls does not run on every step."""
    return _IN_LOOPS.search(function.rpartition(".")[2]) is not None


def once_in_models(function: FunctionFacts) -> bool:
    """Whether a function that a model's forward leads to does not run on every call of compiled
    code: what waits for something else is not compiled.
    """
    sleeps = any(event.subject == "time.sleep" for event in function.events)
    return sleeps or _IN_MODELS.search(function.name.rpartition(".")[2]) is not None
