"""How much of a catalogue was measured, and why the rest was not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

#: Part of an error -> the reason it stands for. First match wins.
_REASONS: tuple[tuple[str, str], ...] = (
    (r"not (?:tiny|small): ", "the shrunk model is still large"),
    (r"requires the|ImportError|ModuleNotFoundError|No module named", "another package is needed"),
    (r"OSError|LocalEntryNotFound|couldn't connect|huggingface\.co", "a download is needed"),
    (r"_ModelFailed", "no tiny configuration was found"),
    (r"has no attribute", "the class is not in this version"),
    (r"missing \d+ required|unexpected keyword|must specify|have to specify", "unknown inputs"),
    (r"ran out of time|ended with status", "over the time limit, or the process ended"),
)
_OTHER = "no inputs were found that it runs on"


def reason_of(error: str) -> str:
    """The class of reasons that an error of the first stage belongs to."""
    for pattern, reason in _REASONS:
        if re.search(pattern, error):
            return reason
    return _OTHER


def coverage(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of entries measured under Dynamo, by package, and of the others, by reason.

    `models` is the truth table's: an entry is measured if Dynamo ran it in some mode.
    """
    measured: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    families = set()
    for name, model in models.items():
        modes = model["modes"].values()
        if any("graphs" in mode for mode in modes):
            kind = name.partition("/")[0] if "/" in name else model["package"]
            measured[kind] += 1
            families.add(model["family"])
        else:
            errors = [text for mode in modes for text in mode.get("errors", {}).values()]
            reasons[reason_of(errors[0]) if errors else _OTHER] += 1
    return {
        "measured": measured.total(),
        "families": len(families),
        "by_kind": dict(measured.most_common()),
        "not_built": reasons.total(),
        "reasons": dict(reasons.most_common()),
    }
