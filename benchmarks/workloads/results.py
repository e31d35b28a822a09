"""The result file: what is in it, how it is read and added to.

``{"schema": 1, "environments": [...], "workloads": {name: {"about": {...}, "probes": {variant:
{...}}, "timings": [{...}, ...]}}}``. A probe or timing names its environment by index. Every timing
is a run of its own, so that a later one shows how stable the ratios are. A run that something else
on the machine got in the way of is marked by hand with ``"disturbed": "by what"``, and is in no
table but its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = 1


class ResultError(ValueError):
    """A result file that can't be used."""


def load(path: Path) -> dict[str, Any]:
    """The file's content, or an empty result if there is no file. Raises ``ResultError`` on another
    schema.
    """
    if not path.exists():
        return {"schema": SCHEMA, "environments": [], "workloads": {}}
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ResultError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ResultError(f"{path} is not a workload result of schema {SCHEMA}; use another --out")
    return content


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes the file in one move."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(_rounded(content), indent=1) + "\n")
    partial.replace(path)


def entry(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The workload's part, made if missing."""
    fresh: dict[str, Any] = {"about": {}, "probes": {}, "timings": []}
    part: dict[str, Any] = content["workloads"].setdefault(name, fresh)
    return part


def environment_index(content: dict[str, Any], environment: dict[str, Any]) -> int:
    """Index of the environment, added if new."""
    known: list[dict[str, Any]] = content["environments"]
    if environment not in known:
        known.append(environment)
    return known.index(environment)


def _rounded(value: Any) -> Any:
    """Floats to five significant digits, infinities to strings, so that files stay small and are
    plain JSON.
    """
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
