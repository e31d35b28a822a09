"""Small projects to lint, and the command run on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]

# One finding by default rules: PG201 in row 6, column 16.
SYNCS = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peak = x.abs().max().item()
        return x / (peak + 1.0)
"""

# Nothing to find.
CLEAN = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs().max() + 1.0)
"""

# One finding that has a safe fix: PG101 in row 6.
FIXABLE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0]).to(x.device)  # starts empty
        return x + mask
"""

FIXED = FIXABLE.replace("x.shape[0]).to(x.device)", "x.shape[0], device=x.device)")

# Both, in one file: rows 6 and 12.
BOTH = FIXABLE + SYNCS.partition("\n")[2].replace("Model", "Other")
BOTH_FIXED = BOTH.replace(FIXABLE, FIXED)


@dataclass
class Result:
    """What a run of the command gave."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of findings, without the summary."""
        return [line for line in self.out.splitlines() if ": PG" in line]

    def json(self) -> list[dict[str, Any]]:
        """The report, where it was asked for as JSON."""
        parsed: list[dict[str, Any]] = json.loads(self.out)
        return parsed


class Lint:
    """The command, run in this process in a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def write(self, files: dict[str, str | bytes]) -> None:
        """Write files, making their folders."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)

    def read(self, name: str) -> str:
        """A file's text, line ends as they are."""
        return (self.folder / name).read_bytes().decode()

    def __call__(self, *arguments: str) -> Result:
        self._capture.readouterr()
        try:
            code = main(list(arguments))
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        captured = self._capture.readouterr()
        return Result(code, captured.out, captured.err)


def run_process(
    *arguments: str, cwd: Path, stdin: bytes | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(
        [sys.executable, "-m", "pygraph_lint", *arguments],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
