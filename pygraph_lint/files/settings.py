"""Settings: what ``[tool.pygraph-lint]`` in pyproject.toml, ``pygraph-lint.toml`` and the command
line say.

The settings file in the nearest parent folder applies; files are not merged, but one may name
another with ``extend``. The command line wins over every file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pygraph_lint.errors import SettingsError
from pygraph_lint.files.paths import is_file
from pygraph_lint.files.suggest import nearest
from pygraph_lint.report import FORMATS
from pygraph_lint.rules.catalogue import TARGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN_FILE = "pygraph-lint.toml"
REGIONS = ("forward", "compiled", "all")
DEFAULT_EXCLUDE = (
    *(".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache"),
    *(".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__"),
    *("__pypackages__", "build", "dist", "node_modules", "site-packages", "venv"),
)


# --- what can be set ------------------------------------------------------------------------------


Reader = Callable[[object], Any]


def _reader(
    fits: Callable[[Any], bool], what: str, made: Callable[[Any], Any] = lambda value: value
) -> Reader:
    """A function that reads a value that fits, and for others raises ValueError with ``what``."""

    def read(value: object) -> Any:
        if not fits(value):
            raise ValueError(what)
        return made(value)

    return read


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _one_of(*allowed: str) -> Reader:
    return _reader(lambda value: value in allowed, "one of " + ", ".join(allowed))


_strings = _reader(_are_strings, "a list of strings", tuple)
_codes_by_glob = _reader(
    lambda value: isinstance(value, dict) and all(map(_are_strings, value.values())),
    'a table of globs and lists of codes, like {"tests/*" = ["PG2"]}',
    lambda value: {glob: tuple(codes) for glob, codes in value.items()},
)
_boolean = _reader(lambda value: isinstance(value, bool), "true or false")
_text = _reader(lambda value: isinstance(value, str), "a string")
_size = _reader(lambda value: type(value) is int and value > 0, "a positive number of bytes")
_FIRST_TORCH = (2, 11)  # what rules say of earlier versions was never looked at


def _is_known_torch(value: object) -> bool:
    numbers = re.fullmatch(r"(\d+)\.(\d+)", value) if isinstance(value, str) else None
    return numbers is not None and tuple(map(int, numbers.groups())) >= _FIRST_TORCH


torch_version = _reader(_is_known_torch, 'a torch version, 2.11 or later, such as "2.13"')


def _setting(default: Any, read: Reader, meaning: str) -> Any:
    """One setting: its default, the function that checks a value, and its line in the reference."""
    about = {"read": read, "meaning": meaning}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. ``folder`` is where the file lies that globs are relative to.

    The meanings are those of the reference in ``docs/reference/settings.md``, which is written from
    them.
    """

    folder: Path
    select: tuple[str, ...] = _setting(
        ("ALL",),
        _strings,
        "rules that are on: `ALL`, a prefix (`PG2`), a code (`PG201`) or a name (`item`)",
    )
    ignore: tuple[str, ...] = _setting(
        (),
        _strings,
        "rules that are off; the more exact of `select` and `ignore` wins, `ignore` in a tie",
    )
    extend_select: tuple[str, ...] = _setting((), _strings, "added to `select`")
    fixable: tuple[str, ...] = _setting(("ALL",), _strings, "rules that `--fix` may fix")
    unfixable: tuple[str, ...] = _setting((), _strings, "rules that `--fix` never fixes")
    extend_safe_fixes: tuple[str, ...] = _setting(
        (), _strings, "rules whose unsafe fixes `--fix` makes as it makes safe ones"
    )
    per_file_ignores: Mapping[str, tuple[str, ...]] = _setting(
        {}, _codes_by_glob, "rules that are off in some files, by glob"
    )
    ignore_noqa: bool = _setting(
        False, _boolean, "also report what a comment such as `# noqa` silences"
    )
    exclude: tuple[str, ...] = _setting(
        DEFAULT_EXCLUDE, _strings, "files and folders that are not looked into, by glob"
    )
    extend_exclude: tuple[str, ...] = _setting((), _strings, "added to `exclude`")
    force_exclude: bool = _setting(
        False, _boolean, "exclusions also apply to files named on the command line"
    )
    respect_gitignore: bool = _setting(True, _boolean, "leave out what git ignores")
    target: str | None = _setting(
        None,
        _one_of(*TARGETS),
        "report only what matters for `compile` (graph breaks), `fullgraph` (errors) or "
        "`cudagraph` (breaks, waits, not capturable)",
    )
    target_torch: str | None = _setting(
        None,
        torch_version,
        'the torch version the code has to run on, 2.11 or later, such as `"2.13"`',
    )
    regions: str = _setting(
        "forward",
        _one_of(*REGIONS),
        "`forward`: the forward of every module counts as compiled; `compiled`: only what provably "
        "is compiled or captured; `all`: also every function that gets tensors, which users of "
        "a library may compile",
    )
    entry_points: tuple[str, ...] = _setting(
        (),
        _strings,
        "functions and classes that are compiled somewhere else, by qualified name or glob: "
        '`"pkg.solvers.integrate"`, `"pkg.losses.*"`',
    )
    preview: bool = _setting(
        False, _boolean, "also report rules and findings that are not certain enough by default"
    )
    unsafe_fixes: bool = _setting(
        False, _boolean, "`--fix` also makes changes that can alter what the code does"
    )
    assume_closed: bool = _setting(
        False,
        _boolean,
        "nothing outside the checked files subclasses, patches, replaces, inspects, scripts or "
        "exports what is in them: PG306 gets safe fixes then",
    )
    output_format: str = _setting(
        "concise",
        _one_of(*FORMATS),
        "one of " + ", ".join(f"`{name}`" for name in FORMATS) + "; taken from the settings of "
        "the current folder",
    )
    rules: tuple[str, ...] = _setting(
        (),
        _strings,
        "folders with rule pages of your own, relative to the settings file; taken from the "
        "settings of the current folder",
    )
    baseline: str | None = _setting(
        None, _text, "a file of known findings, relative to the settings file"
    )
    max_file_size: int = _setting(
        4_000_000, _size, "larger files are reported and not checked (bytes)"
    )


