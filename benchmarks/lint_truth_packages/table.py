"""From the workers' records to the truth table of the packages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from benchmarks.lint_truth.gb_types import named
from benchmarks.lint_truth.statements import pack_lines
from benchmarks.lint_truth.truth import SourceReader, merge
from benchmarks.lint_truth_packages.catalogue import DEVELOP, half_of_file, half_of_package

STAGES_WITH_LINES = ("lines", "ghost_compiling")


def truth_table(
    records: Iterable[Mapping[str, Any]],
    programs: Collection[str],
    read_source: SourceReader,
    break_ids: Mapping[str, str],
) -> dict[str, Any]:
    """One table: programs, sites, lines that ran, lines that ran below a module's method.

    Records of programs that are not among `programs` do not count.
    `break_ids` maps torch's `Gb_type` to its id. Sites of the held-out half carry no source text.
    """
    latest = [row for row in _latest(records) if row["model"] in programs]
    families = {name: (name.partition(".")[0],) * 2 for name in programs}
    plain = [
        {**row, "result": row["result"]["lines"]}
        if row["stage"] == "lines" and "result" in row
        else row
        for row in latest
    ]
    table = merge(plain, families, read_source, counted=lambda file: True)
    rows = {
        name: {
            "package": row["package"],
            "half": half_of_package(row["package"]),
            **row["modes"].get("run", {}),
        }
        for name, row in table.pop("models").items()
    }
    del table["files"]
    for site in table["sites"]:
        if "break" in site["kinds"]:
            site["kinds"]["break"]["gb"] = named(site, break_ids)
        if half_of_file(site["file"]) != DEVELOP:
            del site["text"]
    return {"programs": rows, **table, "in_modules": _in_modules(latest)}


def exchanged(
    table: Mapping[str, Any], made: Mapping[str, Any], imported: Collection[str]
) -> dict[str, Any]:
    """A truth table in which the files of some packages, by import name, are those of `made`."""

    def mine(file: str) -> bool:
        return file.partition("/")[0] in imported

    def rows(part: str) -> list[Any]:
        kept = [row for row in table[part] if not mine(row["file"])]
        return [*kept, *(row for row in made[part] if mine(row["file"]))]

    def lines(part: str) -> dict[str, str]:
        kept = {file: found for file, found in table[part].items() if not mine(file)}
        return kept | {file: found for file, found in made[part].items() if mine(file)}

    packages = {row["package"] for row in made["programs"].values()}
    kept = {n: row for n, row in table["programs"].items() if row["package"] not in packages}
    return {
        "programs": {**kept, **made["programs"]},
        **{part: rows(part) for part in ("sites", "skipped_frames")},
        **{part: lines(part) for part in ("ran", "traced", "in_modules")},
    }


def _latest(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each program and stage."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        row = dict(record)
        if "label" in row:  # the whole job failed
            name, _, stage = row.pop("label").rpartition(":")
            row |= {"model": name, "mode": "run", "stage": stage}
        found[(row["model"], row["stage"])] = row
    return list(found.values())


def _in_modules(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    lines: dict[str, set[int]] = defaultdict(set)
    for record in records:
        if record["stage"] in STAGES_WITH_LINES and "result" in record:
            for file, numbers in record["result"]["in_modules"].items():
                lines[file].update(numbers)
    return {file: pack_lines(numbers) for file, numbers in sorted(lines.items())}
