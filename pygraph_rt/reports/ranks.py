"""Reports of several ranks as one: each region once, and what differs between ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pygraph_rt.reports.render import own_words, render

Row = Mapping[str, Any]

_COMPARED: Mapping[str, Callable[[Row], str]] = {
    "state": lambda region: region["state"],
    "choice": lambda region: region["choice"] or "none",
    "kernels": lambda region: str(region["nodes"]),
    "calls": lambda region: str(region["served"] + region["unserved"]),
    "reason": lambda region: own_words(region) or "none",
}
"""What is the same on all ranks of a job that are in step. Served calls aside: each rank captures
when it has seen enough.
"""


def merge(ranks: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """The regions of all ranks, by the ranks' names: each as the first rank that has it reports it,
    with a list `differs` of what others say.
    """
    found: dict[tuple[str, str, int], dict[str, Row]] = {}
    for rank, regions in ranks.items():
        seen: dict[tuple[str, str], int] = {}
        for region in regions:
            place = (region["name"], region["source"])
            seen[place] = seen.get(place, 0) + 1
            found.setdefault((*place, seen[place]), {})[rank] = region
    return [
        {**next(iter(rows.values())), "differs": _differences(rows, list(ranks))}
        for rows in found.values()
    ]


def render_ranks(ranks: Mapping[str, Sequence[Row]]) -> str:
    """The merged report as text."""
    merged = merge(ranks)
    differing = sum(bool(region["differs"]) for region in merged)
    said = f"{differing} of {len(merged)} regions differ" if differing else "no region differs"
    return f"{len(ranks)} ranks ({', '.join(ranks)}): {said} between them.\n{render(merged)}"


def _differences(rows: Mapping[str, Row], ranks: Sequence[str]) -> list[str]:
    """What differs between the rows of one region, a sentence each."""
    missing = [rank for rank in ranks if rank not in rows]
    found = [f"differs: only {', '.join(rows)} compiled it"] if missing else []
    for name, value in _COMPARED.items():
        values: dict[str, list[str]] = {}
        for rank, row in rows.items():
            values.setdefault(value(row), []).append(rank)
        if len(values) > 1:
            each = "; ".join(f"{said} on {', '.join(on)}" for said, on in values.items())
            found.append(f"differs: {name} is {each}")
    return found
