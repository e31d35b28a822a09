"""From the records of the copies to one table: breaks before and after, what differs, what is
left."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch

VARIANTS = ("before", "safe", "unsafe")
MODES = ("eval", "train")
Record = dict[str, Any]


def read(folder: Path) -> dict[tuple[str, str], Record]:
    """Records of one copy by model and mode."""
    path = folder / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(row["model"], row["mode"]): row for row in rows if "model" in row}


def difference(before: Path, after: Path, name: str) -> dict[str, Any]:
    """Whether two saved results are equal bit for bit, and the largest difference where not."""
    old, new = (torch.load(folder / name, weights_only=True) for folder in (before, after))
    found: dict[str, Any] = {}
    for key in ("outputs", "gradients"):
        pairs = list(zip(old[key], new[key], strict=False))
        same = len(old[key]) == len(new[key]) and all(_same(one, two) for one, two in pairs)
        largest = max((_largest(one, two) for one, two in pairs), default=0.0)
        found[key] = {"equal": same, "largest_difference": 0.0 if same else largest}
    return found


def _same(one: torch.Tensor | None, two: torch.Tensor | None) -> bool:
    if one is None or two is None:
        return one is two
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return False
    return torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)


def _largest(one: torch.Tensor | None, two: torch.Tensor | None) -> float:
    if one is None or two is None:
        present = one if one is not None else two
        return float(present.abs().max()) if present is not None and present.numel() else 0.0
    if one.shape != two.shape:
        return float("inf")
    gap = (one.double() - two.double()).abs()
    return float(gap.nan_to_num(nan=0.0).max()) if gap.numel() else 0.0


def site(found: Record) -> str:
    """A break as ``file: kind``: lines move when a file is fixed."""
    return f"{found['file']}: {found['kind']}"


def table(folder: Path) -> dict[str, Any]:
    """Rows per model and mode, and sums per mode. Only models that break before are counted."""
    records = {variant: read(folder / variant) for variant in VARIANTS}
    rows = []
    for key, before in sorted(records["before"].items()):
        if "error" in before or not before["breaks"]:
            continue
        row: Record = {"model": key[0], "mode": key[1], "before": len(before["breaks"])}
        for variant in VARIANTS[1:]:
            after = records[variant].get(key)
            if after is None:
                continue
            row[variant] = _after(folder, before, after, variant, f"{key[0]}-{key[1]}.pt")
        rows.append(row)
    return {"rows": rows, "sums": {mode: _sums(rows, mode) for mode in MODES}}


def _after(folder: Path, before: Record, after: Record, variant: str, name: str) -> Record:
    if "error" in after:
        return {"error": after["error"]}
    left = Counter(site(found) for found in after["breaks"])
    found = difference(folder / "before", folder / variant, name)
    return {"breaks": len(after["breaks"]), "left": dict(left), **found}


def _sums(rows: list[Record], mode: str) -> Record:
    mine = [row for row in rows if row["mode"] == mode]
    result: Record = {"models": len(mine), "before": sum(row["before"] for row in mine)}
    for variant in VARIANTS[1:]:
        done = [row for row in mine if variant in row]
        ran = [row for row in done if "error" not in row[variant]]
        before = sum(row["before"] for row in ran)
        after = sum(row[variant]["breaks"] for row in ran)
        result[variant] = {
            "before": before,
            "after": after,
            "removed": round(1 - after / before, 3) if before else None,
            "models_without_breaks": sum(row[variant]["breaks"] == 0 for row in ran),
            "outputs_differ": [r["model"] for r in ran if not r[variant]["outputs"]["equal"]],
            "gradients_differ": [r["model"] for r in ran if not r[variant]["gradients"]["equal"]],
            "stopped_running": [r["model"] for r in done if "error" in r[variant]],
            "left": dict(sum((Counter(r[variant]["left"]) for r in ran), Counter()).most_common()),
        }
    return result
