"""The command: ``pygraph-lint [check] PATH...``, ``trace PROGRAM``, ``rule CODE``, ``rules``,
``rule-test``, ``config``, ``clean``, ``server``, ``completion SHELL``.

Exit codes are ruff's: 0 nothing found, 1 findings, 2 wrong usage or settings, a path that does not
exist, a folder that cannot be read, a file that could not be written, or a bug of the linter. 130
after Ctrl-C.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence

from pygraph_lint.commands import arguments

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    _open_closed_streams()
    return _finished(arguments.parse(sys.argv[1:] if argv is None else list(argv)))


def _finished(given: Namespace) -> int:
    """Run what the command line asks for, errors shown; the exit code."""
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
        fixing = getattr(given, "fix", False) or getattr(given, "fix_only", False)
        kept = "; each file is unchanged or completely fixed" if fixing else ""
        print(f"interrupted{kept}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # What reads the output went away (`| head`). Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = error.strerror or error
        if error.filename is not None:  # a folder without permission
            print(f"error: {error.filename}: {reason}", file=sys.stderr)
            return 2
        # Output that cannot be written: a full disk.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: the report cannot be written: {reason}", file=sys.stderr)
        return 2
    except Exception:
        # Not 1, which says that there are findings.
        traceback.print_exc()
        print("error: pygraph-lint has a bug: please report the lines above", file=sys.stderr)
        return 2


def command() -> int:
    """``main`` of a process that ends with it: the garbage collector does not look at everything
    one last time, and not at all during a single check.
    """
    _open_closed_streams()
    given = arguments.parse(sys.argv[1:])
    if given.command == "check" and not given.watch:
        gc.disable()
    code = _finished(given)
    gc.freeze()
    return code


def _open_closed_streams() -> None:
    """Python has None for a standard stream that was closed before the start."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _run(given: Namespace) -> int:
    if given.command == "check":
        from pygraph_lint.commands.check import check

        return check(arguments.options(arguments.Check, given))
    if given.command == "trace":
        from pygraph_lint.commands.trace import trace

        return trace(arguments.options(arguments.Trace, given))
    if given.command == "server":
        return _serve()
    if given.command == "config":
        from pygraph_lint.commands.settings import explain

        return explain(given.key)
    if given.command == "clean":
        from pygraph_lint.commands.settings import clean

        return clean(given.cache_dir)
    if given.command == "completion":
        return _print_completion(given.shell)
    if given.command == "rule-test":
        from pygraph_lint.commands.own_rules import rule_test

        return rule_test(given.folders)
    from pygraph_lint.commands.rule import rule, rules

    form = given.output_format
    return rules(form) if given.command == "rules" else rule(given.code, form)


def _serve() -> int:
    """Serve an editor until it ends that. Raises SettingsError where the extra is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("pygls", "lsprotocol")):
        from pygraph_lint.errors import SettingsError

        raise SettingsError(
            "the editor server needs pygls and lsprotocol: pip install 'pygraph-lint[server]'"
        )
    from pygraph_lint.server.features import server

    server().start_io()
    return 0


def _print_completion(shell: str) -> int:
    """Print the completion script for one of ``arguments.SHELLS``; the exit code."""
    import shtab

    from pygraph_lint.commands.output import write

    write(shtab.complete(arguments.parser(), shell=shell))
    return 0
