"""Fix programs, and compare each with its original: eagerly, on another device, under Dynamo,
scripted.
"""

from __future__ import annotations

import contextlib
import io
import logging
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pygraph_lint.files.sources import decode
from pygraph_lint.fixes import loop
from pygraph_lint.rules.catalogue import load
from pygraph_lint.runner import Runner
from tests.fixes.equivalence import assert_same, compiled, module_of, run
from tests.fixes.fuzz.grammar import program

# One program in so many is also compiled and scripted, which takes longer than all the rest.
RARELY = 5


@dataclass
class Log:
    """What a run of the fuzzer saw. ``reached`` counts programs by rewrite and safety."""

    programs: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)

    def join(self, other: Log) -> None:
        self.programs += other.programs
        self.changed += other.changed
        self.reached += other.reached
        self.compared += other.compared
        self.differences += other.differences

    def asdict(self) -> dict[str, Any]:
        return {
            "programs": self.programs,
            "changed": dict(self.changed),
            "reached": dict(sorted(self.reached.items())),
            "compared": dict(self.compared),
            "differences": self.differences,
        }


def fuzz(seeds: Sequence[int]) -> Log:
    """Fix and compare the programs of these seeds."""
    log = Log(programs=len(seeds))
    texts = {seed: program(seed) for seed in seeds}
    for unsafe in (False, True):
        kind = "unsafe" if unsafe else "safe"
        for seed, fixed, names in _fixed(texts, unsafe):
            log.changed[kind] += 1
            log.reached.update(f"{name} {safety}" for name, safety in set(names))
            if unsafe and all(safety == "safe" for _, safety in names):
                continue
            for how, problem in _differences(seed, texts[seed], fixed, unsafe, log):
                log.differences.append(
                    {
                        "seed": seed,
                        "fixes": kind,
                        "how": how,
                        "problem": problem[:300],
                        "rewrites": sorted({name for name, _ in names}),
                    }
                )
    return log


def _fixed(texts: dict[int, str], unsafe: bool) -> Iterator[tuple[int, str, list[tuple[str, str]]]]:
    """The programs that a fix changes: seed, new text, rewrites with their safety."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {Path(folder) / f"program_{seed}.py": seed for seed in texts}
        for path, seed in paths.items():
            path.write_text(texts[seed])
        runner = Runner(rules=load(), overrides={}, config=_no_settings(folder))
        files = runner.collect([folder])
        fixed = loop.mend(runner, files, unsafe)
        names: dict[Path, list[tuple[str, str]]] = {}
        for finding, fix in fixed.applied:
            names.setdefault(Path(finding.filename), []).append((fix.rewrite, fix.applicability))
        for path, data in fixed.after.items():
            yield paths[path], decode(data).text, names[path]


def _no_settings(folder: str) -> Path:
    path = Path(folder) / "settings.toml"
    path.write_text("")
    return path


def _differences(
    seed: int, before: str, after: str, unsafe: bool, log: Log
) -> Iterable[tuple[str, str]]:
    """How a fixed program differs from its original."""
    ways = [("eager", _eager), ("other device", _elsewhere)]
    if seed % RARELY == 0 and not unsafe:
        ways += [("dynamo", _dynamo)]
    for how, compare in ways:
        torch.manual_seed(seed)
        try:
            with _quiet():
                count = compare(seed, before, after, unsafe)
            log.compared[f"{'unsafe' if unsafe else 'safe'} {how}"] += count
        except AssertionError as problem:
            yield how, str(problem) or "outputs differ"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def inputs(seed: int, device: str = "cpu") -> Iterator[tuple[Any, ...]]:
    """Arguments of ``forward``: x, y, mask, k, p; without the box, which is made by the module."""
    rng = random.Random(seed)
    for _ in range(4):
        dtype = rng.choice((torch.float32, torch.float32, torch.float16, torch.int64))
        shape = rng.choice(((2, 3), (3, 3), (1, 3)))
        values = rng.choice((1.0, -2.0, 3.0))
        x = torch.full(shape, values).add(torch.arange(3)).to(dtype)
        if dtype.is_floating_point and rng.random() < 0.4:
            x[0, 0] = rng.choice((float("inf"), float("nan"), -float("inf")))
        y = torch.tensor(rng.choice((0.5, -1.0, 2.0))).to(dtype)
        mask = torch.tensor([rng.random() < 0.7 for _ in range(3)])
        if dtype.is_floating_point and rng.random() < 0.5:
            x.requires_grad_()
        p = rng.choice((0.0, 0.5, 1.0))
        yield x.to(device) if device != "cpu" else x, y.to(device), mask.to(device), 2, p


def _call(text: str, arguments: tuple[Any, ...], through: Any = None) -> Any:
    module = module_of(text)
    torch.manual_seed(0)
    random.seed(0)
    model = module.Model()
    forward = through(model) if through is not None else model
    box = module.Box()

    def function(*given: Any) -> Any:
        result = forward(*given, box)
        return result, box.asked

    return run(function, arguments)


def _eager(seed: int, before: str, after: str, unsafe: bool) -> int:
    count = 0
    for arguments in inputs(seed):
        if unsafe and not arguments[0].is_floating_point():
            continue  # that x is floating is a reason that unsafe fixes give
        _compare(_call(before, arguments), _call(after, arguments), unsafe)
        count += 1
    return count


def _elsewhere(seed: int, before: str, after: str, unsafe: bool) -> int:
    """On the meta device, where a tensor of the host is refused as it is on a GPU."""
    arguments = next(iter(inputs(seed, "meta")))
    old, new = _call(before, arguments), _call(after, arguments)
    if old.error is None:  # what did not work there may work now
        _compare(old, new, unsafe)
    return 1


def _dynamo(seed: int, before: str, after: str, unsafe: bool) -> int:
    arguments = next(iter(inputs(seed)))
    # Dynamo gives some values of numpy another type than eager code: like is compared with like.
    old, new = _call(before, arguments, compiled), _call(after, arguments, compiled)
    old.random_state = new.random_state = torch.zeros(0)
    old.aliases = new.aliases = []
    if old.error is not None and new.error is not None:  # Dynamo wraps some
        return 1
    _compare(old, new, unsafe)
    return 1


def _compare(old: Any, new: Any, unsafe: bool) -> None:
    """Safe fixes change nothing; after unsafe ones nothing raises that did not."""
    if not unsafe:
        assert_same(old, new)
    elif old.error is None:
        assert new.error is None, f"raises {new.error}"
