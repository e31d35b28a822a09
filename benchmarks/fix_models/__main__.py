"""Copies transformers, fixes the copies, runs models of each, and compares.

Steps: ``fix`` makes the copies (``before``, ``safe``, ``closed``: safe fixes with assume-closed,
``unsafe``) in a folder; ``run`` runs models of each copy; ``report`` writes the table;
``all`` does everything. Runs that are recorded already are not made again.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.fix_models import copies
from benchmarks.fix_models.copies import BEFORE, PACKAGE, VARIANTS
from benchmarks.fix_models.models import GRAPHMEND, NAMES
from benchmarks.fix_models.records import current, digest, named, own_breaks, read
from benchmarks.fix_models.summary import MODES, left_over, rows, sums
from benchmarks.slices import commit

SHOWN_VARIANTS = ("safe", "unsafe")


def _fix(arguments: argparse.Namespace) -> None:
    for variant in (BEFORE, *arguments.variants):
        if variant != BEFORE or not (arguments.folder / BEFORE / PACKAGE).exists():
            copies.make(arguments.folder, variant)


def _run(arguments: argparse.Namespace) -> None:
    """Run the models, one process per copy: each imports its own package."""
    root = Path(__file__).resolve().parents[2]
    for variant in (BEFORE, *arguments.variants):
        command = [sys.executable, "-m", "benchmarks.fix_models", "run-copy", "--variants", variant]
        command += ["--folder", str(arguments.folder), "--workers", str(arguments.workers)]
        command += ["--known", str(arguments.known), "--models", *arguments.models]
        subprocess.run(command, check=True, cwd=root)


def _run_copy(arguments: argparse.Namespace) -> None:
    """Run the models of one copy that are not recorded; of a fixed one, those that broke before."""
    (variant,) = arguments.variants
    where = arguments.folder / variant
    jobs = _wanted(arguments, variant)
    with (where / "records.jsonl").open("a") as stream:
        for key in list(jobs):
            record = _same_code(arguments.folder, variant, key)
            if record:
                stream.write(json.dumps(record) + "\n")
                jobs.remove(key)
        stream.flush()
        if jobs:
            _run_jobs(arguments, variant, jobs, stream)


def _wanted(arguments: argparse.Namespace, variant: str) -> list[tuple[str, str]]:
    """(model, mode) pairs to run in a copy, in the order of the list of models.

    Those are left out whose record was made with the code that the copy has now.
    """
    done = current(arguments.folder, variant)
    before = read(arguments.folder / BEFORE)
    unbroken = _unbroken(arguments.known)
    wanted = []
    for key in ((name, mode) for name in arguments.models or NAMES for mode in MODES):
        if key in done or key in unbroken:
            continue
        first = before.get(key)
        if variant == BEFORE or (first and "error" not in first and own_breaks(first)):
            wanted.append(key)
    return wanted


def _unbroken(path: Path) -> set[tuple[str, str]]:
    """The (model, mode) pairs that a truth table says do not break; none if there is no table."""
    if not path.is_file():
        return set()
    table = json.loads(path.read_text())
    broken = {
        name for site in table["sites"] for name in site["kinds"].get("break", {"in": ()})["in"]
    }
    return {
        (model, mode)
        for model, row in table["models"].items()
        for mode, found in row["modes"].items()
        if "break_sites" in found and f"{model}:{mode}" not in broken
    }


def _same_code(folder: Path, variant: str, key: tuple[str, str]) -> dict[str, Any] | None:
    """The record of another copy whose files, all that the model imports, are the same."""
    if variant == BEFORE:
        return None
    first = read(folder / BEFORE)[key]
    mine = digest(folder / variant, first["files"])
    if digest(folder / BEFORE, first["files"]) == mine:
        same = {"equal": {}, "random_state_equal": True, "code": mine, "same_code_as": BEFORE}
        return {**first, **same}
    for other in VARIANTS:
        record = read(folder / other).get(key, {})
        if other != variant and record.get("code") == mine:
            return {**record, "same_code_as": record.get("same_code_as", other)}
    return None


def _run_jobs(
    arguments: argparse.Namespace, variant: str, keys: list[tuple[str, str]], stream: Any
) -> None:
    where = (arguments.folder / variant).resolve()
    sys.path.insert(0, str(where))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.set_num_threads(1)
    from benchmarks.lint_truth import packages, preload
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.pool import run_all

    packages.declare_vision_operators()
    preload.load()
    from benchmarks.fix_models.worker import look

    if not copies.installed().is_relative_to(where):
        raise RuntimeError(f"{PACKAGE} is imported from {copies.installed()}, not from {where}")
    entries = {entry.name: entry for entry in catalogue()}
    before = (arguments.folder / BEFORE).resolve()
    first = read(before)
    jobs = [
        (":".join(key), functools.partial(look, entries[key[0]], key[1], where, before))
        for key in keys
        if key[1] in entries[key[0]].modes
    ]
    for number, records in enumerate(run_all(jobs, arguments.workers, arguments.seconds), start=1):
        # A killed job has a record without a model: its label names it.
        for record in (named(one, one.get("label", "")) for one in records[-1:]):
            key = (record["model"], record["mode"])
            record["code"] = digest(where, first.get(key, record).get("files", ()))
            stream.write(json.dumps(record) + "\n")
            print(f"[{number}/{len(jobs)}] {variant} {_line(record)}", flush=True)
        stream.flush()


def _line(record: dict[str, Any]) -> str:
    """One line of progress."""
    text = f"{record['model']}:{record['mode']} {record.get('seconds', '')} s, "
    if "error" in record:
        return f"{text}{record['error']}"
    text += f"{len(own_breaks(record))} breaks"
    unequal = {name: one for name, one in record.get("equal", {}).items() if not one["equal"]}
    if unequal or not record.get("random_state_equal", True):
        text += f", DIFFERS {json.dumps(unequal)}, random {record['random_state_equal']}"
    return text + (f", {record['compiled_error']}" if record["compiled_error"] else "")


def _report(arguments: argparse.Namespace) -> None:
    from benchmarks.fix_models.causes import by_cause, explain

    folder = arguments.folder
    variants = [name for name in VARIANTS if read(folder / name)]
    records = {name: current(folder, name) for name in (BEFORE, *variants)}
    changed = {name: copies.changed_lines(folder, name) for name in variants}
    executed = {key: one.get("files", []) for key, one in records[BEFORE].items()}
    table = rows(records, executed, changed)
    result: dict[str, Any] = {
        "environment": _environment(),
        "seconds": copies.times(folder),
        "lines_changed": {
            name: {
                "files": len(files),
                "added": sum(one[0] for one in files.values()),
                "removed": sum(one[1] for one in files.values()),
            }
            for name, files in changed.items()
        },
        "models": len({row["model"] for row in table}),
        "sums": {mode: {name: sums(table, mode, name) for name in variants} for mode in MODES},
        "not_run": {
            ":".join(key): one["error"] for key, one in records[BEFORE].items() if "error" in one
        },
    }
    for name in variants:
        sites = explain((folder / name).resolve(), left_over(records[name]))
        result.setdefault("left_by_cause", {})[name] = by_cause(sites)
        if name in SHOWN_VARIANTS:
            result.setdefault("left", {})[name] = sites
    result["rows"] = table
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    _print(result)


def _environment() -> dict[str, str]:
    names = ("torch", PACKAGE, "huggingface_hub")
    versions = {name: metadata.version(name) for name in names}
    return {"python": platform.python_version(), **versions, "commit": commit()}


def _print(result: dict[str, Any]) -> None:
    for mode, by_variant in result["sums"].items():
        for name, row in by_variant.items():
            print(
                f"{mode} {name}: {row['models']} models, events {row['events']}, "
                f"sites {row['sites']}, free {row['models_without_breaks']}, "
                f"differ {row['differ']}, with the random stream "
                f"{row['differ_with_random_stream']}, compiled unlike eager "
                f"{row['compiled_differs']}, stopped {row['stopped']}"
            )
    print(result["seconds"])


STEPS = {"fix": _fix, "run": _run, "run-copy": _run_copy, "report": _report}


def main() -> int:
    """Command line; returns the exit status."""
    root = Path(__file__).resolve().parents[2]
    results = root / "benchmarks" / "results"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["fix", "run", "run-copy", "report", "all"])
    parser.add_argument(
        "--folder", type=Path, default=root / ".venv-truth" / "fix_models", help="of the copies"
    )
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--models", nargs="*", default=[], help="only these")
    parser.add_argument(
        "--graphmend", action="store_true", help="only GraphMend's list, for transformers 4.52.4"
    )
    parser.add_argument("--workers", type=int, default=1, help="models at once")
    parser.add_argument("--seconds", type=float, default=180.0, help="limit for a model and mode")
    parser.add_argument(
        "--known",
        type=Path,
        default=results / "lint_truth_sites.json",
        help="truth table: what does not break there is not run",
    )
    parser.add_argument("--out", type=Path, default=results / "fix_models.json")
    arguments = parser.parse_args()
    if arguments.graphmend:
        arguments.models = arguments.models or list(GRAPHMEND)
    for step in ("fix", "run", "report") if arguments.step == "all" else (arguments.step,):
        STEPS[step](arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
