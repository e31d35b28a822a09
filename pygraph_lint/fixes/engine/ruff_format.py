"""Changed lines formatted by ruff, where the checked project asks for it and ruff is installed.

A project asks by configuring ruff: a ``ruff.toml`` or ``[tool.ruff]`` in a ``pyproject.toml`` above
the file, and no other formatter beside it. Only the lines that a rewrite changed are formatted.
"""

from __future__ import annotations

import ast
import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pygraph_lint.files.sources import split_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SECONDS = 20
_OTHERS = ("black", "yapf", "blue")


def formatted(path: Path, before: str, after: str) -> str:
    """``after`` with the lines that differ from ``before`` formatted; ``after`` itself where ruff
    is not wanted or installed, does not answer, or would change more than the layout.
    """
    if not wanted(path.absolute().parent):
        return after
    program = executable()
    if program is None:
        return after
    text = after
    for first, last in reversed(list(changed_lines(before, after))):
        text = _format(program, path, text, first, last) or text
    try:
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(after))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return after
    return text if same else after


def changed_lines(before: str, after: str) -> Iterator[tuple[int, int]]:
    """1-based first and last line of each part of ``after`` that is not in ``before``."""
    matcher = difflib.SequenceMatcher(None, split_lines(before), split_lines(after), autojunk=False)
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind in ("insert", "replace") and end > start:
            yield start + 1, end


@lru_cache(maxsize=256)
def wanted(folder: Path) -> bool:
    """Whether the nearest project configuration above a folder configures ruff as formatter."""
    for parent in (folder, *folder.parents):
        if any((parent / name).is_file() for name in ("ruff.toml", ".ruff.toml")):
            return True
        try:
            text = (parent / "pyproject.toml").read_text("utf-8")
            tools = tomllib.loads(text).get("tool", {})
        except (OSError, ValueError):
            continue
        if "ruff" in tools:
            return not any(other in tools for other in _OTHERS)
    return False


@lru_cache(maxsize=1)
def executable() -> str | None:
    """ruff beside this Python, else the first one on the search path."""
    beside = Path(sys.executable).parent / ("ruff.exe" if os.name == "nt" else "ruff")
    return str(beside) if beside.is_file() else shutil.which("ruff")


def _format(program: str, path: Path, text: str, first: int, last: int) -> str | None:
    """The text with one range of lines formatted; None where ruff could not.

    ruff takes the end of a range as the first line that is not in it.
    """
    command = [program, "format", "--quiet", "--no-cache", "--force-exclude"]
    command += ["--range", f"{first}-{last + 1}", "--stdin-filename", str(path), "-"]
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=SECONDS, check=False
        )
        return done.stdout.decode() if done.returncode == 0 and done.stdout else None
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
