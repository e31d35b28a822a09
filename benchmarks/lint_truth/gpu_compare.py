"""The pretended device against a real GPU: which synchronising lines did it name?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Run = tuple[str, str]
Place = tuple[str, int]

#: GPU pass -> the stage of the truth records that it answers, and the kinds that answer it.
PASSES = {
    "sync": ("ghost", frozenset({"sync", "h2d", "d2h"})),
    "sync_compiling": ("ghost_compiling", frozenset({"sync", "h2d", "d2h"})),
    "copies": ("ghost_compiling", frozenset({"host_tensor"})),
}

#: Events of a GPU pass that count.
GPU_KINDS = {
    "sync": frozenset({"sync"}),
    "sync_compiling": frozenset({"sync"}),
    "copies": frozenset({"host_tensor"}),  # torch.tensor(...) is hidden from a dispatch mode
}


def _events(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    result = record["result"]
    events: list[Mapping[str, Any]] = result["events"] if isinstance(result, dict) else result
    return events


def _places(record: Mapping[str, Any], kinds: frozenset[str]) -> set[Place]:
    return {(e["file"], e["line"]) for e in _events(record) if e["kind"] in kinds}


def compare(
    ghost_records: Iterable[Mapping[str, Any]], gpu_records: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """For each GPU pass: how many of its lines the pretended device named, and the others.

    Counted once per model and mode (`line_runs`) and once per source line (`lines`).
    """
    ghost: dict[tuple[str, Run], Mapping[str, Any]] = {}
    for record in ghost_records:
        if "result" in record and record.get("stage") in ("ghost", "ghost_compiling"):
            ghost[(record["stage"], (record["model"], record["mode"]))] = record
    answers: dict[str, Any] = {}
    for name, (stage, kinds) in PASSES.items():
        runs = total = named = 0
        seen: dict[Place, list[bool]] = defaultdict(list)
        extra: dict[Place, int] = defaultdict(int)
        for record in gpu_records:
            if record.get("stage") != name or "result" not in record:
                continue
            answer = ghost.get((stage, (record["model"], record["mode"])))
            if answer is None:
                continue
            runs += 1
            real = _places(record, GPU_KINDS[name])
            pretended = _places(answer, kinds)
            total += len(real)
            named += len(real & pretended)
            for place in real:
                seen[place].append(place in pretended)
            for place in pretended - real:
                extra[place] += 1
        answers[name] = {
            "runs": runs,
            "line_runs": total,
            "line_runs_named": named,
            "lines": len(seen),
            "lines_named": sum(all(flags) for flags in seen.values()),
            "missed": sorted(f"{f}:{line}" for (f, line), flags in seen.items() if not all(flags)),
            "only_pretended": sorted(f"{f}:{line}" for f, line in extra if (f, line) not in seen),
        }
    return answers


def gpu_sites(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every line with an event on the GPU: file, line, kinds, and the models that show them."""
    kinds: dict[Place, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        if "result" not in record:
            continue
        for event in _events(record):
            kind = event["kind"]
            if record["stage"] == "sync":
                kind = "sync_eager"
            kinds[(event["file"], event["line"])][kind].add(f"{record['model']}:{record['mode']}")
    return [
        {
            "file": file,
            "line": line,
            "kinds": {kind: sorted(models) for kind, models in sorted(found.items())},
        }
        for (file, line), found in sorted(kinds.items())
    ]
