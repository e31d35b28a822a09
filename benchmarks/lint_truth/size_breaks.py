"""Breaks that one size of the inputs hides: add them to a truth table.

Each program is traced with inputs of one size. Of a tensor that is made of a size on the host,
`torch.tensor(x.shape[0])`, torch knows the number then, and an operator that reads it breaks
nothing. When a second size comes, torch makes symbols of the sizes, and the graph breaks there. So
the programs that make a tensor of numbers on the host are traced once more with sizes as symbols,
and where an operator reads a number and no break was seen, the break goes into the table.

    .venv-truth-newer/bin/python -m benchmarks.lint_truth.size_breaks --set newer

Run it after each merge, in the environment of the set. Only breaks are added; nothing is removed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.lint_truth import second_run
from benchmarks.lint_truth.claims import NOT_AGAINST
from benchmarks.lint_truth.device_breaks import jobs
from benchmarks.lint_truth.gb_types import gb_type_of, ids, named
from benchmarks.lint_truth.pool import run_all
from benchmarks.lint_truth.statements import Sources

#: Calls that make a tensor of Python numbers.
OF_NUMBERS = frozenset({"tensor", "as_tensor", "scalar_tensor", "full", "div", "add", "sub", "mul"})
#: An operator read the number of a tensor.
READ = "Data dependent operator"


@contextlib.contextmanager
def symbolic_sizes() -> Iterator[None]:
    """Compile with the sizes of inputs as symbols, as after a second size."""
    import torch

    plain = torch.compile
    torch.compile = functools.partial(plain, dynamic=True)
    try:
        yield
    finally:
        torch.compile = plain


def programs_of_numbers(truth: Mapping[str, Any]) -> set[str]:
    """The models and modes ("model:mode") that make a tensor of numbers on the host."""
    made = (site["kinds"].get("host_tensor") for site in truth["sites"])
    return {
        label for kind in made if kind and OF_NUMBERS & set(kind["what"]) for label in kind["in"]
    }


class Table:
    """The sites of a truth table, to which breaks are added; sites of a blind half get no text."""

    def __init__(self, truth: dict[str, Any], sources: Sources) -> None:
        self._rows: list[dict[str, Any]] = truth["sites"]
        self._by_place = {(site["file"], site["line"]): site for site in self._rows}
        self._before = {p for p, site in self._by_place.items() if NOT_AGAINST & set(site["kinds"])}
        self._told = {site["file"] for site in self._rows if "text" in site}
        self._sources = sources
        self.added: set[tuple[str, int]] = set()

    def add(self, label: str, breaks: Iterable[Mapping[str, Any]]) -> int:
        """Note where an operator read a number in one program; returns how many."""
        added = 0
        for found in breaks:
            start, end = self._sources.span(found["file"], found["line"])
            place = (found["file"], start)
            if gb_type_of(found["kind"]) != READ or place in self._before:
                continue
            site = self._by_place.get(place) or self._new(found["file"], start, end)
            kind = site["kinds"].setdefault("break", {"what": [], "in": []})
            kind["what"] = sorted({*kind["what"], found["kind"]})
            kind["in"] = sorted({*kind["in"], label})
            kind["gb"] = named(site, ids())
            self.added.add(place)
            added += 1
        return added

    def _new(self, file: str, start: int, end: int) -> dict[str, Any]:
        site: dict[str, Any] = {"file": file, "line": start, "end": end}
        if file in self._told:
            site["text"] = self._sources.text(file, start)
        site |= {"kinds": {}, "lines": [start]}
        self._by_place[file, start] = site
        self._rows.append(site)
        self._rows.sort(key=lambda row: (row["file"], row["line"]))
        return site


def main() -> int:
    """Command line; returns the exit status."""
    arguments = second_run.started(__doc__)
    chosen = arguments.set
    path, truth = second_run.read(chosen)
    table = Table(truth, Sources(second_run.reader(chosen)))
    for records in run_all(
        jobs(chosen, programs_of_numbers(truth), symbolic_sizes),
        arguments.workers,
        arguments.seconds,
    ):
        for record in records:
            label = record.get("label") or f"{record['model']}:{record['mode']}"
            breaks = record.get("result", {}).get("breaks", ())
            print(label, table.add(label, breaks), record.get("error", ""), flush=True)
    second_run.write(chosen, path, truth)
    print(f"{len(table.added)} sites break with a second size -> {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
