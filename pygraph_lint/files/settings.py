"""Settings: what ``[tool.pygraph-lint]`` in pyproject.toml, ``pygraph-lint.toml`` and the command
line say.

The nearest configuration file above a checked file wins whole; files are not merged. What the
command line says wins over any file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pygraph_lint.errors import SettingsError
from pygraph_lint.files.paths import is_file
from pygraph_lint.files.suggest import nearest
from pygraph_lint.rules.catalogue import TARGETS, Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN_FILE = "pygraph-lint.toml"
FORMATS = ("concise", "full", "json", "github", "sarif")
REGIONS = ("forward", "compiled")
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. ``folder`` is where the file lies that globs are relative to.

    ``max_file_size`` is in bytes.
    """

    folder: Path
    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    fixable: tuple[str, ...] = ("ALL",)
    unfixable: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    target: str | None = None
    target_torch: str | None = None
    regions: str = "forward"
    preview: bool = False
    unsafe_fixes: bool = False
    output_format: str = "concise"
    baseline: str | None = None
    max_file_size: int = 4_000_000


KEYS = {f.name.replace("_", "-"): f.name for f in fields(Settings) if f.name != "folder"}


# --- reading ------------------------------------------------------------------------------------


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of strings")
    return tuple(value)


def _codes_by_glob(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError('a table of globs and lists of codes, like {"tests/*" = ["PG2"]}')
    try:
        return {glob: _strings(codes) for glob, codes in value.items()}
    except ValueError:
        raise ValueError(
            'a table of globs and lists of codes, like {"tests/*" = ["PG2"]}'
        ) from None


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError("a positive number of bytes")
    return value


def torch_version(value: object) -> str:
    """``value`` if it looks like ``2.13``; raises ValueError otherwise."""
    if not isinstance(value, str) or not re.fullmatch(r"\d+\.\d+", value):
        raise ValueError('a torch version such as "2.13"')
    return value


def _one_of(*allowed: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in allowed:
            raise ValueError("one of " + ", ".join(allowed))
        return str(value)

    return read


_READERS: dict[str, Callable[[object], Any]] = {
    "select": _strings,
    "ignore": _strings,
    "extend_select": _strings,
    "fixable": _strings,
    "unfixable": _strings,
    "per_file_ignores": _codes_by_glob,
    "exclude": _strings,
    "extend_exclude": _strings,
    "force_exclude": _boolean,
    "respect_gitignore": _boolean,
    "target": _one_of(*TARGETS),
    "target_torch": torch_version,
    "regions": _one_of(*REGIONS),
    "preview": _boolean,
    "unsafe_fixes": _boolean,
    "output_format": _one_of(*FORMATS),
    "baseline": _text,
    "max_file_size": _size,
}


def read_table(table: Mapping[str, object], path: Path, text: str) -> Settings:
    """Settings from the table of the file at ``path``. Raises SettingsError naming line and key."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}:{_line_of(key, text)}"
        name = KEYS.get(key)
        if name is None:
            near = nearest(key, KEYS)
            hint = f"did you mean `{near}`?" if near else f"known keys: {', '.join(KEYS)}"
            raise SettingsError(f"{where}: unknown setting `{key}`; {hint}")
        try:
            values[name] = _READERS[name](value)
        except ValueError as error:
            raise SettingsError(f"{where}: `{key}` must be {error}, not {value!r}") from None
    return Settings(folder=path.parent, **values)


def _line_of(word: str, text: str) -> int:
    """The line that says ``word``, in our table if that has a heading; 1 if there is none."""
    heading = re.search(r"^\s*\[\s*tool\s*\.\s*.?pygraph-lint", text, re.MULTILINE)
    found = re.compile(re.escape(word)).search(text, heading.end() if heading else 0)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def read_file(path: Path) -> Settings | None:
    """The settings in ``path``; None for a pyproject.toml that has no table of ours.

    Raises SettingsError for a file that cannot be read or says something unknown.
    """
    text = _text_of(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: is not valid TOML: {error}") from None
    table: object = data
    if path.name == "pyproject.toml":
        tools = data.get("tool", {})
        table = tools.get("pygraph-lint") if isinstance(tools, dict) else None
        if table is None:
            return None
    if not isinstance(table, dict):
        line = _line_of("pygraph-lint", text)
        raise SettingsError(f"{path}:{line}: [tool.pygraph-lint] must be a table")
    return read_table(table, path, text)


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text (byte {error.start})") from None


class Resolver:
    """Finds the settings of a folder: the nearest configuration file above it, then the command
    line's.
    """

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        config: Path | None = None,
        check: Callable[[Settings], None] | None = None,
    ) -> None:
        """``overrides`` are the command line's values by field name, ``config`` a file that stands
        for all.

        ``check`` is called once with each distinct settings and may raise SettingsError.
        """
        self._overrides = dict(overrides or {})
        self._check = check or (lambda settings: None)
        self._by_folder: dict[Path, Settings] = {}
        # What the command line says is looked at first, so that a later complaint is about a file.
        self._default = self._finish(Settings(folder=Path.cwd()))
        self._base: Settings | None = None
        if config is not None:
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


# --- selectors ----------------------------------------------------------------------------------


class UnknownRule(SettingsError):
    """A selector that matches no rule."""

    def __init__(self, selector: str, hint: str) -> None:
        super().__init__(f"no rule matches `{selector}`; {hint}")
        self.selector = selector


class Selection:
    """Which rules are on, and which of those may be mended, under given settings."""

    def __init__(self, settings: Settings, rules: Mapping[str, Rule]) -> None:
        """Raises SettingsError for a selector that matches no rule."""
        self._rules = rules
        chosen = settings.select + settings.extend_select
        self._on = {
            code: self._wins(code, chosen, settings.ignore)
            and (rule.status == "default" or settings.preview or self._named(rule, chosen))
            for code, rule in rules.items()
        }
        self._named_codes = {code for code, rule in rules.items() if self._named(rule, chosen)}
        self._preview = settings.preview
        self._fixable = {
            code: self._wins(code, settings.fixable, settings.unfixable) for code in rules
        }
        self._ignored_by_glob: list[tuple[str, set[str]]] = [
            (glob, {code for code in rules if self._rank(code, codes) > 0})
            for glob, codes in settings.per_file_ignores.items()
        ]
        self._folder = settings.folder
        for selector in (*chosen, *settings.ignore, *settings.fixable, *settings.unfixable):
            self._known(selector)
        for codes in settings.per_file_ignores.values():
            for selector in codes:
                self._known(selector)

    def _known(self, selector: str) -> None:
        if not any(self._rank(code, (selector,)) for code in self._rules):
            names = [*self._rules, *(rule.name for rule in self._rules.values())]
            near = nearest(selector, names)
            hint = f"did you mean {near}?" if near else "`pygraph-lint rules` lists them"
            raise UnknownRule(selector, hint)

    def _named(self, rule: Rule, selectors: tuple[str, ...]) -> bool:
        return rule.code in selectors or rule.name in selectors

    def _rank(self, code: str, selectors: tuple[str, ...]) -> int:
        """How specifically the selectors name ``code``: 0 not at all, then ALL, a prefix, the whole
        code.
        """
        best = 0
        for selector in selectors:
            if selector == "ALL":
                best = max(best, 1)
            elif selector == self._rules[code].name:
                best = max(best, 1 + len(code))
            elif selector.startswith("PG") and code.startswith(selector):
                best = max(best, 1 + len(selector))
        return best

    def _wins(self, code: str, on: tuple[str, ...], off: tuple[str, ...]) -> bool:
        return self._rank(code, on) > self._rank(code, off)

    def enabled(self, code: str, preview: bool = False) -> bool:
        """Whether findings of ``code`` are reported; ``preview`` says that the finding itself is
        uncertain.
        """
        if not self._on.get(code, False):
            return False
        return not preview or self._preview or code in self._named_codes

    def fixable(self, code: str) -> bool:
        """Whether a fix of ``code`` may be applied."""
        return self._fixable.get(code, False)

    def ignored_in(self, path: Path) -> set[str]:
        """The codes that per-file-ignores turn off in the file at ``path`` (absolute)."""
        off: set[str] = set()
        for glob, codes in self._ignored_by_glob:
            if matches_glob(path, glob, self._folder):
                off |= codes
        return off


def matches_glob(path: Path, glob: str, folder: Path) -> bool:
    """Whether a glob of a settings file in ``folder`` means ``path``: by its name, its path, or a
    folder above it.
    """
    glob = glob.rstrip("/")
    if fnmatchcase(path.name, glob):
        return True
    try:
        relative = path.relative_to(folder).as_posix()
    except ValueError:
        relative = path.as_posix()
    if fnmatchcase(relative, glob) or fnmatchcase(path.as_posix(), glob):
        return True
    parts = relative.split("/")
    return any(fnmatchcase("/".join(parts[:count]), glob) for count in range(1, len(parts)))