DECLARED = {f.name.replace("_", "-"): f for f in fields(Settings) if f.metadata}
EXTEND = "extend"


def default_of(key: str) -> str:
    """A setting's default, as the reference shows it."""
    if key == "exclude":
        return "version control, caches, build folders"
    default = DECLARED[key].default
    return "none" if default is None else f"`{in_toml({} if default is MISSING else default)}`"


def in_toml(value: object) -> str:
    """A setting's value as it can be written in a settings file."""
    if isinstance(value, Mapping):
        pairs = (f"{in_toml(key)} = {in_toml(inner)}" for key, inner in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(in_toml, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value)


# --- reading --------------------------------------------------------------------------------------


def read_values(table: Mapping[str, object], path: Path, text: str) -> dict[str, Any]:
    """The values in the table of the file at ``path``, by field name; of ``extend`` the ones that
    the table leaves open. Raises SettingsError naming line and key.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}:{_line_of(key, text)}"
        if key == EXTEND:
            continue
        declared = DECLARED.get(key)
        if declared is None:
            known = [*DECLARED, EXTEND]
            near = nearest(key, known)
            hint = f"did you mean `{near}`?" if near else f"known keys: {', '.join(known)}"
            raise SettingsError(f"{where}: unknown setting `{key}`; {hint}")
        try:
            values[declared.name] = declared.metadata["read"](value)
        except ValueError as error:
            raise SettingsError(f"{where}: `{key}` must be {error}, not {value!r}") from None
    return values


def _line_of(word: str, text: str) -> int:
    """The line that says ``word``, in our table if that has a heading; 1 if there is none."""
    heading = re.search(r"^\s*\[\s*tool\s*\.\s*.?pygraph-lint", text, re.MULTILINE)
    found = re.compile(re.escape(word)).search(text, heading.end() if heading else 0)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def read_file(path: Path) -> Settings | None:
    """The settings in ``path``; None for a pyproject.toml that has no table of ours.

    Raises SettingsError for a file that cannot be read or says something unknown.
    """
    values = _read_values(path, ())
    return None if values is None else Settings(folder=path.parent, **values)


def _read_values(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any] | None:
    """The values in ``path`` over those of the file that it extends."""
    text = _text_of(path)
    table = _table(path, text)
    if table is None:
        return None
    values = read_values(table, path, text)
    if EXTEND not in table:
        return values
    where = f"{path}:{_line_of(EXTEND, text)}"
    named = table[EXTEND]
    if not isinstance(named, str):
        raise SettingsError(f"{where}: `{EXTEND}` must be the path of a file, not {named!r}")
    base = (path.parent / Path(named).expanduser()).resolve()
    if base in (*extended_by, path.resolve()):
        raise SettingsError(f"{where}: `{EXTEND}` leads back to {base}")
    inherited = _read_values(base, (*extended_by, path.resolve()))
    if inherited is None:
        raise SettingsError(f"{where}: {base} has no [tool.pygraph-lint] table")
    return inherited | values


def _table(path: Path, text: str) -> dict[str, object] | None:
    """Our table of a settings file; None for a pyproject.toml that has none."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from None
    table: object = data
    if path.name == "pyproject.toml":
        tools = data.get("tool", {})
        table = tools.get("pygraph-lint") if isinstance(tools, dict) else None
        if table is None:
            if isinstance(tools, dict) and "pygraph_lint" in tools:
                raise SettingsError(f"{path}: [tool.pygraph_lint] must be [tool.pygraph-lint]")
            return None
    if not isinstance(table, dict):
        line = _line_of("pygraph-lint", text)
        raise SettingsError(f"{path}:{line}: [tool.pygraph-lint] must be a table")
    return table


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text (byte {error.start})") from None


class UnknownRule(SettingsError):
    """A selector that matches no rule."""

    def __init__(self, selector: str, hint: str) -> None:
        super().__init__(f"no rule matches `{selector}`; {hint}")
        self.selector = selector


class Resolver:
    """Finds the settings of a folder: the nearest configuration file above it, then the command
    line's.
    """

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        config: Path | None = None,
        check: Callable[[Settings], None] | None = None,
        isolated: bool = False,
    ) -> None:
        """``overrides`` are the command line's values by field name, ``config`` a file that stands
        for all; ``isolated`` means that no file is read.

        ``check`` is called once with each distinct settings and may raise SettingsError.
        """
        self._overrides = dict(overrides or {})
        self._check = check or (lambda settings: None)
        self._by_folder: dict[Path, Settings] = {}
        # What the command line says is looked at first, so that a later complaint is about a file.
        self._default = self._finish(Settings(folder=Path.cwd()))
        self._base: Settings | None = None
        if isolated:
            self._base = self._default
        elif config is not None:
            self._base = self._from(config) or self._default

    def of(self, folder: Path) -> Settings:
        """The settings that hold in ``folder`` (an absolute path)."""
        if self._base is not None:
            return self._base
        known = self._by_folder.get(folder)
        if known is not None:
            return known
        found = self._own(folder)
        if found is None:
            if folder.parent == folder:
                found = self._default
            else:
                found = self.of(folder.parent)
        self._by_folder[folder] = found
        return found

    def _own(self, folder: Path) -> Settings | None:
        for name in (OWN_FILE, "pyproject.toml"):
            path = folder / name
            if is_file(path):
                settings = self._from(path)
                if settings is not None:
                    return settings
        return None

    def _from(self, path: Path) -> Settings | None:
        settings = read_file(path)
        if settings is None:
            return None
        try:
            return self._finish(settings)
        except UnknownRule as error:
            line = _line_of(error.selector, _text_of(path))
            raise SettingsError(f"{path}:{line}: {error}") from None

    def _finish(self, settings: Settings) -> Settings:
        settings = replace(settings, **self._overrides)
        self._check(settings)
        return settings
