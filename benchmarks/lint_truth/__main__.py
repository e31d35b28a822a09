"""Measure where tiny models break, synchronise and make host tensors; score the linter on it."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

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
    for entry in catalogue():
        if arguments.models and entry.name not in arguments.models:
            continue
        for mode in entry.modes:
            label = f"{entry.name}:{mode}"
            if label not in done or arguments.models:
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


def _read_source(file: str) -> str | None:
    from benchmarks.lint_truth.packages import package_roots

    package, _, rest = file.partition("/")
    path = Path(package_roots().get(package, "")) / rest
    return path.read_text() if path.is_file() else None


def _merge(arguments: argparse.Namespace) -> None:
    """Turn the records into the truth table."""
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.truth import merge

    records = [json.loads(line) for line in arguments.records.read_text().splitlines()]
    families = {entry.name: (entry.package, entry.family or entry.name) for entry in catalogue()}
    records = [
        record
        for record in records
        if (record.get("model") or record["label"].partition(":")[0]) in families
    ]
    table = {"environment": _environment(), **merge(records, families, _read_source)}
    arguments.truth.write_text(json.dumps(table, indent=None, separators=(",", ":")) + "\n")
    print(f"{len(table['models'])} models, {len(table['sites'])} sites -> {arguments.truth}")


def main() -> int:
    """Command line; returns the exit status."""
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["observe", "merge"])
    parser.add_argument("--records", type=Path, default=root / ".venv-truth" / "records.jsonl")
    parser.add_argument(
        "--truth", type=Path, default=root / "benchmarks" / "results" / "lint_truth_sites.json"
    )
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--stages", nargs="*", default=STAGES, choices=STAGES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    arguments = parser.parse_args()
    {"observe": _observe, "merge": _merge}[arguments.step](arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
