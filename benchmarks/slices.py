"""Long measurements in slices: a part of the rows a run, and rows from several runs in one file.

Each row says itself where it was measured (`stamp`), so that rows of several runs can stand beside
each other; a ratio is only formed within one row.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
# Where the code is a copy without git, the environment says which commit it is.
COMMIT = "PYGRAPH_COMMIT"
T = TypeVar("T")


class Slice(NamedTuple):
    """The part `number` (from 1) of `count` parts."""

    number: int = 1
    count: int = 1

    def of(self, items: Sequence[T], cost: Mapping[T, float] | None = None) -> list[T]:
        """The items of this part, in their order. With `cost`, parts cost about the same: the most
        expensive item goes first, each to the part that has cost least.
        """
        if cost is None:
            return list(items[self.number - 1 :: self.count])
        usual = sorted(cost.values())[len(cost) // 2] if cost else 1.0
        spent = [0.0] * self.count
        mine = set()
        for item in sorted(dict.fromkeys(items), key=lambda item: -cost.get(item, usual)):
            cheapest = spent.index(min(spent))
            spent[cheapest] += cost.get(item, usual)
            if cheapest == self.number - 1:
                mine.add(item)
        return [item for item in items if item in mine]


def parse(text: str) -> Slice:
    """`2/4`: the second of four parts."""
    number, mark, count = text.partition("/")
    if mark and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return Slice(int(number), int(count))
    raise argparse.ArgumentTypeError(f"must be like 2/4, the second of four parts, not {text!r}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--shard` and `--resume`."""
    parser.add_argument("--shard", type=parse, default=Slice(), metavar="I/N", help="this part")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="leave out what the file has from this commit, GPU and torch",
    )


@functools.lru_cache(maxsize=1)
def commit() -> str:
    """The commit that is measured; `+` stands for changes that are not committed."""
    told = os.environ.get(COMMIT)
    if told:
        return told
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


@functools.lru_cache(maxsize=1)
def stamp() -> dict[str, str | None]:
    """Where and of what a row is measured."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"commit": commit(), "gpu": gpu, "torch": torch.__version__}


def is_current(row: Mapping[str, Any]) -> bool:
    """Whether the row was measured without an error, on this commit, GPU and torch."""
    return "error" not in row and all(row.get(key) == value for key, value in stamp().items())
