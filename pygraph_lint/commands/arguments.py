"""The command line's form."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pygraph_lint import __version__

COMMANDS = ("check", "rule", "rules")
FORMATS = ("concise", "full", "json", "github", "sarif")
TARGETS = ("compile", "fullgraph", "cudagraph")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; without a command word they are those of ``check``. Exits with 2 on wrong
    usage.
    """
    first = argv[0] if argv else ""
    if first not in (*COMMANDS, "-h", "--help", "-V", "--version"):
        argv = ["check", *argv]
    return _parser().parse_args(argv)


def _codes(text: str) -> list[str]:
    return [code for code in text.replace(",", " ").split() if code]


def _version(text: str) -> str:
    from pygraph_lint.files.settings import torch_version

    try:
        return torch_version(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be {error}, not {text!r}") from None


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of processes, 1 or more, not {text!r}")
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        """One line instead of the whole usage."""
        self.exit(2, f"error: {message}; see `{self.prog} --help`\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pygraph-lint",
        description="Find and mend what breaks torch.compile graphs or CUDA graph capture.",
        epilog="Without a command word, `check` is meant: `pygraph-lint --fix src/`.",
        allow_abbrev=False,
    )
    version = f"pygraph-lint {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_check(commands.add_parser("check", help="check files and folders", allow_abbrev=False))
    rule = commands.add_parser("rule", help="explain a rule", allow_abbrev=False)
    rule.add_argument("code", metavar="CODE", help="a code such as PG201, or a rule's name")
    rules = commands.add_parser("rules", help="list all rules", allow_abbrev=False)
    for one in (rule, rules):
        one.add_argument("--output-format", choices=("text", "json"), default="text")
    return parser


def _add_check(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="*", default=["."], metavar="PATH", help="files, folders, or - for stdin")

    group = parser.add_argument_group("rules")
    add = group.add_argument
    add("--select", type=_codes, action="extend", metavar="CODES", help="only these: PG201,PG3,ALL")
    add("--ignore", type=_codes, action="extend", metavar="CODES", help="not these")
    add("--extend-select", type=_codes, action="extend", metavar="CODES", help="these too")
    add("--preview", action="store_true", default=None, help="uncertain and new rules too")
    add("--target", choices=TARGETS, help="only what this would suffer from")
    add("--target-torch", type=_version, metavar="X.Y", help="the torch the code has to run on")
    add(
        "--regions",
        choices=("forward", "compiled"),
        help="look at every module's forward (default), or only at what is provably compiled",
    )

    group = parser.add_argument_group("mending")
    add = group.add_argument
    add("--fix", action="store_true", help="mend what can safely be mended")
    add("--fix-only", action="store_true", help="mend, and do not report what is left")
    add("--unsafe-fixes", action="store_true", default=None, help="with --fix: unsafe fixes too")
    add("--diff", action="store_true", help="show what --fix would change; write nothing")
    add("--show-fixes", action="store_true", help="with --fix: list the fixes made")
    add("--fixable", type=_codes, action="extend", metavar="CODES", help="mend only these")
    add("--unfixable", type=_codes, action="extend", metavar="CODES", help="never mend these")

    group = parser.add_argument_group("findings that are known")
    add = group.add_argument
    add("--add-noqa", action="store_true", help="put a `# noqa` on every line with a finding")
    add("--baseline", metavar="FILE", help="leave out the findings this file holds")
    add("--write-baseline", metavar="FILE", help="write the findings to this file")

    group = parser.add_argument_group("files")
    add = group.add_argument
    add("--exclude", type=_globs, action="extend", metavar="GLOBS", help="instead of the default")
    add("--extend-exclude", type=_globs, action="extend", metavar="GLOBS", help="not these either")
    add("--force-exclude", action="store_true", default=None, help="exclude given files too")
    add("--no-respect-gitignore", action="store_false", default=None, dest="respect_gitignore")
    add("--stdin-filename", metavar="PATH", help="the name of what comes by stdin")
    add("--config", metavar="FILE", help="settings from this file, whatever lies nearer")

    group = parser.add_argument_group("output")
    add = group.add_argument
    add("--output-format", choices=FORMATS)
    add("--output-file", metavar="FILE", help="write the report here")
    add("--statistics", action="store_true", help="counts by rule instead of findings")
    add("-q", "--quiet", action="store_true", help="findings only, no summary")
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("--exit-non-zero-on-fix", action="store_true", help="exit with 1 if something was mended")

    group = parser.add_argument_group("running")
    add = group.add_argument
    add("--jobs", type=_jobs, metavar="N", help="processes to use (default: one a core)")
    add("--no-cache", action="store_true", help="neither read nor write the cache")
    add("--cache-dir", metavar="FOLDER", help="where the cache is")


def _globs(text: str) -> list[str]:
    return [glob.strip() for glob in text.split(",") if glob.strip()]


# Command-line options that are settings, by field name.
SETTINGS = (
    "select",
    "ignore",
    "extend_select",
    "fixable",
    "unfixable",
    "exclude",
    "extend_exclude",
    "force_exclude",
    "respect_gitignore",
    "target",
    "target_torch",
    "regions",
    "preview",
    "unsafe_fixes",
    "output_format",
    "baseline",
)


def overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives, by field name."""
    given = {}
    for name in SETTINGS:
        value = getattr(arguments, name)
        if value is not None:
            given[name] = tuple(value) if isinstance(value, list) else value
    return given
