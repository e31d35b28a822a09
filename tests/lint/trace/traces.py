"""Traces as `pygraph_rt.trace` writes them, made by hand for small programs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peak = x.abs().max().item()
        y = x / (peak + 1.0)
        print("half")
        if y.sum() > 0:
            y = (
                y
                + torch.zeros(3).to(x.device)
            )
        return custom(y)


class Unused(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


def custom(y):
    return y
"""


def frame(path: Path, line: int, function: str = "forward") -> dict[str, Any]:
    return {"file": str(path), "line": line, "function": function}


def event(kind: str, stack: list[dict[str, Any]], number: int = 1, **more: Any) -> dict[str, Any]:
    """One event; the place is the innermost frame."""
    made = {
        "id": f"e{number}",
        "kind": kind,
        "detector": "dynamo",
        "time_s": 0.1 * number,
        "duration_s": None,
        "count": 1,
        "times": [[0.1 * number, None]],
        **stack[-1],
        "end_line": stack[-1]["line"],
        "stack": stack,
        "frame": stack[0],
        "frame_skipped": None,
        "raised": False,
        "gb_type": None,
        "gb_id": None,
        "reason": "",
        "guard": None,
        "compile_ids": [f"{number}/0"],
        "region": None,
        "details": {},
    }
    return {**made, **more}


def region(path: Path, line: int, compile_id: str, function: str = "forward") -> dict[str, Any]:
    return {
        "key": f"r{compile_id}",
        "name": "__compiled_fn_0",
        **frame(path, line, function),
        "compile_id": compile_id,
        "compiled_before_trace": False,
        "calls": 1,
        "host_s": 0.001,
        "device_s": None,
        "compile_s": 0.1,
    }


def document(
    folder: Path,
    files: list[Path],
    events: list[dict[str, Any]],
    traced: dict[str, list[int]] | None = None,
    executed: dict[str, list[int]] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A whole trace. `traced` and `executed` are lines by file name."""
    traced, executed = traced or {}, executed or {}
    kinds = ("graph_break", "recompile", "sync", "host_tensor")
    return {
        "version": 1,
        "tool": {"name": "pygraph-rt", "version": "0"},
        "torch": "2.13.0+cpu",
        "python": "3.12.1",
        "platform": "Linux",
        "device": "cpu",
        "rank": None,
        "world_size": None,
        "directory": str(folder),
        "command": ["train.py"],
        "started": "2026-01-01T00:00:00+00:00",
        "duration_s": 2.0,
        "exit": {"kind": "finished", "code": 0, "error": None},
        "notes": [],
        "detectors": [{"event": k, "detector": "test", "misses": ""} for k in kinds],
        "files": {
            str(path): {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "lines": 1,
                "relative": path.relative_to(folder).as_posix(),
            }
            for path in files
        },
        "events": events,
        "regions": [],
        "reached": {
            "how": ["dynamo"],
            "files": {
                str(path): {
                    "traced": traced.get(path.name, []),
                    "executed": executed.get(path.name),
                }
                for path in files
            },
        },
        **more,
    }


def write(path: Path, made: dict[str, Any]) -> str:
    path.write_text(json.dumps(made), "utf-8")
    return path.name
