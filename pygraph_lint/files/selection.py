"""Which rules are on, and where: selectors such as ``PG201``, ``PG2``, ``item`` and ``ALL``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pygraph_lint.files.settings import Settings, UnknownRule
from pygraph_lint.files.suggest import nearest
from pygraph_lint.rules.catalogue import Rule

_PREFIX = re.compile(r"[A-Z]{2,}\d*")


class Selection:
    """Which rules are on, and which of those may be fixed, under given settings."""

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
        self._trusted = settings.extend_safe_fixes
        given = (*chosen, *settings.ignore, *settings.fixable, *settings.unfixable, *self._trusted)
        for selector in given:
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
            elif _PREFIX.fullmatch(selector) and code.startswith(selector):
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

    def trusted(self, code: str) -> bool:
        """Whether unsafe fixes of ``code`` are made as safe ones are."""
        return self._rank(code, self._trusted) > 0

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
