"""The report as text: a row of numbers for each region, and under it what they mean."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH

WIDTH = 100
_OPEN = {
    "observing": "too few calls so far to tell whether a graph would pay",
    "capturing": "a graph is being made",
    "verifying": "a graph is being made",
    "deciding": "calls alternate with and without graph, until it is clear which is faster",
}
_HEAD = ("region", "state", "kernels", "calls", "graph ms", "no graph ms", "patched")


def render(regions: Sequence[Mapping[str, Any]]) -> str:
    """All regions, in lines of at most 100 columns."""
    if not regions:
        return "pygraph: nothing was compiled with this backend yet."
    rows = [_HEAD, *(_row(region) for region in regions)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1))
    lines = [_aligned(rows[0], widths)]
    wrapper = textwrap.TextWrapper(WIDTH, "  ", "    ", break_on_hyphens=False)
    for region, row in zip(regions, rows[1:], strict=True):
        lines.append(_aligned(row, widths))
        for text in details(region):
            lines += wrapper.wrap(text)
    return "\n".join(lines)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    name, state, *numbers = row
    cut = name if len(name) <= widths[0] else f"{name[: widths[0] - 3]}..."
    cells = [cut.ljust(widths[0]), state.ljust(widths[1])]
    cells += [c.rjust(w) for c, w in zip(numbers, widths[2:], strict=True)]
    return "  ".join(cells).rstrip()


def _row(region: Mapping[str, Any]) -> tuple[str, ...]:
    served = region["served"]
    return (
        region["name"],
        region["state"],
        str(region["nodes"] or "-"),
        str(served + region["unserved"]),
        _cost(region["candidates"].get(GRAPH)),
        _cost(region["candidates"].get(NO_GRAPH)),
        f"{region['patched'] / served:.1f}" if served else "-",
    )


def _cost(spread: Mapping[str, Any] | None) -> str:
    """Median and half of what lies between the quartiles."""
    if not spread:
        return "-"
    return f"{spread['median']:.3f} ±{(spread['high'] - spread['low']) / 2:.3f}"


def details(region: Mapping[str, Any]) -> list[str]:
    """What there is to say of a region, beside its numbers: a sentence each."""
    said = []
    if region["source"]:
        said.append(f"from {region['source']}")
    chosen = region["choice"]
    if chosen:
        said.append(f"{chosen}, because {region['choice_why']}")
    elif region["reason"]:
        said.append(own_words(region))
    elif region["state"] in _OPEN:
        said.append(_OPEN[region["state"]])
    if region["graphs"]:
        said.append(_sizes(region))
    if region["host_values"]:
        size = _bytes(region["host_bytes"])
        said.append(
            f"CPU values copied to the GPU ahead of a call: {region['host_values']} ({size})"
        )
    if region["note"]:
        said.append(f"{region['note']}.")
    said += [
        f"{calls} calls ran without a graph, because {why}"
        for why, calls in region["misses"].items()
    ]
    said += [f"{note}." for note in region["host_notes"]]
    said += [_cut(cut) for cut in region["cuts"]]
    said += region.get("differs", [])
    # What was refused as a whole graph was refused for its build, its GPU or its settings.
    looked_at = " partition " in region["name"]
    if region["reason"] and looked_at and not chosen and (path := _path(region["source"])):
        said.append(f"pygraph-lint check {path} --target cudagraph lists what stands in the way")
    return said


def own_words(region: Mapping[str, Any]) -> str:
    """The reason without the name and the source, which stand above it."""
    text: str = region["reason"].removeprefix(f"{region['name']} ")
    return text.replace(f" (compiled from {region['source']})", "")


def _sizes(region: Mapping[str, Any]) -> str:
    kept = (
        f"; the driver keeps about {_bytes(region['graph_bytes'])} for its graphs"
        if region["graph_bytes"]
        else ""
    )
    parts = f" in {region['launches']} launches" if region["launches"] > 1 else ""
    return (
        f"a call reads {_bytes(region['moving_bytes'])} of inputs where they are (stock CUDA "
        f"graphs copy them) and {_bytes(region['static_bytes'])} of parameters, and takes "
        f"{_bytes(region['arena_bytes'])} of memory while it runs{parts}{kept}; captured in "
        f"{region['capture_ms']:.0f} ms"
    )


def _cut(cut: Mapping[str, str]) -> str:
    where = f" ({cut['source']})" if cut.get("source") else ""
    rule = f"; {cut['rule']}: {cut['command']}" if cut.get("rule") else ""
    breaks = cut.get("kind") == "graph break"
    kind = "a graph break ends it" if breaks else "Inductor splits it"
    return f"{kind}: {cut.get('why', '')}{where}{rule}"


def _path(source: str) -> str:
    """The file in "function at FILE:LINES"."""
    _, found, place = source.partition(" at ")
    return place.rpartition(":")[0] if found else ""


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
