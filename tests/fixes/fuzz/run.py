"""Fixes programs of one rewrite, and compares each with its original."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pygraph_lint.files.sources import decode
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.fuzz import (  # noqa: F401
    idioms_branches,
    idioms_effects,
    idioms_forms,
    idioms_layers,
    idioms_masks,
    idioms_placement,
    idioms_reads,
    idioms_wrappers,
)
from tests.fixes.fuzz.comparing import CLOSE, EAGER_IS_KEPT, Promise, compare
from tests.fixes.fuzz.on_gpu import Pair
from tests.fixes.fuzz.programs import Text, program

# One program in so many is also compiled, which takes longer than all the rest.
RARELY = 20
#: How fixes are asked for: safe ones, safe ones of a closed project, all.
MODES = ("safe", "closed", "unsafe")


@dataclass
class Log:
    """What a run saw. ``offered`` and ``accepted`` count programs by rewrite and safety: the fix
    was made; and every changed line ran. ``ways`` counts comparisons.
    """

    programs: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)

    def join(self, other: Log) -> None:
        self.programs += other.programs
        self.changed += other.changed
        self.offered += other.offered
        self.accepted += other.accepted
        self.ways += other.ways
        self.differences += other.differences

    def asdict(self) -> dict[str, Any]:
        return {
            "programs": self.programs,
            "changed": dict(self.changed),
            "offered": dict(sorted(self.offered.items())),
            "accepted": dict(sorted(self.accepted.items())),
            "ways": dict(self.ways),
            "differences": self.differences,
        }

    @staticmethod
    def of(data: dict[str, Any]) -> Log:
        """The log that ``asdict`` gave."""
        counts = (Counter(data[name]) for name in ("changed", "offered", "accepted", "ways"))
        return Log(data["programs"], *counts, data["differences"])


def fuzz(rewrite: str, seeds: Sequence[int], mode: str) -> Log:
    """Fix and compare the programs of these seeds."""
    log = Log(programs=len(seeds))
    texts = {seed: program(rewrite, seed) for seed in seeds}
    if mode == "unsafe":  # unsafe fixes say that names are added
        texts = {seed: text for seed, text in texts.items() if "locals()" not in text.source}
    for seed, after, made in _fixed(texts, mode):
        log.changed[mode] += 1
        names = {name for name, _ in made}
        safety = {f"{name} {'unsafe' if kind == 'unsafe' else mode}" for name, kind in made}
        unsafe = any(kind == "unsafe" for _, kind in made)
        if mode == "unsafe" and not unsafe:
            safety = {f"{name} safe" for name in names}
        log.offered.update(safety)
        text, rarely = texts[seed], seed % RARELY == 0
        found = compare(
            seed, text.source, after, text.scripted, _promise(mode, names, unsafe, after), rarely
        )
        log.ways.update(f"{'unsafe' if unsafe else 'safe'} {way}" for way in found.ways)
        if found.ran:
            log.accepted.update(safety)
        log.differences += [
            {
                "rewrite": rewrite,
                "seed": seed,
                "fixes": "unsafe" if unsafe else mode,
                "how": how,
                "problem": problem,
                "rewrites": sorted(names),
            }
            for how, problem in found.problems
        ]
    return log


def _promise(mode: str, names: set[str], unsafe: bool, after: str) -> Promise:
    if not unsafe:
        return Promise.CLOSED if mode == "closed" else Promise.SAFE
    if "_assert_async" not in after:
        names = names - {"tensor_raise"}
    if names <= EAGER_IS_KEPT:
        return Promise.EAGER
    return Promise.CLOSE if names <= CLOSE | EAGER_IS_KEPT else Promise.RUNS


def pairs(rewrite: str, count: int) -> Iterator[Pair]:
    """The first programs of a rewrite that each mode changes, for :mod:`on_gpu`."""
    for mode in MODES:
        texts = {seed: program(rewrite, seed) for seed in range(count)}
        for seed, after, made in _fixed(texts, mode):
            names = sorted({name for name, _ in made})
            unsafe = any(kind == "unsafe" for _, kind in made)
            promise = _promise(mode, set(names), unsafe, after)
            if rewrite in names and unsafe == (mode == "unsafe"):
                before = texts[seed].source
                yield Pair(rewrite, seed, mode, names, promise.name, before, after)


def fixed(rewrite: str, seed: int, mode: str) -> str:
    """The fixed text of one program, for looking at it."""
    found = {one: after for one, after, _ in _fixed({seed: program(rewrite, seed)}, mode)}
    return found.get(seed, "")


def _fixed(texts: dict[int, Text], mode: str) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
    """The programs that a fix changes: seed, new text, rewrites with their safety."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {Path(folder) / f"program_{seed}.py": seed for seed in texts}
        for path, seed in paths.items():
            path.write_text(texts[seed].source)
        settings = Path(folder) / "settings.toml"
        settings.write_text("assume-closed = true\n" if mode == "closed" else "")
        runner = Runner(rules=_rules(), overrides={}, config=settings)
        mended = loop.fix_files(runner, runner.collect([folder]), mode == "unsafe")
        names: dict[Path, list[tuple[str, str]]] = {}
        for finding, fix in mended.applied:
            names.setdefault(Path(finding.filename), []).append((fix.rewrite, fix.applicability))
        for path, data in mended.after.items():
            yield paths[path], decode(data).text, names[path]


@cache
def _rules() -> Any:
    return load()
