"""Measure small programs over packages of other authors; score the linter on it.

Steps: observe (programs not yet in the records), merge (records to truth table), score (run the
linter, compare), all three by default; list (the develop half's misses and false alarms of a kept
score, `--run NAME`). The packages are split into two halves by a hash of
their names. The score of the develop half lists every miss and false alarm; of the held-out half
it tells totals only.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.lint_truth import gb_types, packages
from benchmarks.lint_truth.statements import Sources
from benchmarks.lint_truth.versions import release
from benchmarks.lint_truth_packages import truth_file
from benchmarks.lint_truth_packages.catalogue import PACKAGES
from benchmarks.lint_truth_packages.lint import Linter, LinterError, kept_findings
from benchmarks.lint_truth_packages.scoring import PATHS, listing, score, summary_table


def _observe(arguments: argparse.Namespace) -> None:
    """Run the stages over the programs; append to the records file."""
    import torch

    from benchmarks.lint_truth.pool import run_all
    from benchmarks.lint_truth_packages.catalogue import programs
    from benchmarks.lint_truth_packages.worker import STAGES, observe_stage

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    packages.declare_vision_operators()
    done = _done(arguments.records)
    jobs: list[tuple[str, Callable[..., None]]] = []
    for name in arguments.packages or PACKAGES:
        for program in programs(name):
            for stage in arguments.stages or STAGES:
                label = f"{program.label}:{stage}"
                asked = arguments.again or program.label in arguments.programs
                if asked or (label not in done and not arguments.programs):
                    jobs.append((label, functools.partial(observe_stage, program, stage)))
    with arguments.records.open("a") as stream:
        records = run_all(jobs, arguments.workers, arguments.seconds)
        for number, found in enumerate(records, start=1):
            for record in found:
                stream.write(json.dumps(record) + "\n")
            stream.flush()
            print(f"[{number}/{len(jobs)}] {_line(found)}", flush=True)


def _line(records: list[dict[str, Any]]) -> str:
    """One line of progress for one program and stage."""
    parts = []
    for record in records:
        stage = record.get("stage")
        name = f"{record['model']}:{stage}" if stage else record["label"]
        failed = record.get("error") or (stage == "trace" and record.get("result", {}).get("error"))
        parts.append(f"{name} {record.get('seconds', '')} s{f' FAILED {failed}' if failed else ''}")
    return ", ".join(parts)


def _done(path: Path) -> set[str]:
    """The stages ("program:stage") that the records file already has."""
    if not path.exists():
        return set()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row.get("label") or f"{row['model']}:{row['stage']}" for row in rows}


def _environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def read_source(file: str) -> str | None:
    package, _, rest = file.partition("/")
    path = Path(packages.package_roots().get(package, "")) / rest
    return path.read_text() if path.is_file() else None


def _merge(arguments: argparse.Namespace) -> None:
    """Turn the records into the truth table; with `--packages` the part of these is exchanged."""
    from benchmarks.lint_truth_packages.catalogue import programs
    from benchmarks.lint_truth_packages.table import exchanged, truth_table

    packages.declare_vision_operators()
    names = arguments.packages or PACKAGES
    known = {program.label for name in names for program in programs(name)}
    rows = [json.loads(line) for line in arguments.records.read_text().splitlines()]
    made = truth_table(rows, known, read_source, gb_types.ids())
    if arguments.packages:
        imported = {PACKAGES[name] for name in arguments.packages}
        made = exchanged(truth_file.read(arguments.truth), made, imported)
    table = {"environment": _environment(), **made}
    truth_file.write(arguments.truth, table)
    print(f"{len(table['programs'])} programs, {len(table['sites'])} sites -> {arguments.truth}")


def _options(asked: str, torch: str) -> str:
    """The linter's options, with the `torch` that the truth was measured with as their target,
    unless another one is asked for.
    """
    return (
        asked if "--target-torch" in asked else f"{asked} --target-torch {release(torch)}".strip()
    )


def _score(arguments: argparse.Namespace) -> None:
    """Run the linter on the packages as they are and without annotations; compare."""
    sources = Sources(read_source)
    absent = [name for name, module in PACKAGES.items() if module not in packages.package_roots()]
    if absent:  # what they miss would count as if the linter had missed it
        raise LinterError(f"not installed: {', '.join(absent)}; make .venv-truth-packages/.ready")
    truth = truth_file.read(arguments.truth)
    options = _options(arguments.options, truth["environment"]["torch"])
    linter = Linter(arguments.linter.resolve(), tuple(shlex.split(options)))
    run: dict[str, Any] = {"linter": linter.commit(), "options": options}
    for name, strip in (("annotated", False), ("stripped", True)):
        kept = arguments.findings and arguments.findings.with_suffix(f".{name}.json")
        findings = kept_findings(linter, packages.package_roots(), strip, kept)
        run[name] = score(truth, findings, sources.statement, sources.text)
        if strip:  # the same misses, and those that need annotations
            run[name]["develop"] = {path: run[name]["develop"][path] for path in PATHS}
        run[name]["findings"] = len(findings)
        print(f"## {name}\n{summary_table(run[name])}\n")
    results = json.loads(arguments.score.read_text()) if arguments.score.exists() else {}
    results["environment"] = truth["environment"] | {"programs": len(truth["programs"])}
    results.setdefault("runs", {})[arguments.run] = run
    arguments.score.write_text(json.dumps(results, indent=1) + "\n")
    print(f"misses and false alarms of the develop half: {arguments.score}, or --list")
    if arguments.list:
        print(listing(run["annotated"]["develop"]))


def _list(arguments: argparse.Namespace) -> None:
    """Print the develop half's misses and false alarms of a kept score."""
    runs = json.loads(arguments.score.read_text())["runs"]
    if arguments.run not in runs:
        raise LinterError(f"no score is called {arguments.run!r}; there are {', '.join(runs)}")
    print(listing(runs[arguments.run]["annotated"]["develop"]))


