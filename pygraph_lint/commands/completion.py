"""``pygraph-lint completion SHELL``: a completion script, made from the command line's form."""

from __future__ import annotations

import sys

from pygraph_lint.commands.arguments import parser


def completion(shell: str) -> int:
    """Print the script for one of ``SHELLS``; the exit code."""
    import shtab

    sys.stdout.write(shtab.complete(parser(), shell=shell))
    return 0
