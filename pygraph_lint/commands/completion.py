"""``pygraph-lint completion SHELL``: a completion script, made from the command line's form."""

from __future__ import annotations

from pygraph_lint.commands.arguments import parser
from pygraph_lint.commands.output import write


def completion(shell: str) -> int:
    """Print the script for one of ``SHELLS``; the exit code."""
    import shtab

    write(shtab.complete(parser(), shell=shell))
    return 0
