"""Measure where tiny models break, synchronise and make host tensors; score the linter on it.

Steps: observe (models not yet in the records), merge (records to truth table), score (run the
linter, compare), all three by default; compare-gpu (the pretended device against a real one);
report (docs/explanation/accuracy.md); gb-types (which breaks were seen on which statements);
causes (name what breaks in loops, where the truth table has only that they are in a loop).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.lint_truth.copies import copy_packages, relative_to
from benchmarks.lint_truth.gpu_compare import compare, gpu_sites
from benchmarks.lint_truth.report import accuracy_page
from benchmarks.lint_truth.score import (
    Finding,
    corpus_recall,
    listing,
    read_findings,
    score,
    site_half,
    table,
    withhold,
)
from benchmarks.lint_truth.statements import Sources
from benchmarks.lint_truth.versions import SETS, release

STAGES = ["lines", "ghost", "ghost_compiling", "trace"]


def _observe(arguments: argparse.Namespace) -> None:
    """Run the stages over the models; append to the records file."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.set_num_threads(1)
    from benchmarks.lint_truth import packages

    packages.declare_vision_operators()
    from benchmarks.lint_truth import preload
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.pool import run_all
    from benchmarks.lint_truth.worker import observe_model

    preload.load()
    done = _done(arguments.records)
    jobs: list[tuple[str, Callable[..., None]]] = []
    for entry in catalogue(arguments.versions):
        if arguments.models and entry.name not in arguments.models:
            continue
        for mode in entry.modes:
            label = f"{entry.name}:{mode}"
            if arguments.again or arguments.models or label not in done:
                jobs.append(
                    (label, functools.partial(_job, observe_model, entry, mode, arguments.stages))
                )
    with arguments.records.open("a") as stream:
        for number, records in enumerate(
            run_all(jobs, arguments.workers, arguments.seconds), start=1
        ):
            for record in records:
                stream.write(json.dumps(record) + "\n")
            stream.flush()
            print(f"[{number}/{len(jobs)}] {_line(records)}", flush=True)


def _job(
    function: Callable[..., None], entry: Any, mode: str, stages: list[str], report: Any
) -> None:
    function(entry, mode, stages, report)


def _line(records: list[dict[str, Any]]) -> str:
    """One line of progress for one model and mode."""
    parts = (
        [f"{records[0]['model']}:{records[0]['mode']}"] if records and "model" in records[0] else []
    )
    for record in records:
        name = record.get("stage", "job")
        if "error" in record:
            parts.append(f"{name} FAILED {record['error'][:120]}")
        elif name == "trace":
            parts.append(f"trace {len(record['result']['breaks'])} breaks {record['seconds']} s")
        else:
            parts.append(f"{name} {record['seconds']} s")
    return ", ".join(parts)


def _done(path: Path) -> set[str]:
    """Labels ("model:mode") that the records file already has."""
    if not path.exists():
        return set()
    labels = set()
    for line in path.read_text().splitlines():
        record = json.loads(line)
        labels.add(record.get("label") or f"{record['model']}:{record['mode']}")
    return labels


def _environment() -> dict[str, str]:
    names = ("torch", "transformers", "diffusers", "timm", "torchvision", "huggingface_hub")
    found = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return {"python": platform.python_version(), **found}


def read_source(file: str) -> str | None:
    from benchmarks.lint_truth.packages import package_roots

    package, _, rest = file.partition("/")
    path = Path(package_roots().get(package, "")) / rest
    return path.read_text() if path.is_file() else None


def _merge(arguments: argparse.Namespace) -> None:
    """Turn the records into the truth table."""
    from benchmarks.lint_truth.built import coverage
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.gb_types import name_breaks
    from benchmarks.lint_truth.packages import declare_vision_operators
    from benchmarks.lint_truth.truth import merge

    declare_vision_operators()
    records = [json.loads(line) for line in arguments.records.read_text().splitlines()]
    families = {
        entry.name: (entry.package, entry.family or entry.name)
        for entry in catalogue(arguments.versions)
    }
    records = [
        record
        for record in records
        if (record.get("model") or record["label"].partition(":")[0]) in families
    ]
    table = {"environment": _environment(), **merge(records, families, read_source)}
    table["coverage"] = coverage(table["models"])
    name_breaks(table["sites"])
    if arguments.versions.blind:
        withhold(table)
    arguments.truth.write_text(json.dumps(table, indent=None, separators=(",", ":")) + "\n")
    print(f"{len(table['models'])} models, {len(table['sites'])} sites -> {arguments.truth}")


