"""The code blocks of a page, and how a test runs what a page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)(?P<more>.*)$")
_NOT_RUN = re.compile(r"^ *<!-- (not run|output): (?P<reason>.+) -->$")
_REPLACES = re.compile(r'^ *<!-- replaces: the end of the file from "(.+)" -->$')
_OF_ALL = re.compile(r"^<!-- all blocks: (.+) -->$", re.MULTILINE)
_PLUGIN = "" if "pytest_pygraph" in sys.modules else "-p pytest_pygraph"
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Block:
    """A fenced code block. ``reason``: why it is not run, or what made it; "" where neither is
    said. ``attributes``: what stands behind the language, ``title="model.py"``. ``replaces``: the
    block stands for the end of that file from this text on.
    """

    page: Path
    line: int
    language: str
    attributes: dict[str, str]
    text: str
    reason: str
    replaces: str = ""

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a Markdown page, in order."""
    text = page.read_text(encoding="utf-8")
    of_all = _OF_ALL.search(text)
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _OPENING.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        closing = re.compile(rf"^ *{re.escape(opening['fence'])} *$")
        while number < len(lines) and not closing.match(lines[number]):
            number += 1
        assert number < len(lines), f"{page}:{start}: the block has no end"
        indent = len(opening["indent"])
        above = next((line for line in reversed(lines[: start - 1]) if line.strip()), "")
        said = _NOT_RUN.match(above)
        replaces = _REPLACES.match(above)
        yield Block(
            page=page,
            line=start,
            language=opening["language"],
            attributes=dict(_ATTRIBUTE.findall(opening["more"])),
            text="".join(f"{line[indent:]}\n" for line in lines[start:number]),
            reason=said["reason"] if said else of_all[1] if of_all else "",
            replaces=replaces[1] if replaces else "",
        )
        number += 1


def write(block: Block, folder: Path) -> None:
    """Save a block with a title as that file, or as the end of it."""
    path = folder / block.attributes["title"]
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = ""
    if block.replaces:
        kept, found, _ = path.read_text().partition(block.replaces)
        assert found, f"{block.where}: {path.name} does not have {block.replaces!r}"
    path.write_text(kept + block.text)


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output that the page shows."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0], f"{block.where}: a console block starts with `$ `"
    for part in parts[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run(command: str, folder: Path) -> str:
    """What a command prints, with Python and the tools of this environment."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "PYGRAPH_LINT_CACHE_DIR": str(folder / ".cache"),
        "NO_COLOR": "1",
        "COLUMNS": "200",
        # As in tests/trace/test_expect.py: the plugin may be installed here, or not.
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --show-capture=no {_PLUGIN}",
    }
    words = shlex.split(command)
    if words[0] == "pygraph-lint":
        words[:1] = [sys.executable, "-m", "pygraph_lint"]
    elif words[0] == "python":
        words[:1] = [sys.executable]
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    return done.stdout


def matches(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows; ``...`` stands for any text, or any lines."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else r".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in shown.rstrip().splitlines()
    )
    return re.fullmatch(pattern, f"{printed.rstrip()}\n") is not None
