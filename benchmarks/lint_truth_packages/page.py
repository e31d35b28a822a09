"""The section of docs/explanation/accuracy.md on packages of other authors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.lint_truth_packages.catalogue import DEVELOP, HALVES, HELD_OUT, half_of_package

TITLES = {
    "breaks": "graph breaks found",
    "syncs": "synchronising statements found",
    "host_tensors": "host tensors found",
    "dynamic_shapes": "dynamic shapes found",
}
PATHS = {
    "all": "",
    "through_modules": ", below a method of a module",
    "through_functions": ", through plain functions",
}


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {100 * part / whole:.1f} %" if whole else "none"


def _cells(result: Mapping[str, Any], path: str) -> dict[str, str]:
    """Row title -> cell, of one half in one run."""
    numbers = result[path]
    rows = {
        f"{title}{PATHS[path]}": _share(numbers[kind]["found"], numbers[kind]["sites"])
        for kind, title in TITLES.items()
    }
    counts = numbers["precision"]
    right, judged = counts["right"], counts["right"] + counts["wrong"]
    rows |= {f"findings that are right{PATHS[path]}": _share(right, judged)}
    return rows | _claim_cells(numbers) if path == "all" else rows


def _claim_cells(numbers: Mapping[str, Any]) -> dict[str, str]:
    """The same of what findings say about breaks; lines that Dynamo never traced do not count."""
    claims, names = numbers["break_claims"], numbers["gb_types"]
    return {
        "claims of a break where there is none": _share(
            claims["without_a_break"], claims["claims"]
        ),
        "found breaks with torch's own name": _share(names["right"], names["matched"])
        if names
        else "not said",
    }


def _table(run: Mapping[str, Any]) -> list[str]:
    columns = [(run[source], half) for source in ("annotated", "stripped") for half in HALVES]
    names = [f"{half}{more}" for more in ("", ", no annotations") for half in HALVES]
    rows = ["| | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for path in PATHS:
        cells = [_cells(source[half], path) for source, half in columns]
        rows += [f"| {title} | " + " | ".join(c[title] for c in cells) + " |" for title in cells[0]]
    return rows


def packages_section(score: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown: what is measured, and a table for each kept run of the linter."""
    environment = score["environment"]
    halves = {
        half: ", ".join(
            f"{name} {version}"
            for name, version in environment["packages"].items()
            if half_of_package(name) == half
        )
        for half in HALVES
    }
    lines = [
        "## On packages of other authors",
        f"{environment['programs']} small programs over {len(environment['packages'])} packages,",
        f"compiled with torch {environment['torch']} and run on the pretended device: solvers,",
        "losses, metrics, samplers, policies, augmentations, graph layers, optimisers and models.",
        "All code of a package counts. The packages are split by a fixed hash of their names; of",
        "the held-out half nothing but these totals is known. *No annotations*: the same sites,",
        "and the linter given copies without the annotations of parameters and returns.",
        "From `benchmarks/results/lint_truth_packages_score.json`; `make bench-lint-packages`.",
        "",
        f"- develop: {halves[DEVELOP]}",
        f"- held-out: {halves[HELD_OUT]}",
        "",
    ]
    for run in score["runs"].values():
        options = f" with `{run['options']}`" if run["options"] else ""
        lines += [f"The linter at {run['linter']}{options}:", "", *_table(run), ""]
    return lines