def _causes(arguments: argparse.Namespace) -> None:
    """Trace again the models of breaks without a cause, and name the causes in the truth table."""
    from benchmarks.lint_truth.causes import add_causes, runs_without_cause, without_cause

    truth = json.loads(arguments.truth.read_text())
    if _environment() != truth["environment"]:
        raise SystemExit(f"{arguments.truth} was measured with {truth['environment']}")
    runs = runs_without_cause(truth)
    arguments.models, arguments.stages = [run.rpartition(":")[0] for run in runs], ["trace"]
    before = len(without_cause(truth))
    _observe(arguments)
    records = [json.loads(line) for line in arguments.records.read_text().splitlines()]
    changed = add_causes(truth, records, Sources(read_source).statement)
    arguments.truth.write_text(json.dumps(truth, indent=None, separators=(",", ":")) + "\n")
    left = len(without_cause(truth))
    print(f"causes named at {changed} sites; without any: {before} before, {left} now")


def _options(arguments: argparse.Namespace, torch: str) -> list[str]:
    """The linter's options: those that are asked for, and as target the `torch` that the truth was
    measured with, unless another one is asked for.
    """
    options: list[str] = [*arguments.lint]
    if not any(option.startswith("target-torch=") for option in options):
        options.append(f"target-torch={release(torch)}")
    return [f"--{option}" for option in options]


def _lint(arguments: argparse.Namespace, options: list[str]) -> tuple[list[Finding], list[Finding]]:
    """(default-on findings, preview findings) of the linter on the packages.

    With `--findings FILE` the linter's rows are kept there, and read from there if it exists.
    With `--stripped` it gets copies of the packages without annotations.
    """
    from benchmarks.lint_truth.packages import package_roots

    kept: Path | None = arguments.findings
    roots = package_roots()
    if kept is not None and kept.exists():
        rows = json.loads(kept.read_text())
    else:
        rows = _linted(roots, arguments.stripped, options)
        if kept is not None:
            kept.write_text(json.dumps(rows))
    arguments.linter = rows.get("linter")
    relative_name = relative_to(roots)
    default = read_findings(rows["default"], relative_name)
    known = {(f.file, f.line, f.code) for f in default}
    preview = read_findings(rows["preview"], relative_name, preview=True)
    return default, [f for f in preview if (f.file, f.line, f.code) not in known]


def _linted(roots: dict[str, str], stripped: bool, options: list[str]) -> dict[str, Any]:
    """The linter's rows about the packages at `roots`, and which linter that was."""
    with contextlib.ExitStack() as stack:
        read = roots
        if stripped:
            folder = stack.enter_context(TemporaryDirectory(prefix="stripped-"))
            read, _ = copy_packages(roots, Path(folder).resolve(), strip=True)
        rows = {
            "default": _run_linter(read, options),
            "preview": _run_linter(read, [*options, "--preview"]),
        }
    for row in (*rows["default"], *rows["preview"]):
        for name, root in read.items():
            if row["filename"].startswith(root):
                row["filename"] = roots[name] + row["filename"][len(root) :]
                break
    return {"linter": {**_linter(), "options": options, "stripped": stripped}, **rows}


def _linter() -> dict[str, str]:
    """Version and commit of the linter that is imported; no commit outside of a repository."""
    import pygraph_lint

    folder = Path(pygraph_lint.__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"version": pygraph_lint.__version__, "commit": done.stdout.strip()}


