"""The rewrites offered for findings: worked out once for a text and its findings, then kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pygraph_lint.analysis.syntax.nodes import deep_recursion
from pygraph_lint.files import parallel
from pygraph_lint.files.cache import Cache, digest
from pygraph_lint.findings import Finding, Fix

_ENTRY = "offers"
_KEY = digest(b"offers")
_CHUNK = 200_000
# Below this much source, in characters, starting processes costs more than it saves.
_WORTH_PROCESSES = 600_000

Fixes = tuple[Fix | None, ...]


class Offers:
    """Offers of one project. Each is a function of a file's text and findings alone."""

    def __init__(self, cache: Cache, jobs: int) -> None:
        self._cache = cache
        self._jobs = jobs
        self._known: dict[bytes, Fixes] | None = None

    def of(self, files: Mapping[str, tuple[str, Sequence[Finding]]]) -> dict[str, Fixes]:
        """For each file, given as text and findings, the offers for its findings in their order."""
        if self._known is None:
            self._known = self._cache.load(_ENTRY, _KEY) or {}
        keys = {name: _key(text, findings) for name, (text, findings) in files.items()}
        missing = [
            (keys[name], text, tuple(findings))
            for name, (text, findings) in files.items()
            if keys[name] not in self._known
        ]
        total = sum(len(text) for _, text, _ in missing)
        parts = parallel.chunks(missing, lambda one: len(one[1]), _CHUNK)
        jobs = self._jobs if total > _WORTH_PROCESSES else 1
        for part in parallel.spread(_offer_part, parts, jobs, _nothing):
            self._known.update(part)
        return {name: self._known[key] for name, key in keys.items()}

    def remember(self, keys_of: Mapping[str, tuple[str, Sequence[Finding]]]) -> None:
        """Keep the offers of these files, and no others, for later runs."""
        if self._known:
            keys = [_key(text, findings) for text, findings in keys_of.values()]
            self._cache.store(_ENTRY, _KEY, {key: self._known[key] for key in keys})


def _key(text: str, findings: Sequence[Finding]) -> bytes:
    about = [
        (one.code, one.location, one.end_location, one.event, one.consequences.get("compile"))
        for one in findings
    ]
    view = findings[0].view.key if findings else ""
    return digest(text.encode(errors="surrogatepass"), repr((about, view)).encode(errors="replace"))


def _nothing() -> None:
    """A worker needs no preparation."""


def _offer_part(part: Sequence[tuple[bytes, str, tuple[Finding, ...]]]) -> dict[bytes, Fixes]:
    from pygraph_lint.fixes.engine.file_fixes import fix_text

    with parallel.without_collecting(), deep_recursion():
        return {key: fix_text(text, findings) for key, text, findings in part}
