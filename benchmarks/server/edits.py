"""Draws edits of a package once, so that every run makes the same ones: ``recorded.json``.

``python -m benchmarks.server.edits FOLDER`` draws them. An edit is a change as an editor sends it:
a file, a range, a text. ``dependants`` are edits of one file that change what is found in another.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pygraph_lint.project.open_project import OpenProject
from pygraph_lint.rules.catalogue import load

RECORDED = Path(__file__).parent / "recorded.json"
# Files that very many others import.
HUBS = ("modeling_utils.py", "modeling_rope_utils.py", "models/llama/modeling_llama.py")
MOST_IMPORTED = (
    "modeling_utils.py",
    "configuration_utils.py",
    "generation/utils.py",
    "cache_utils.py",
    "masking_utils.py",
)
_FORWARD = re.compile(r"^( +)def forward\(\s*self,\s*(\w+)[^)]*\)[^:]*:\n", re.MULTILINE)
_BASE = re.compile(r"^class (\w+)\(([\w.]+)\):\n", re.MULTILINE)
_FROM_MODEL = re.compile(r"^from \.\.(\w+)\.(modeling_\w+) import", re.MULTILINE)


class Edit(NamedTuple):
    """Replace a range (lines and columns from 0) of a file by a text."""

    file: str
    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def _place(text: str, offset: int) -> tuple[int, int]:
    line = text.count("\n", 0, offset)
    return line, offset - (text.rfind("\n", 0, offset) + 1)


def of_file(file: str, text: str, draw: random.Random) -> Iterator[Edit]:
    """Edits of a file, one after another; behind the last it is as it was."""
    found = list(_FORWARD.finditer(text))
    if not found:
        return
    at = draw.choice(found)
    indent, name = at[1] + "    ", at[2]
    here = _place(text, at.end())
    for kind, line in (
        ("a value is read", f"{indent}limit = {name}.sum().item()\n"),
        ("a branch", f"{indent}if {name}.sum() > 0:\n{indent}    print({name})\n"),
        ("an unfinished line", f"{indent}if {name}.sum(\n"),
    ):
        yield Edit(file, kind, here, here, line)
        yield Edit(file, "taken out", here, (here[0] + line.count("\n"), 0), "")
    base = draw.choice(list(_BASE.finditer(text)) or [None])
    if base is not None:
        start, end = _place(text, base.start(2)), _place(text, base.end(2))
        yield Edit(file, "another base class", start, end, "object")
        yield Edit(file, "taken out", start, (start[0], start[1] + len("object")), base[2])


def draw_edits(folder: Path, number: int, seed: int) -> list[Edit]:
    """About ``number`` edits: a quarter in large leaf files, a tenth in hubs, the rest anywhere."""
    draw = random.Random(seed)
    files = sorted(folder.rglob("modeling_*.py"))
    large = sorted(files, key=lambda path: abs(path.read_bytes().count(b"\n") - 3000))[:8]
    chosen = [*large, *draw.sample(files, len(files))]
    chosen[10:10] = [folder / name for name in HUBS]
    made: list[Edit] = []
    for path in dict.fromkeys(chosen):
        made += of_file(path.relative_to(folder).as_posix(), path.read_text(), draw)
        if len(made) >= number:
            break
    return made[:number]


def draw_dependants(folder: Path, number: int) -> list[tuple[Edit, str]]:
    """Edits of a base class that change the findings of a file that imports it."""
    made: list[tuple[Edit, str]] = []
    used: set[str] = set()
    project = OpenProject(load())
    for path in sorted(folder.glob("models/*/modular_*.py")):
        if len(made) >= number or not project.findings(path):
            continue
        for match in _FROM_MODEL.finditer(path.read_text()):
            base = folder / "models" / match[1] / f"{match[2]}.py"
            name = base.relative_to(folder).as_posix()
            if not base.is_file() or name in used or name in HUBS:
                continue
            edit = _that_matters(project, base, path, name)
            if edit is not None:
                used.add(name)
                made.append((edit, path.relative_to(folder).as_posix()))
                print(made[-1], flush=True)
                break
    return made


def _that_matters(project: OpenProject, base: Path, path: Path, name: str) -> Edit | None:
    """An edit of ``base`` after which something else is found in ``path``."""
    text, derived = base.read_text(), path.read_text()
    before = project.findings(path)
    for found in _BASE.finditer(text):
        if not re.search(rf"\b{found[1]}\b", derived):
            continue
        project.take(base, f"{text[: found.start(2)]}object{text[found.end(2) :]}")
        after = project.findings(path)
        project.take(base, None)
        if after != before:
            start, end = _place(text, found.start(2)), _place(text, found.end(2))
            return Edit(name, "another base class", start, end, "object")
    return None


def read() -> dict[str, Any]:
    """What was recorded."""
    data: dict[str, Any] = json.loads(RECORDED.read_text())
    return data


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--dependants", type=int, default=12)
    options = parser.parse_args()
    edits = draw_edits(options.folder, options.number, seed=1)
    pairs = draw_dependants(options.folder, options.dependants)
    data = {
        "package": "transformers 5.4.0",
        "edits": [edit._asdict() for edit in edits],
        "dependants": [{**edit._asdict(), "dependant": other} for edit, other in pairs],
    }
    rows = {key: value for key, value in data.items() if key == "package"}
    text = json.dumps(rows)[:-1]
    for key in ("edits", "dependants"):
        text += f',\n"{key}": [\n' + ",\n".join(json.dumps(row) for row in data[key]) + "\n]"
    RECORDED.write_text(text + "}\n")
    print(f"{len(edits)} edits, {len(pairs)} of base classes")


if __name__ == "__main__":
    main()