def _all(arguments: argparse.Namespace) -> None:
    """Measure, merge, score."""
    _observe(arguments)
    _merge(arguments)
    _score(arguments)


STEPS = {"all": _all, "observe": _observe, "merge": _merge, "score": _score, "list": _list}


def _parser(root: Path) -> argparse.ArgumentParser:
    results = root / "benchmarks" / "results"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=list(STEPS), default="all")
    parser.add_argument(
        "--records", type=Path, default=root / ".venv-truth-packages" / "records.jsonl"
    )
    parser.add_argument("--truth", type=Path, default=results / "lint_truth_packages_sites.json")
    parser.add_argument("--score", type=Path, default=results / "lint_truth_packages_score.json")
    parser.add_argument("--linter", type=Path, default=root, help="a checkout of the linter")
    parser.add_argument("--options", default="", help='of the linter, as in "--regions all"')
    parser.add_argument("--run", default="current", help="name of the score in the results")
    parser.add_argument("--list", action="store_true", help="print the develop half's misses")
    parser.add_argument("--findings", type=Path, help="keep the linter's findings beside this name")
    parser.add_argument(
        "--packages",
        nargs="*",
        default=[],
        choices=list(PACKAGES),
        help="observe: only these, in this order; merge: leave the others as they are",
    )
    parser.add_argument("--programs", nargs="*", default=[], help="observe: these, again")
    parser.add_argument("--stages", nargs="*", default=[], help="observe: only these")
    parser.add_argument("--again", action="store_true", help="measure every program again")
    parser.add_argument("--workers", type=int, default=1, help="programs at once")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for a program")
    return parser


def main() -> int:
    """Command line; returns the exit status."""
    arguments = _parser(Path(__file__).resolve().parents[2]).parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    packages.measure(PACKAGES.values())
    try:
        STEPS[arguments.step](arguments)
    except LinterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
