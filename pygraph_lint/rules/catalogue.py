"""The catalogue: one page per rule in ``rules/``, data in front (TOML between ``+++`` lines),
prose behind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.errors import CatalogueError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN_CODE = re.compile(r"(?!PG)[A-Z]{2,}\d{3}")
_ADVICE = re.compile(r"^## How to fix it\n+(.+?)(?=\n\n|\n```|\n## |\Z)", re.MULTILINE | re.DOTALL)
_NEXT_SENTENCE = re.compile(r"(?<=[.!])\s+(?=[A-Z`])")
TARGETS = ("compile", "fullgraph", "cudagraph")
CONSEQUENCES: dict[str, tuple[str, ...]] = {
    "compile": ("break", "skipped", "ok"),
    "fullgraph": ("error", "ok"),
    "cudagraph": ("not capturable", "stale", "slow", "ok"),
    "sync": ("yes", "no"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule page.

    ``captured`` is the message where a graph is captured by hand and nothing is traced. ``events``
    are kinds of ``rules/events.toml``; ``calls`` and ``methods`` list qualified callables
    (``random.random``; a trailing ``.*`` takes a whole namespace) and tensor methods.
    ``consequences`` has the keys of ``CONSEQUENCES``: what happens under plain torch.compile,
    under ``fullgraph=True``, in a CUDA graph, and whether the host waits for the device.
    ``status`` is ``default`` or ``preview``. ``fix`` is ``none``, ``safe``, ``unsafe`` or
    ``sometimes`` (safe under conditions), ``fixer`` the rewrite that does it, by its file's name.
    ``advice`` says what to do by hand, in one sentence, for the subject of an event, a note of it,
    or its kind. ``covers`` names the rows of the pattern list the rule answers to, ``page`` is the
    address of a user's own page.
    """

    code: str
    name: str
    message: str
    captured: str
    events: tuple[str, ...]
    calls: tuple[str, ...]
    methods: tuple[str, ...]
    consequences: dict[str, str]
    torch: str
    status: str
    fix: str
    fixer: str
    covers: tuple[str, ...]
    prose: str
    page: str = ""
    advice: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the page can be read: a `file:` address."""
        return self.page or (rules_folder() / f"{self.code}.md").as_uri()

    @property
    def by_hand(self) -> str:
        """What to do where no rewrite helps: the first sentence of the page's advice."""
        match = _ADVICE.search(self.prose)
        if match is None:
            return ""
        sentence = _NEXT_SENTENCE.split(match[1].strip())[0]
        return " ".join(sentence.split()).rstrip(":.") + "."

    def advice_for(self, event: Event | None) -> str:
        """What to do by hand about an event: by its subject, its notes or its kind."""
        if event is None:
            return self.by_hand
        notes = (name for name, value in event.notes if value == "yes")
        facts = (event.subject, *notes, event.kind)
        return next((self.advice[fact] for fact in facts if fact in self.advice), self.by_hand)

    def follows(self, target: str) -> bool:
        """Whether the rule matters when the code has to survive ``target`` (one of ``TARGETS``)."""
        said = self.consequences
        if target == "compile":
            return said["compile"] != "ok"
        if target == "fullgraph":
            return said["fullgraph"] != "ok"
        return said["cudagraph"] != "ok" or said["sync"] == "yes" or said["compile"] != "ok"


def rules_folder() -> Path:
    """The folder of pages: inside an installed package, or at the top of a source tree."""
    installed = Path(__file__).parent  # a wheel has the pages beside this file
    if any(installed.glob("PG*.md")):
        return installed
    return installed.parents[1] / "rules"


@lru_cache(maxsize=1)
def load() -> dict[str, Rule]:
    """Every rule by code, in order of codes. Raises CatalogueError for a page that does not fit."""
    pages = sorted(rules_folder().glob("PG*.md"))
    if not pages:
        raise CatalogueError(f"no rule pages in {rules_folder()}; reinstall pygraph-lint")
    rules = [parse(page.read_text(encoding="utf-8"), str(page)) for page in pages]
    return {rule.code: rule for rule in rules}


