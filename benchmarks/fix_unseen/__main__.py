"""Copies packages, fixes the copies, runs what broke with each copy, and counts the breaks left.

Sets: ``packages`` (the programs of ``lint_truth_packages``) and ``models`` (the newest
transformers, timm and diffusers). Each is split into two halves by a hash of names, of packages or
families; of the held-out half only totals are written. Steps: ``fix``, ``run`` (goes on where it
stopped), ``report``.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "before"
#: Copy -> options of ``check`` and whether the checked code is all there is.
VARIANTS: dict[str, tuple[list[str], bool]] = {
    "safe": (["--fix"], False),
    "closed": (["--fix"], True),
    "unsafe": (["--fix", "--unsafe-fixes"], False),
}
Record = dict[str, Any]


def _fix(arguments: argparse.Namespace) -> None:
    """A fresh copy of each package for each variant, fixed."""
    from benchmarks.fix_unseen.subjects import measured

    for variant in (BEFORE, *arguments.variants):
        where = arguments.folder / variant
        if variant == BEFORE and where.exists():
            continue
        (where / "records.jsonl").unlink(missing_ok=True)
        for name in measured(arguments.set):
            if not arguments.only or name in arguments.only:
                _copy(name, where / name)
                if variant != BEFORE:
                    _mend(where / name, *VARIANTS[variant], arguments.regions)
        (where / "done").touch()


def _copy(name: str, to: Path) -> None:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{name} is not installed")
    shutil.rmtree(to, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(spec.submodule_search_locations[0], to, ignore=ignored)


def _mend(folder: Path, options: list[str], closed: bool, regions: str) -> None:
    """Fix a copy in place, where no other package is beside it."""
    settings = folder.parent / "settings.toml"
    settings.write_text(f"assume-closed = {str(closed).lower()}\n")
    place = folder.parent / "alone" / folder.name
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir()
    folder.rename(place)
    command = [sys.executable, "-m", "pygraph_lint", "check", str(place), *options]
    command += ["--no-cache", "--exit-zero", "--quiet", "--no-respect-gitignore"]
    command += ["--exclude", "nothing", "--regions", regions, "--config", str(settings)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    place.rename(folder)


def _run(arguments: argparse.Namespace) -> None:
    """Run each copy in a process of its own, which imports it."""
    for variant in (BEFORE, *arguments.variants):
        command = [sys.executable, "-m", "benchmarks.fix_unseen", "run-copy", "--set"]
        command += [arguments.set, "--variants", variant, "--folder", str(arguments.folder)]
        command += ["--workers", str(arguments.workers), "--half", arguments.half]
        command += ["--seconds", str(arguments.seconds), "--only", *arguments.only]
        subprocess.run(command, check=True, cwd=ROOT)


def _run_copy(arguments: argparse.Namespace) -> None:
    (variant,) = arguments.variants
    where = (arguments.folder / variant).resolve()
    sys.path.insert(0, str(where))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    from benchmarks.fix_unseen.subjects import measured, subjects
    from benchmarks.fix_unseen.worker import look
    from benchmarks.lint_truth import packages
    from benchmarks.lint_truth.pool import run_all

    packages.measure(measured(arguments.set))
    packages.declare_vision_operators()
    first = variant == BEFORE
    before = arguments.folder.resolve() / BEFORE
    path = where / "records.jsonl"
    done = set(_read(path))
    wanted = [
        one
        for one in subjects(arguments.set)
        if one.name not in done
        and arguments.half in (one.half, "both")
        and (not arguments.only or one.group.replace("-", "_") in arguments.only)
    ]
    known = {} if first else _read(before / "records.jsonl")
    changed = frozenset() if first else changed_files(before, where, measured(arguments.set))
    jobs = [
        (one.name, functools.partial(look, one, before, known.get(one.name), changed))
        for one in wanted
        if first or one.name in known
    ]
    with path.open("a") as stream:
        found = run_all(jobs, arguments.workers, arguments.seconds)
        for number, records in enumerate(found, start=1):
            record = records[-1]
            record.setdefault("name", record.get("label"))
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            told = record.get("error") or f"{record['count']} breaks"
            half = record.get("half", "")
            name = record["name"] if half == "develop" else ""
            print(f"[{number}/{len(jobs)}] {variant} {name} {told if name else ''}", flush=True)


def changed_files(before: Path, after: Path, names: list[str]) -> frozenset[str]:
    """The files in ``after`` that are not as they are in ``before``."""
    return frozenset(
        str(path)
        for name in names
        for path in (after / name).rglob("*.py")
        if path.read_bytes() != (before / path.relative_to(after)).read_bytes()
    )


def _read(path: Path) -> dict[str, Record]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["name"]: row for row in rows}


def _report(arguments: argparse.Namespace) -> None:
    """Totals by half, and by group; every difference and every program of the develop half."""
    first = _read(arguments.folder / BEFORE / "records.jsonl")
    usable = {name: row for name, row in first.items() if row.get("count")}
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    result: Record = {
        "environment": _environment(arguments.set),
        "regions": arguments.regions,
        "commit": subprocess.check_output(command, text=True).strip(),
        "what": arguments.what,
        "runs": {},
    }
    for variant in arguments.variants:
        rows = _read(arguments.folder / variant / "records.jsonl")
        result["runs"][variant] = {
            half: _totals({n: r for n, r in usable.items() if r["half"] == half}, rows)
            for half in ("develop", "held-out")
            if arguments.half in (half, "both")
        }
        result["runs"][variant].get("held-out", {}).pop("left", None)
    known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.earlier:
        known[arguments.earlier] = known.pop(arguments.set)
    known[arguments.set] = result
    arguments.out.write_text(json.dumps(known, indent=1) + "\n")
    for variant, halves in result["runs"].items():
        for half, row in halves.items():
            print(variant, half, {k: v for k, v in row.items() if k not in ("left", "by_group")})


def _environment(which: str) -> dict[str, Any]:
    from benchmarks.fix_unseen.subjects import MODELS

    names = ("torch", *(MODELS if which == "models" else ()))
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def _totals(first: dict[str, Record], rows: dict[str, Record]) -> Record:
    """Breaks before and after of what ran in both copies; what differs, what stops. Of a program in
    which nothing is compiled any more no break counts as removed.
    """
    both = {name: row for name, row in first.items() if name in rows}
    ran = {name: rows[name] for name in both if "count" in rows[name]}
    nothing = [name for name in ran if both[name]["graphs"] and not ran[name]["graphs"]]
    ran |= {name: {**ran[name], "count": both[name]["count"]} for name in nothing}
    before, after = (sum(table[name]["count"] for name in ran) for table in (both, ran))
    groups: Counter[str] = Counter()
    for name in ran:
        groups[f"{both[name]['group']} before"] += both[name]["count"]
        groups[f"{both[name]['group']} after"] += ran[name]["count"]
    differ = [n for n in ran if both[n]["repeatable"] and ran[n]["unequal"]]
    stopped = [n for n in both if "count" not in rows[n]] + [
        n for n in ran if ran[n]["compiled_error"] and not both[n]["compiled_error"]
    ]
    left = Counter(
        f"{o['file']}:{o['line']} {o['kind']}" for r in ran.values() for o in r["breaks"]
    )
    open_half = any(row["half"] == "develop" for row in both.values())
    return {
        "subjects": len(both),
        "not_run": len(first) - len(both),
        "before": before,
        "after": after,
        "removed": round(1 - after / before, 3) if before else None,
        "graphs_before": sum(both[name]["graphs"] for name in ran),
        "graphs_after": sum(row["graphs"] for row in ran.values()),
        "without_breaks_left": sum(not row["count"] for row in ran.values()),
        "nothing_compiled": len(nothing),
        "fewer_breaks": sum(row["count"] < both[name]["count"] for name, row in ran.items()),
        "differ": differ if open_half else len(differ),
        "stopped": stopped if open_half else len(stopped),
        "by_group": dict(groups) if open_half else {},
        "left": dict(left.most_common(80)),
    }


STEPS = {"fix": [_fix], "run": [_run], "run-copy": [_run_copy], "report": [_report]}
STEPS["all"] = [_fix, _run, _report]


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=list(STEPS))
    parser.add_argument("--set", choices=["packages", "models"], default="packages")
    parser.add_argument("--folder", type=Path, required=True, help="of the copies")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--half", choices=["develop", "held-out", "both"], default="both")
    parser.add_argument("--regions", choices=["forward", "compiled", "all"], default="all")
    parser.add_argument("--only", nargs="*", default=[], help="these packages (import names)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=180.0, help="limit for one subject")
    parser.add_argument("--what", default="", help="what was run, written into the report")
    parser.add_argument("--earlier", help="keep the set's earlier report under this name")
    out = ROOT / "benchmarks" / "results" / "fix_unseen.json"
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    for step in STEPS[arguments.step]:
        step(arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
