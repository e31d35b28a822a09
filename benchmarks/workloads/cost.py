"""The report's section on what a mode costs beside time: memory, and warm-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.workloads import tabular
from benchmarks.workloads.summary import Row

# Wanted at most: a warm-up so many times as long as reduce-overhead's, and so many times default's
# memory.
WARM_UP = 1.3
MEMORY = 1.1


def section(rows: list[Row], present: Sequence[str], notes: Mapping[str, str]) -> str:
    """The tables of memory and warm-up of the variants that are `present`, what is beyond the
    bounds, and `notes` on workloads.
    """
    names = [name for name in present if name != "eager"]
    header = ["workload", "eager, MiB", *(f"{name}, MiB" for name in names)]
    header += [f"{name} warm-up, s" for name in names]
    header.append("pygraph over reduce-overhead")
    body, ratios = [], []
    for row in rows:
        cells = [
            tabular.whole_mib(row.memory("eager")),
            *(tabular.whole_mib(row.memory(name)) for name in names),
        ]
        cells += [_warm_up(row, name) for name in names]
        ratio = row.warm_up_ratio()
        ratios += [] if ratio is None else [ratio]
        body.append([f"`{row.name}`", *cells, tabular.times(ratio)])
    note = (
        "Peak reserved memory in steady state. Warm-up is from the first call to steady state with "
        "cold compiler caches; it was taken with other processes on the machine, so read it as a "
        "ratio between columns, and not where a star says that machine or company were not those "
        "of reduce-overhead."
    )
    if ratios:
        note += (
            f" Where both were measured alike, pygraph's takes {tabular.mean(ratios)} as long as "
            f"reduce-overhead's; {sum(r <= WARM_UP for r in ratios)} of them take at most "
            f"{WARM_UP} times as long, the longest {max(ratios):.2f} times."
        )
    return "\n\n".join([note, tabular.markdown(header, body), *_beyond(rows, notes)])


def _beyond(rows: list[Row], notes: Mapping[str, str]) -> list[str]:
    """Workloads that need more memory than is wanted, and what is known of any."""
    body = []
    for row in rows:
        most, ours = _most_memory(row), row.memory("pygraph")
        if most is not None and ours is not None and ours > most:
            sizes = [most, ours, row.allocated("default"), row.allocated("pygraph")]
            body.append([f"`{row.name}`", *map(tabular.whole_mib, sizes)])
    parts = []
    if body:
        header = ["workload", "bound, MiB", "pygraph, MiB", "allocated in default mode, MiB"]
        header.append("allocated with pygraph, MiB")
        note = (
            f"More than {MEMORY} times default's memory, or more than reduce-overhead's; "
            "*allocated* is the peak of what is in use, the rest is held by torch's allocator."
        )
        parts += [note, tabular.markdown(header, body)]
    told = [f"- `{row.name}`: {notes[row.name]}" for row in rows if row.name in notes]
    if told:
        parts += ["What is known of memory and of longer warm-ups:", "\n".join(told)]
    return parts


def _most_memory(row: Row) -> float | None:
    """The reserved bytes that are wanted at most."""
    default, theirs = row.memory("default"), row.memory("reduce-overhead")
    if default is None:
        return None
    return MEMORY * default if theirs is None else min(MEMORY * default, theirs)


def _warm_up(row: Row, name: str) -> str:
    seconds = row.warm_up_s(name)
    if seconds is None:
        return "-"
    return f"{seconds:.1f}" + ("" if row.beside(name) == row.beside("reduce-overhead") else "*")
