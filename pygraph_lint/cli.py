"""The command: ``pygraph-lint [check] PATH...``, ``rule CODE``, ``rules``.

Exit codes are ruff's: 0 nothing found, 1 findings, 2 wrong usage or settings, or a file that could
not be written. 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pygraph_lint.commands import arguments

if TYPE_CHECKING:
    import argparse

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    given = arguments.parse(sys.argv[1:] if argv is None else list(argv))
    # Imported here, because `--version` and `--help` have no use for the rest.
    from pygraph_lint.errors import LintError

    try:
        code = _run(given)
        sys.stdout.flush()
        return code
    except LintError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; every file is either as it was or wholly mended", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What reads the output went away (`| head`). Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(given: argparse.Namespace) -> int:
    if given.command == "check":
        from pygraph_lint.commands.check import check

        return check(given)
    from pygraph_lint.commands import rule

    if given.command == "rule":
        return rule.rule(given.code, given.output_format)
    return rule.rules(given.output_format)
