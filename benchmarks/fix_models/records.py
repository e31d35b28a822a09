"""Records of the runs on disk, and which runs are still to be made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Key = tuple[str, str]

#: Dynamo reports that are consequences of another break: a comprehension whose frame is compiled
#: alone after its caller has fallen back to eager.
ARTEFACTS = ("Missing tp_iternext",)


def read(folder: Path) -> dict[Key, Record]:
    """The latest record of each model and mode of one copy."""
    path = folder / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(row["model"], row["mode"]): row for row in rows}


def current(folder: Path, variant: str) -> dict[Key, Record]:
    """The records of a copy that were made with the code it has now."""
    first = read(folder / "before")
    return {
        key: record
        for key, record in read(folder / variant).items()
        if record.get("code") == digest(folder / variant, first.get(key, {}).get("files", ()))
    }


def named(record: Record, label: str) -> Record:
    """The record with its model and mode, which one of a killed job lacks."""
    model, _, mode = label.partition(":")
    return {"model": model, "mode": mode, **record}


def own_breaks(record: Record) -> list[Record]:
    """The breaks of a record without artefacts."""
    return [one for one in record["breaks"] if one["kind"].rpartition(": ")[2] not in ARTEFACTS]


def digest(root: Path, files: Iterable[str]) -> str:
    """Of the contents of files below ``root``."""
    found = hashlib.sha256()
    for name in files:
        found.update(hashlib.sha256((root / name).read_bytes()).digest())
    return found.hexdigest()
