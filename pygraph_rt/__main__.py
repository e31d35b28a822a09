"""`python -m pygraph_rt`: what this machine and torch support, and saved reports."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from pygraph_rt.cuda import driver
from pygraph_rt.errors import DriverError, ReportError
from pygraph_rt.inductor import torch_support
from pygraph_rt.reports import plot
from pygraph_rt.reports.ranks import render_ranks
from pygraph_rt.reports.report import Report
from pygraph_rt.select import remembered


def doctor() -> tuple[str, bool]:
    """A few lines about this machine, and whether graphs can be used on it."""
    built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "CPU-only build"
    lines = [f"torch {torch.__version__}, {built}"]
    reason = torch_support.why_plain()
    try:
        version = driver.load().version()
        lines.append(f"driver supports CUDA {version // 1000}.{version % 1000 // 10}")
    except DriverError as error:
        lines.append(str(error))
        reason = reason or str(error)
    if torch.cuda.is_available():
        lines += [
            f"GPU {i}: {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())
        ]
        allocator = torch.cuda.get_allocator_backend()
        lines.append(f"allocator: {allocator}")
        if allocator != "native":
            reason = reason or f"graphs need the native allocator, this is {allocator}"
    lines.append(f"remembered decisions: {remembered.folder()}")
    lines.append(f"graphs: no ({reason})" if reason else "graphs: yes")
    return "\n".join(lines), reason is None


def read(path: Path) -> Report:
    """A saved report. Raises ReportError, with the file's name, for anything else."""
    try:
        return Report.from_json(path.read_text("utf-8"))
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ReportError(f"{path} cannot be read: it is not UTF-8 text") from None
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def shown(paths: Sequence[Path]) -> str:
    """Saved reports as text: one as it is, several as the ranks of one job."""
    if len(paths) == 1:
        return str(read(paths[0]))
    stems = [path.stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in paths]
    return render_ranks({name: read(p).regions for name, p in zip(names, paths, strict=True)})


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m pygraph_rt", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="say what this machine and torch support")
    shown = commands.add_parser(
        "report", help="print a report that to_json() made; of several ranks, what differs, too"
    )
    shown.add_argument("files", type=Path, nargs="+", metavar="FILE")
    drawn = commands.add_parser("plot", help="draw a report that to_json() made, as SVG")
    drawn.add_argument("file", type=Path)
    drawn.add_argument("--out", type=Path, help="default: the file's name with .svg")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when graphs can be used or the file was shown, 1 when graphs cannot be used, 2
    when the file is no report.
    """
    given = parser().parse_args(arguments)
    if given.command == "doctor":
        text, usable = doctor()
        print(text)
        return 0 if usable else 1
    try:
        if given.command == "report":
            print(shown(given.files))
        else:
            found = read(given.file)
            out = given.out or given.file.with_suffix(".svg")
            out.write_text(plot.svg(found.regions), "utf-8")
            print(out)
    except (ReportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
