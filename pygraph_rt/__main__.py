"""`python -m pygraph_rt doctor`: what this machine and this torch support."""

from __future__ import annotations

import argparse
import sys

import torch

from . import driver, inductor
from .errors import DriverError


def doctor() -> tuple[str, bool]:
    """A few lines about this machine, and whether graphs can be used on it."""
    lines = [f"torch {torch.__version__}, built for CUDA {torch.version.cuda or 'no version'}"]
    reason = inductor.why_plain()
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
    lines.append(f"graphs: no ({reason})" if reason else "graphs: yes")
    return "\n".join(lines), reason is None


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when graphs can be used, 1 when not."""
    parser = argparse.ArgumentParser(prog="python -m pygraph_rt", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="say what this machine and torch support")
    parser.parse_args(arguments)
    text, usable = doctor()
    print(text)
    return 0 if usable else 1


if __name__ == "__main__":
    sys.exit(main())
