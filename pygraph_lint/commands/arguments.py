"""The command line: what may be given, read once into frozen objects."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pygraph_lint import __version__

COMMANDS = (
    *("check", "trace", "rule", "rules", "rule-test", "config", "clean", "server", "completion"),
)
# What other linters call them.
_OTHER_WORDS = {"explain": "rule", "lint": "check", "fix": "check --fix", "linter": "rules"}
COLORS = ("auto", "always", "never")
TRACE_FORMATS = ("text", "json", "sarif", "chrome", "html")
SHELLS = ("bash", "zsh", "tcsh", "fish", "powershell")


@dataclass(frozen=True, kw_only=True)
class Check:
    """``pygraph-lint check``, its options by their names. ``settings`` has what sets a setting, by
    field name. ``output_file`` None: stdout; ``jobs`` None: one process for each core.
    """

    paths: Sequence[str]
    settings: Mapping[str, Any]
    fix: bool
    fix_only: bool
    diff: bool
    unsafe_fixes: bool | None
    show_fixes: bool
    exit_non_zero_on_fix: bool
    add_noqa: bool
    write_baseline: Path | None
    stdin_filename: str | None
    config: Path | None
    isolated: bool
    show_files: bool
    show_settings: bool
    output_file: Path | None
    statistics: bool
    quiet: bool
    color: str
    exit_zero: bool
    watch: bool
    jobs: int | None
    no_cache: bool
    cache_dir: Path | None

    @property
    def fixes(self) -> bool:
        """Whether files are rewritten, in memory at least."""
        return self.fix or self.fix_only or self.diff


@dataclass(frozen=True, kw_only=True)
class Trace:
    """``pygraph-lint trace``, its options by their names: run ``program``, or read the files of
    ``join`` or ``compare``.
    """

    program: Sequence[str]
    module: bool
    python: str | None
    coverage: bool
    trace_file: Path
    join: Sequence[str] | None
    compare: Sequence[str] | None
    output_format: str
    output_file: Path | None
    report_misses: Path | None
    fix: bool
    unsafe_fixes: bool


Options = TypeVar("Options", Check, Trace)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """What the arguments ask for; without a command word they are those of ``check``.

    Exits with 2 on wrong usage.
    """
    first = argv[0] if argv else ""
    if first not in (*COMMANDS, "-h", "--help", "-V", "--version"):
        argv = ["check", *argv]
    built = parser()
    given = built.parse_args(argv)
    if given.command == "check":
        _refuse_typing_errors(built, given.paths)
        given.settings = _settings(given)
    return given


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    from pygraph_lint.files.settings import DECLARED

    chosen = {each.name: getattr(given, each.name, None) for each in DECLARED.values()}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in chosen.items()
        if value is not None
    }


def options(kind: type[Options], given: argparse.Namespace) -> Options:
    """The options of a command, as an object of its class."""
    return kind(**{each.name: getattr(given, each.name) for each in fields(kind)})


def _refuse_typing_errors(built: argparse.ArgumentParser, paths: Sequence[str]) -> None:
    """A first word that is no path, but nearly a command, is taken for a mistyped command."""
    if not paths or Path(paths[0]).exists() or not paths[0].isalpha():
        return
    from pygraph_lint.files.suggest import nearest

    near = _OTHER_WORDS.get(paths[0]) or nearest(paths[0], COMMANDS)
    if near is not None:
        built.error(f"there is no file or command {paths[0]!r}; did you mean `{near}`?")


# --- the form -------------------------------------------------------------------------------------


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _from_here(text: str) -> Path | None:
    return Path(text).absolute() if text else None


def _codes(text: str) -> list[str]:
    return [code for code in text.replace(",", " ").split() if code]


def _globs(text: str) -> list[str]:
    return [glob.strip() for glob in text.split(",") if glob.strip()]


def _codes_by_glob(text: str) -> dict[str, tuple[str, ...]]:
    """``tests/*:PG2,PG3``: each glob with its codes. A part without a glob is one more code."""
    found: dict[str, tuple[str, ...]] = {}
    glob = ""
    for part in _globs(text):
        before, colon, code = part.rpartition(":")
        glob = before if colon else glob
        if not glob:
            raise argparse.ArgumentTypeError(
                f"must be a glob and codes, as `tests/*:PG2`, not {part!r}"
            )
        found[glob] = (*found.get(glob, ()), code.strip())
    return found


def _version(text: str) -> str:
    from pygraph_lint.files.settings import torch_version

    try:
        return str(torch_version(text))
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


def parser() -> argparse.ArgumentParser:
    """The form of the command line."""
    made = _Parser(
        prog="pygraph-lint",
        description="Find and fix what breaks torch.compile graphs or CUDA graph capture.",
        epilog="Without a command word, `check` is meant: `pygraph-lint --fix src/`. "
        "`pygraph-lint check --help` shows its options.",
        allow_abbrev=False,
    )
    version = f"pygraph-lint {__version__}"
    made.add_argument("-V", "--version", action="version", version=version)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = _add(commands, "check", "check files and folders")
    for add in (_add_rules, _add_fixing, _add_known, _add_files, _add_output, _add_running):
        add(check)
    _add_trace(_add(commands, "trace", "run a program and say what broke its graphs"))
    _add_explaining(commands)
    clean = _add(commands, "clean", "remove the cache")
    clean.add_argument("--cache-dir", type=_path, metavar="FOLDER", help="where the cache is")
    served = _add(
        commands, "server", "serve an editor over stdin and stdout (Language Server Protocol)"
    )
    served.add_argument(
        "--stdio",
        action="store_true",
        help="for editors that give it; stdin and stdout are always used",
    )
    completion = _add(
        commands,
        "completion",
        "print a completion script for a shell",
        'For this session of bash: eval "$(pygraph-lint completion bash)". To keep it, write the '
        "script to the folder where the shell looks for completions.",
    )
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return made


def _add(commands: Any, name: str, about: str, text: str | None = None) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=text or f"{about[0].upper()}{about[1:]}.",
        allow_abbrev=False,
    )
    return made


def _add_explaining(commands: Any) -> None:
    rule = _add(commands, "rule", "explain a rule")
    rule.add_argument(
        "code",
        metavar="CODE",
        help="a code (PG201), the start of codes (PG2), a rule's name (item), or torch's number of "
        "a graph break (GB0170)",
    )
    for one in (rule, _add(commands, "rules", "list all rules")):
        one.add_argument("--output-format", choices=("text", "json"), default="text")
    tested = _add(commands, "rule-test", "check the examples of your own rules")
    tested.add_argument(
        "folders", nargs="*", metavar="FOLDER", help="rule pages (default: those of the settings)"
    )
    config = _add(commands, "config", "explain a setting")
    config.add_argument("key", nargs="?", metavar="KEY", help="default: list their names")


def _add_trace(trace: argparse.ArgumentParser) -> None:
    add = trace.add_argument_group("what to read").add_argument
    add("--join", nargs="+", metavar="TRACE", help="read these traces (one a rank); run nothing")
    add("--compare", nargs=2, metavar="TRACE", help="show what changed from one trace to another")
    add = trace.add_argument_group("what to run").add_argument
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("--python", metavar="PYTHON", help="the interpreter that has torch and pygraph_rt")
    add("--coverage", action="store_true", help="record which lines ran (slow before Python 3.12)")
    add(
        "--trace-file",
        type=Path,
        metavar="FILE",
        default="trace.json",
        help="the trace; default: trace.json",
    )
    add("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...", help="with its arguments")
    add = trace.add_argument_group("output").add_argument
    add("--output-format", choices=TRACE_FORMATS, default="text")
    _add_file(add, "--output-file", about="write the report here")
    _add_file(add, "--report-misses", about="write what the linter missed, without source code")
    add = trace.add_argument_group("fixing").add_argument
    add("--fix", action="store_true", help="make the safe fixes; first those of what happened")
    add("--unsafe-fixes", action="store_true", help="with --fix: unsafe fixes too")


def _add_switch(add: Callable[..., Any], name: str, about: str) -> None:
    """An option that sets what a setting switches on or off; not given, the setting counts."""
    add(name, action=argparse.BooleanOptionalAction, help=about)


def _add_codes(add: Callable[..., Any], name: str, about: str) -> None:
    """An option that lists rules, and may be given several times."""
    add(name, type=_codes, action="extend", metavar="CODES", help=about)


def _add_globs(add: Callable[..., Any], name: str, about: str) -> None:
    """An option that lists globs, and may be given several times."""
    add(name, type=_globs, action="extend", metavar="GLOBS", help=about)


def _add_file(add: Callable[..., Any], *names: str, about: str) -> None:
    """An option that names a file to write."""
    add(*names, type=_path, metavar="FILE", help=about)


def _add_rules(check: argparse.ArgumentParser) -> None:
    from pygraph_lint.rules.catalogue import TARGETS

    check.add_argument(
        "paths", nargs="*", default=["."], metavar="PATH", help="files, folders, or - for stdin"
    )
    add = check.add_argument_group("rules").add_argument
    _add_codes(add, "--select", "turn on only these rules: PG201,PG3,ALL")
    _add_codes(add, "--ignore", "turn these rules off")
    _add_codes(add, "--extend-select", "turn these rules on, too")
    _add_switch(add, "--preview", "also use rules that are new or uncertain")
    add("--target", choices=TARGETS, help="only rules that matter for this target")
    add("--target-torch", type=_version, metavar="X.Y", help="the torch the code has to run on")
    add(
        "--regions",
        choices=("forward", "compiled", "all"),
        help="look at every module's forward (default), only at what is provably compiled, or at "
        "every function that gets tensors",
    )


def _add_fixing(check: argparse.ArgumentParser) -> None:
    add = check.add_argument_group("fixing").add_argument
    add("--fix", action="store_true", help="make the safe fixes")
    add("--fix-only", action="store_true", help="fix, and do not report what is left")
    _add_switch(add, "--unsafe-fixes", "with --fix: unsafe fixes too")
    add("--diff", action="store_true", help="show what --fix would change; write nothing")
    add("--show-fixes", action="store_true", help="list the fixes made, with reasons if unsafe")
    _add_codes(add, "--fixable", "fix only these")
    _add_codes(add, "--unfixable", "never fix these")


def _add_known(check: argparse.ArgumentParser) -> None:
    add = check.add_argument_group("known findings").add_argument
    add(
        "--per-file-ignores",
        type=_codes_by_glob,
        metavar="GLOB:CODES",
        help="turn rules off in some files: tests/*:PG2,PG3; replaces the setting",
    )
    _add_switch(add, "--ignore-noqa", "also report what a comment silences")
    add("--add-noqa", action="store_true", help="put a `# noqa` on every line with a finding")
    add("--baseline", metavar="FILE", help="neither report nor fix the findings in this file")
    add(
        "--no-baseline",
        dest="baseline",
        action="store_const",
        const="",
        help="also report what the settings' baseline holds",
    )
    _add_file(add, "--write-baseline", about="write all findings to this file")


def _add_files(check: argparse.ArgumentParser) -> None:
    add = check.add_argument_group("files").add_argument
    _add_globs(add, "--exclude", "leave these out instead of the default list")
    _add_globs(add, "--extend-exclude", "leave these out, too")
    _add_switch(add, "--force-exclude", "exclusions also apply to files named here")
    _add_switch(add, "--respect-gitignore", "leave out what git ignores (default)")
    add("--stdin-filename", metavar="PATH", help="the name of what comes by stdin")
    add("--config", type=_from_here, metavar="FILE", help="take settings from this file only")
    add("--isolated", action="store_true", help="read no settings file")
    add("--show-files", action="store_true", help="list the files that would be checked, and stop")
    add("--show-settings", action="store_true", help="print the settings in force, and stop")


def _add_output(check: argparse.ArgumentParser) -> None:
    from pygraph_lint.report import FORMATS

    add = check.add_argument_group("output").add_argument
    add("--output-format", choices=FORMATS)
    _add_file(add, "-o", "--output-file", about="write the report here")
    add("--statistics", action="store_true", help="counts by rule instead of findings")
    add("-q", "--quiet", action="store_true", help="findings only, no summary")
    add("--color", choices=COLORS, default="auto", help="auto: colors on a terminal")
    add("-e", "--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("--exit-non-zero-on-fix", action="store_true", help="exit with 1 if something was fixed")


def _add_running(check: argparse.ArgumentParser) -> None:
    add = check.add_argument_group("running").add_argument
    add("-w", "--watch", action="store_true", help="check again whenever a file changes")
    add("--jobs", type=_jobs, metavar="N", help="processes to use (default: one a core)")
    add("-n", "--no-cache", action="store_true", help="neither read nor write the cache")
    add("--cache-dir", type=_path, metavar="FOLDER", help="where the cache is")
