"""The lines of the measured models that synchronise a real GPU, by PyTorch's own sync warnings.

    python -m benchmarks.lint_truth.gpu_syncs --out FILE [--workers N] [--models NAME ...]

Runs every model of the catalogue forward (eval and train) on `cuda:0` under
`torch.cuda.set_sync_debug_mode("warn")`, once as plain eager code and once with
`torch.compiler.is_compiling()` answering true, and a third time under a dispatch mode that sees
tensors made on the host and copies between host and device. Without a GPU it runs the same code
on the CPU and records no syncs, which tests the script. Needs the versions of
requirements.txt for transformers, diffusers and timm, so that lines agree; any torch >= 2.11.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Workers are forked: asking whether there is a GPU must not initialise CUDA in the parent.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.lint_truth import ghost, packages, preload
from benchmarks.lint_truth.builders import Entry, build
from benchmarks.lint_truth.catalogue import catalogue
from benchmarks.lint_truth.pool import run_all
from benchmarks.lint_truth.worker import calls_of, quiet, seed_all, short_traceback

SYNC_WARNING = "called a synchronizing CUDA operation"


class _Copies(TorchDispatchMode):
    """Host tensors made and copies between host and device, at their package lines."""

    def __init__(self, marks: ghost.Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        sources = {tensor.device.type for tensor in ghost.tensors_in(args, kwargs)}
        made = {tensor.device.type for tensor in ghost.tensors_in(out)}
        if not sources and "cpu" in made:
            self.marks.record("host_tensor", name)
        elif name == "_to_copy" and sources and made and sources != made:
            self.marks.record("h2d" if "cuda" in made else "d2h", name)
        elif name == "copy_" and len(sources) == 2:
            self.marks.record("h2d" if args[0].is_cuda else "d2h", name)
        return out


@contextlib.contextmanager
def _syncs_recorded(marks: ghost.Marks) -> Iterator[None]:
    """Record a "sync" event for every warning of the CUDA sync debug mode."""

    def show(message: Any, *rest: Any, **named: Any) -> None:
        if SYNC_WARNING in str(message):
            marks.record("sync", "cuda")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


def _moved(value: Any, device: torch.device) -> Any:
    """`value` with every tensor in it on `device`."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: _moved(item, device) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    return value


def _pass(entry: Entry, mode: str, device: torch.device, watch: Any) -> list[dict[str, Any]]:
    """Events of one forward run of a fresh model, seen by `watch(marks)`."""
    marks = ghost.Marks()
    model, inputs = build(entry, mode)
    model = model.to(device)
    inputs = _moved(inputs, device)
    seed_all()
    with torch.set_grad_enabled(mode == "train"), watch(marks):
        for each in calls_of(inputs, mode):
            model(**each)
    return sorted(
        (
            {"kind": e.kind, "what": e.what, "file": e.file, "line": e.line, "callers": e.callers}
            for e in marks.events
        ),
        key=lambda event: (event["file"], event["line"], event["kind"]),
    )


def observe_on_gpu(entry: Entry, report: Callable[[dict[str, Any]], None]) -> None:
    """Report one record per mode and pass: "sync", "sync_compiling", "copies"."""
    torch.set_num_threads(1)
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    syncs: Any = _syncs_recorded if device.type == "cuda" else _nothing_recorded
    for mode in entry.modes:
        for name, watch, compiling in (
            ("sync", syncs, False),
            ("sync_compiling", syncs, True),
            ("copies", _Copies, True),
        ):
            record: dict[str, Any] = {"model": entry.name, "mode": mode, "stage": name}
            around = ghost.as_if_compiling() if compiling else contextlib.nullcontext()
            started = time.perf_counter()
            try:
                with quiet(), around:
                    record["result"] = _pass(entry, mode, device, watch)
            except Exception as error:
                record["error"] = short_traceback(error)
            record["seconds"] = round(time.perf_counter() - started, 2)
            report(record)


@contextlib.contextmanager
def _nothing_recorded(marks: ghost.Marks) -> Iterator[None]:
    yield


def _environment() -> dict[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("transformers", "diffusers", "timm"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for one model")
    parser.add_argument("--models", nargs="*", default=[])
    arguments = parser.parse_args()
    packages.declare_vision_operators()
    preload.load()
    entries = [e for e in catalogue() if not arguments.models or e.name in arguments.models]
    if torch.cuda.is_initialized():
        print("CUDA was initialised while importing: forked workers will fail")
    jobs = [(entry.name, functools.partial(observe_on_gpu, entry)) for entry in entries]
    records: list[dict[str, Any]] = []
    started = time.perf_counter()
    for found in run_all(jobs, arguments.workers, arguments.seconds):
        records.extend(found)
    failed = [record for record in records if "error" in record]
    environment = {**_environment(), "device": _device_name()}
    arguments.out.write_text(json.dumps({"environment": environment, "records": records}))
    for record in failed[:40]:
        print(record.get("model", record.get("label")), record.get("stage"), record["error"][:150])
    passes = [r for r in records if r.get("stage") == "sync_compiling" and "result" in r]
    lines = {(e["file"], e["line"]) for r in passes for e in r["result"]}
    print(
        f"{len(jobs)} models, {len(records)} passes, {len(failed)} failed, "
        f"{len(lines)} synchronising lines, {time.perf_counter() - started:.0f} s"
    )
    return 0


def _device_name() -> str:
    """The GPU's name; asks the driver in a way that is safe after the workers were forked."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"


if __name__ == "__main__":
    raise SystemExit(main())