def _run_linter(roots: dict[str, str], options: list[str]) -> list[dict[str, Any]]:
    """The linter's JSON on all packages. Raises RuntimeError with its message if it fails."""
    command = [sys.executable, "-m", "pygraph_lint", "check", *sorted(roots.values()), *options]
    command += ["--output-format", "json", "--no-respect-gitignore", "--exclude", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the linter ended with {done.returncode}: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _score(arguments: argparse.Namespace) -> None:
    """Run the linter and score its findings on the truth table and the recorded corpus."""
    truth = json.loads(arguments.truth.read_text())
    sources = Sources(read_source)
    default, preview = _lint(arguments, _options(arguments, truth["environment"]["torch"]))
    findings = [*default, *preview]
    result = score(truth, findings, sources.statement, sources.text)
    result["environment"] = truth["environment"]
    result["linter"] = arguments.linter
    if "coverage" in truth:
        result["coverage"] = truth["coverage"]
    print(table(result))
    if arguments.versions.corpus:
        corpus = json.loads(arguments.corpus.read_text())
        found = corpus_recall(corpus["sites"], truth, default, sources.statement)
        result["corpus"] = found
        print(
            f"recorded break sites: {found['found']}/{found['sites']} found; of the "
            f"{found['confirmed']} that break here too: {found['confirmed_found']}"
        )
    arguments.score.write_text(json.dumps(result, indent=1) + "\n")
    print(f"misses and false alarms: {arguments.score}")
    if arguments.list:
        print(listing(result["halves"][arguments.list]))


def _compare(arguments: argparse.Namespace) -> None:
    """Compare the pretended device with the records of a real GPU."""
    records = [json.loads(line) for line in arguments.records.read_text().splitlines()]
    gpu = json.loads(arguments.gpu.read_text())
    result = {
        "environment": gpu["environment"],
        "comparison": compare(records, gpu["records"]),
        "sites": gpu_sites(gpu["records"]),
        "failed": [record for record in gpu["records"] if "error" in record],
    }
    arguments.gpu_sites.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    for name, numbers in result["comparison"].items():
        print(
            f"{name}: {numbers['lines_named']} of {numbers['lines']} lines named "
            f"({numbers['runs']} model runs), {len(numbers['only_pretended'])} only pretended"
        )


def _report(arguments: argparse.Namespace) -> None:
    """Write docs/explanation/accuracy.md from the results."""
    current, newer = SETS["current"], SETS["newer"].score_file
    results = (current.score_file, current.truth_file, arguments.gpu_sites)
    packages = newer.with_name("lint_truth_packages_score.json")
    page = accuracy_page(
        *(json.loads(path.read_text()) for path in results),
        newer=json.loads(newer.read_text()) if newer.exists() else None,
        packages=json.loads(packages.read_text()) if packages.exists() else None,
    )
    arguments.page.write_text(page)
    print(f"written: {arguments.page}")


def _gb_types(arguments: argparse.Namespace) -> None:
    """Count the kinds of breaks at the tune half's sites of every set that has been measured."""
    from benchmarks.lint_truth import gb_types

    sites = []
    for versions in SETS.values():
        if versions.truth_file.exists():
            truth = json.loads(versions.truth_file.read_text())
            halves = {name: model["half"] for name, model in truth["models"].items()}
            sites += [site for site in truth["sites"] if site_half(site, halves) == "tune"]
    explanations = json.loads(gb_types.EXPLANATIONS.read_text())
    result = {
        "torch": metadata.version("torch"),
        "gb_types": gb_types.by_event(sites, gb_types.ids(), explanations),
    }
    arguments.gb_types.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(result['gb_types'])} kinds of breaks -> {arguments.gb_types}")


def _all(arguments: argparse.Namespace) -> None:
    """Measure, merge, score."""
    _observe(arguments)
    _merge(arguments)
    _score(arguments)


STEPS = {
    "all": _all,
    "observe": _observe,
    "merge": _merge,
    "score": _score,
    "compare-gpu": _compare,
    "report": _report,
    "gb-types": _gb_types,
    "causes": _causes,
}


def _score_file(arguments: argparse.Namespace) -> Path:
    file: Path = arguments.versions.score_file
    return file.with_stem(f"{file.stem}_stripped") if arguments.stripped else file


def main() -> int:
    """Command line; returns the exit status."""
    root = Path(__file__).resolve().parents[2]
    results = root / "benchmarks" / "results"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=list(STEPS), default="all")
    parser.add_argument("--set", choices=list(SETS), default="current", dest="versions")
    parser.add_argument("--records", type=Path, help="default: in the set's environment")
    parser.add_argument("--truth", type=Path, help="default: the set's file in benchmarks/results")
    parser.add_argument("--score", type=Path, help="likewise")
    parser.add_argument(
        "--corpus", type=Path, default=Path(__file__).parent / "corpus_break_sites.json"
    )
    parser.add_argument("--gpu", type=Path, help="compare-gpu: what gpu_syncs wrote")
    parser.add_argument("--gpu-sites", type=Path, default=results / "lint_truth_gpu.json")
    parser.add_argument("--page", type=Path, default=root / "docs" / "explanation" / "accuracy.md")
    parser.add_argument("--gb-types", type=Path, default=results / "gb_types_by_event.json")
    parser.add_argument(
        "--list", choices=["tune"], help="print that half's misses and false alarms"
    )
    parser.add_argument(
        "--lint",
        nargs="*",
        default=[],
        metavar="OPTION",
        help="score: more options of the linter, as regions=all; the target is the truth's torch",
    )
    parser.add_argument(
        "--stripped", action="store_true", help="score: lint copies without annotations"
    )
    parser.add_argument("--findings", type=Path, help="keep the linter's findings in this file")
    parser.add_argument("--models", nargs="*", default=[], help="only these, measured again")
    parser.add_argument("--again", action="store_true", help="measure every model again")
    parser.add_argument("--stages", nargs="*", default=STAGES, choices=STAGES)
    parser.add_argument("--workers", type=int, default=1, help="models at once")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for a model and mode")
    arguments = parser.parse_args()
    arguments.versions = SETS[arguments.versions]
    arguments.records = arguments.records or arguments.versions.records
    arguments.truth = arguments.truth or arguments.versions.truth_file
    arguments.score = arguments.score or _score_file(arguments)
    if arguments.stripped and arguments.findings:
        parser.error("--findings keeps names of files that --stripped removes again")
    STEPS[arguments.step](arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