def load_with(folders: Iterable[Path]) -> dict[str, Rule]:
    """Every rule by code, with those of the user's folders. Raises CatalogueError for a page that
    does not fit, and where two pages claim one code, name, call or method.
    """
    rules = dict(load())
    taken = {name: rule.code for rule in rules.values() for name in _claims(rule)}
    for folder in folders:
        if not folder.is_dir():
            raise CatalogueError(f"{folder}: there is no such folder")
        pages = sorted(folder.glob("*.md"))
        if not pages:
            raise CatalogueError(f"{folder}: there are no rule pages (CODE.md) in this folder")
        for page in pages:
            try:
                rule = parse(page.read_text(encoding="utf-8"), str(page))
            except (OSError, UnicodeDecodeError) as error:
                raise CatalogueError(f"{page}: cannot be read: {error}") from None
            _check_own(rule, page)
            for name in _claims(rule):
                if name in taken:
                    raise CatalogueError(
                        f"{page}: `{name}` already belongs to {taken[name]}; "
                        "two rules cannot share a name or a call"
                    )
                taken[name] = rule.code
            rules[rule.code] = replace(rule, page=page.absolute().as_uri())
    return rules


def own_rules(rules: Mapping[str, Rule]) -> list[Rule]:
    """The rules of a user's own pages."""
    return [rule for rule in rules.values() if rule.page]


def _claims(rule: Rule) -> tuple[str, ...]:
    """What only one rule may have."""
    return (rule.code, rule.name, *rule.calls, *(f".{method}()" for method in rule.methods))


def _check_own(rule: Rule, page: Path) -> None:
    if not OWN_CODE.fullmatch(rule.code):
        raise CatalogueError(
            f"{page}: the code of an own rule is two or more capital letters, other than PG, and "
            f"three digits, such as ACME001; not {rule.code!r}"
        )
    if rule.events:
        raise CatalogueError(f"{page}: own rules report `calls` and `methods`, not `events`")
    if not rule.calls and not rule.methods:
        raise CatalogueError(f"{page}: the page names no `calls` and no `methods`")


_PAGE = re.compile(r"\A\+\+\+\n(.*?)\n\+\+\+\n(.*)\Z", re.DOTALL)


def parse(text: str, where: str) -> Rule:
    """The rule in one page. ``where`` names the page in errors."""
    match = _PAGE.match(text)
    if match is None:
        raise CatalogueError(f"{where}: a page starts with data between two lines `+++`")
    try:
        data: dict[str, Any] = tomllib.loads(match[1])
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{where}: {error}") from error
    try:
        rule = Rule(
            code=data["code"],
            name=data["name"],
            message=data["message"],
            captured=data.get("captured", data["message"]),
            events=tuple(data.get("events", ())),
            calls=tuple(data.get("calls", ())),
            methods=tuple(data.get("methods", ())),
            consequences={key: data["consequences"][key] for key in CONSEQUENCES},
            torch=data.get("torch", ">=2.11"),
            status=data["status"],
            fix=data.get("fix", "none"),
            fixer=data.get("fixer", ""),
            advice=data.get("advice", {}),
            covers=tuple(data.get("covers", ())),
            prose=match[2].strip(),
        )
    except KeyError as error:
        raise CatalogueError(
            f"{where}: `{error.args[0]}` is missing between the lines `+++`"
        ) from error
    _check(rule, where)
    return rule


def _check(rule: Rule, where: str) -> None:
    for key, allowed in CONSEQUENCES.items():
        if rule.consequences[key] not in allowed:
            raise CatalogueError(f"{where}: consequences.{key} must be one of {', '.join(allowed)}")
    if rule.status not in ("default", "preview"):
        raise CatalogueError(f"{where}: status must be default or preview")
    if rule.fix not in ("none", "safe", "unsafe", "sometimes"):
        raise CatalogueError(f"{where}: fix must be none, safe, unsafe or sometimes")
    if Path(where).name != f"{rule.code}.md":
        raise CatalogueError(f"{where}: the page of {rule.code} must be called {rule.code}.md")
