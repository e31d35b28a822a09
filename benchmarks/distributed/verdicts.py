"""What follows from the results of all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.distributed.rows import Row

Rank = Mapping[str, Any]


def of_fault(runs: Mapping[str, Rank]) -> dict[str, Any]:
    """Whether all ranks ended as in default mode, and at most 5 s later after the fault; None where
    the time of the row was over first.
    """
    default, ours = runs["default"], runs["pygraph"]
    later = max(ours["ended_after_s"]) - max(default["ended_after_s"])
    if None in default["exit_codes"] + ours["exit_codes"]:
        return {"same_exit_codes": None, "later_s": None, "good": None}  # nothing is known
    same = default["exit_codes"] == ours["exit_codes"]
    good = same and (later <= 5 or not ours["fault"])
    return {"same_exit_codes": same, "later_s": round(later, 1), "good": good}


def of_row(row: Row, ranks: Sequence[Rank]) -> dict[str, Any] | None:
    """What follows from all ranks' results; None where one has failed."""
    if any("error" in rank for rank in ranks):
        return None
    if row.kind == "right":
        return {"equal": all(rank["first_difference"] is None for rank in ranks)}
    if row.kind == "soak":
        grown = [rank["grown"] for rank in ranks]
        return {"grown": {name: max(g[name] for g in grown) for name in grown[0]}}
    if row.kind == "speed":
        return _of_speed(ranks)
    if row.kind == "freed":
        return _of_freed(ranks)
    return None


def _of_speed(ranks: Sequence[Rank]) -> dict[str, Any] | None:
    """Times as fast as others, and tokens a second, of one rank's tokens."""
    first = ranks[0]
    ms = {mode: found["ms"] for mode, found in first["modes"].items() if "ms" in found}
    if "pygraph" not in ms:
        return None
    others = {m: round(v / ms["pygraph"], 4) for m, v in ms.items() if m != "pygraph"}
    tokens = first["tokens_a_step_and_rank"]
    said = {
        "times_as_fast_as": others,
        "tokens_a_second": {mode: round(tokens / value * 1e3, 1) for mode, value in ms.items()},
        "default_idle": first["idle_share"],
    }
    limits = [rank["limit_ms"] for rank in ranks if rank.get("limit_ms")]
    if limits:
        said["of_the_bandwidth_limit"] = {m: round(max(limits) / v, 4) for m, v in ms.items()}
    return said


MOST_SLOWER = 0.02


def _of_freed(ranks: Sequence[Rank]) -> dict[str, Any]:
    """By how much frees make steps slower, as a share of a step without any, and milliseconds of
    captures meanwhile.
    """
    modes = ranks[0]["modes"]
    slower = {m: round(f["ms_with_frees"] / f["ms"] - 1, 4) for m, f in modes.items()}
    captured = max(rank["modes"]["pygraph"]["capture_ms_after"] for rank in ranks)
    good = not captured and slower["pygraph"] <= slower["default"] + MOST_SLOWER
    return {"slower": slower, "capture_ms_after": captured, "good": good}


def scaling(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tokens a second and rank beside those of the same row on one rank, for each mode; `points`:
    by how many hundredths that is more than default mode's.
    """
    rates = {
        (row["name"], row["tiny"], row["world"]): row["verdict"]["tokens_a_second"]
        for row in rows
        if row["name"].startswith("speed") and row.get("verdict")
    }
    found = []
    for (name, tiny, world), rate in rates.items():
        one = rates.get((name, tiny, 1))
        if world == 1 or one is None:
            continue
        shares = {mode: round(rate[mode] / one[mode], 4) for mode in rate if mode in one}
        points = round(100 * (shares["pygraph"] - shares["default"]), 2)
        found.append(
            {"name": name, "tiny": tiny, "world": world, "of_one": shares, "points": points}
        )
    return found
