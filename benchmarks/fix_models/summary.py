"""From the records of the copies to one table: breaks before and after, what differs or stops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.fix_models.records import Key, Record, own_breaks

MODES = ("eval", "train")


def count(record: Record) -> dict[str, int]:
    """Breaks of one record: ``events`` counts each time Dynamo broke, ``sites`` distinct lines."""
    found = own_breaks(record)
    return {"events": len(found), "sites": len({(one["file"], one["line"]) for one in found})}


def verdict(before: Record, after: Record) -> Record:
    """What became of one model in one mode under one variant."""
    if "error" in after:
        return {"stopped": after["error"]}
    row: Record = {"breaks": count(after)}
    if after.get("same_code_as"):
        row["same_code_as"] = after["same_code_as"]
    if after.get("compiled_error") and not before.get("compiled_error"):
        row["stopped"] = f"compiled: {after['compiled_error']}"
    if not after["random_state_equal"]:
        row["random_stream_moved"] = True
    compiled, first = after.get("compiled_equal"), before.get("compiled_equal")
    if compiled and not compiled["equal"] and (first is None or first["equal"]):
        row["compiled_differs"] = compiled
    unequal = {name: found for name, found in after["equal"].items() if not found["equal"]}
    if unequal:
        row["differs"] = unequal
    return row


def rows(
    records: Mapping[str, Mapping[Key, Record]],
    executed: Mapping[Key, Iterable[str]],
    changed: Mapping[str, Mapping[str, list[int]]],
) -> list[Record]:
    """One row per model and mode that ran before the fixes and broke.

    ``records`` by copy ("before" and the variants), ``executed`` the files a model imports,
    ``changed`` by variant: file -> [lines added, lines removed].
    """
    found = []
    for key, before in sorted(records["before"].items()):
        if "error" in before or not own_breaks(before):
            continue
        row: Record = {"model": key[0], "mode": key[1], "before": count(before)}
        for variant in records:
            after = records[variant].get(key)
            if variant == "before" or after is None:
                continue
            row[variant] = verdict(before, after)
            mine = [changed[variant][name] for name in executed[key] if name in changed[variant]]
            row[variant]["lines_changed"] = [sum(one[0] for one in mine), sum(o[1] for o in mine)]
        found.append(row)
    return found


def sums(table: Iterable[Record], mode: str, variant: str) -> Record:
    """Totals of one mode and variant, over the rows that ran in both copies."""
    mine = [row for row in table if row["mode"] == mode and variant in row]
    ran = [row for row in mine if "breaks" in row[variant]]
    result: Record = {"models": len(mine)}
    for unit in ("events", "sites"):
        before = sum(row["before"][unit] for row in ran)
        after = sum(row[variant]["breaks"][unit] for row in ran)
        result[unit] = {"before": before, "after": after, "removed": share(before, after)}
    result["mean_share_per_model"] = _mean(
        share(row["before"]["events"], row[variant]["breaks"]["events"]) for row in ran
    )
    free = [row["model"] for row in ran if not row[variant]["breaks"]["events"]]
    result["models_without_breaks"] = len(free)
    result["differ"] = [row["model"] for row in ran if _differs(row[variant], moved=False)]
    result["differ_with_random_stream"] = [
        row["model"] for row in ran if _differs(row[variant], moved=True)
    ]
    result["compiled_differs"] = [row["model"] for row in ran if "compiled_differs" in row[variant]]
    result["stopped"] = [row["model"] for row in mine if "stopped" in row[variant]]
    return result


def _differs(found: Record, moved: bool) -> bool:
    return "differs" in found and bool(found.get("random_stream_moved")) == moved


def share(before: int, after: int) -> float | None:
    """The share of ``before`` that is gone; None of nothing."""
    return round(1 - after / before, 3) if before else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 3) if known else None


def left_over(records: Mapping[Key, Record]) -> list[Record]:
    """The breaks left in one copy, by line: kinds, events, models (most events first)."""
    sites: dict[tuple[str, int], dict[str, Any]] = {}
    for key, record in sorted(records.items()):
        for one in own_breaks(record) if "breaks" in record else []:
            site = sites.setdefault(
                (one["file"], one["line"]),
                {"file": one["file"], "line": one["line"], "kinds": set(), "in": {}},
            )
            site["kinds"].add(one["kind"])
            name = ":".join(key)
            site["in"][name] = site["in"].get(name, 0) + 1
    found = [
        {**site, "kinds": sorted(site["kinds"]), "events": sum(site["in"].values())}
        for site in sites.values()
    ]
    return sorted(found, key=lambda site: (-site["events"], site["file"], site["line"]))
