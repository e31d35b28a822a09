"""What was measured in earlier processes, one small file a region.

A decision holds for one region's generated code on one kind of GPU under one set of versions. A
file that cannot be read, or was written by something else, is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pygraph_rt.files import write_whole
from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH

# Of the files, and of how what they hold was measured.
FORMAT = 2
# An old decision is found anew: what a region costs depends on more than its key.
_OLDEST_S = 30 * 86400.0
FOLDER_VARIABLE, SWITCH_VARIABLE = "PYGRAPH_CACHE_DIR", "PYGRAPH_REMEMBER"
_MOST_FILES = 4096
# What names a GPU in generated code, and the process group of a collective.
_DEVICE = re.compile(r"(stream|\bget_raw_stream\(|Guard\(|set_device\(|cuda:|'cuda', index=)\d+")
_GROUP = re.compile(r", '[^']*'\)")


@dataclass(frozen=True)
class Decision:
    """A remembered choice ("graph" or "no graph"), the reason it had, and milliseconds a call
    with it.
    """

    choice: str
    why: str
    period_ms: float


def folder() -> Path:
    """Where decisions are kept: $PYGRAPH_CACHE_DIR, or this system's folder for caches."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given) / "decisions"
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "pygraph" / "decisions"


def wanted_by_environment() -> bool:
    """False when $PYGRAPH_REMEMBER is 0, false, no or off."""
    said = os.environ.get(SWITCH_VARIABLE, "1").strip().lower()
    return said not in {"0", "false", "no", "off"}


def code_key(source: str, name: str, facts: Mapping[str, Any]) -> str:
    """A key for the function `name` of a generated module: the same wherever and whenever the same
    code is compiled.

    Comments are left out, because they name files and the order of compilation. So is the number of
    the GPU, and the name of a process group, which are other ones on each rank.
    """
    lines = (_DEVICE.sub(r"\1", re.sub(r"#.*", "", line)).strip() for line in source.splitlines())
    lines = (_GROUP.sub(")", line) if "c10d_functional" in line else line for line in lines)
    text = "\n".join(line for line in lines if line)
    known = json.dumps({"format": FORMAT, "name": name, **facts}, sort_keys=True)
    return hashlib.sha256(f"{known}\n{text}".encode()).hexdigest()


class Decisions:
    """The folder of decisions; `where` None: nothing is read or written."""

    def __init__(self, where: Path | None) -> None:
        self._where = where

    def load(self, key: str) -> Decision | None:
        """What was decided for a key, if anything readable."""
        if self._where is None or not key:
            return None
        path = self._where / f"{key}.json"
        try:
            if time.time() - path.stat().st_mtime > _OLDEST_S:
                return None
            found = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return _checked(found, key)

    def save(self, key: str, decision: Decision) -> None:
        """Remember a decision. A folder that cannot be written to is no error."""
        if self._where is None or not key:
            return
        record = {"format": FORMAT, "key": key, **asdict(decision)}
        with contextlib.suppress(OSError):
            write_whole(self._where / f"{key}.json", json.dumps(record) + "\n")
            self._prune()

    def _prune(self) -> None:
        """Keep the newest files."""
        assert self._where is not None
        with os.scandir(self._where) as entries:
            found = [e for e in entries if e.name.endswith(".json")]
        if len(found) <= _MOST_FILES:
            return
        found.sort(key=lambda e: e.stat().st_mtime)
        for entry in found[: len(found) // 2]:
            with contextlib.suppress(OSError):
                os.unlink(entry.path)  # noqa: PTH108


def _checked(found: Any, key: str) -> Decision | None:
    if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("key") != key:
        return None
    choice, why, period = found.get("choice"), found.get("why"), found.get("period_ms")
    if choice not in (GRAPH, NO_GRAPH) or not isinstance(why, str):
        return None
    if isinstance(period, bool) or not isinstance(period, (int, float)) or not period >= 0:
        return None
    return Decision(choice, why, float(period))
