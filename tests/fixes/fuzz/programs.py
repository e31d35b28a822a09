"""Programs as they are put together: a model around one idiom, with code that its preconditions
ask about before and behind it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD = """import logging
import math
import random
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


"""
PARTS = {
    "Box": """class Box:
    def size(self, dim):
        return 2.5


""",
    "same": "def same(x):\n    return x\n\n\n",
    "warn_once": "def warn_once(text):\n    warnings.warn(str(text))\n\n\n",
    "doubled": "def doubled(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n\n",
}
#: What the programs' ``forward`` takes, with its annotation.
ARGUMENTS = {
    "x": "torch.Tensor",
    "y": "torch.Tensor",
    "mask": "torch.Tensor",
    "rows": "torch.Tensor",
    "k": "int",
    "p": "float",
}


@dataclass
class Program:
    """A program. ``kept`` are names of tensors that are returned, ``scripted`` says that nothing
    may be used that TorchScript does not know.
    """

    rng: random.Random
    scripted: bool
    annotated: bool
    lines: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    count: int = 0

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(self, *lines: str) -> None:
        self.lines += [part for line in lines for part in line.splitlines()]

    def keep(self, value: str) -> None:
        """Return an expression."""
        name = self.name()
        self.add(f"{name} = {value}")
        self.kept.append(name)


Idiom = Callable[[Program], None]
IDIOMS: dict[str, list[Idiom]] = {}


def idiom(*rewrites: str) -> Callable[[Idiom], Idiom]:
    """Register a function that writes what these rewrites look for."""

    def register(function: Idiom) -> Idiom:
        for each in rewrites:
            IDIOMS.setdefault(each, []).append(function)
        return function

    return register


@dataclass(frozen=True)
class Text:
    """A program's source. ``scripted``: it was written to be scripted."""

    source: str
    scripted: bool


def program(rewrite: str, seed: int) -> Text:
    """A module with a ``Model`` whose forward takes ARGUMENTS."""
    rng = random.Random(f"{rewrite} {seed}")
    scripted = rng.random() < 0.25
    made = Program(rng, scripted, scripted or rng.random() < 0.8)
    if made.chance(0.25):
        _noise(made)
    rng.choice(IDIOMS[rewrite])(made)
    if made.chance(0.25):
        _noise(made)
    if made.chance(0.1):
        rng.choice(IDIOMS[rewrite])(made)
    if made.chance(0.3):
        _around(made)
    return Text(_source(made), scripted)


def _around(made: Program) -> None:
    """What may stand around the lines, and look at them."""
    inner = [f"    {line}" for line in made.lines]
    plain = [["with torch.no_grad():", *inner], ["with torch.enable_grad():", *inner]]
    rich = [
        ["for _ in range(2):", *inner],
        ["with warnings.catch_warnings():", *inner],
        ["try:", *inner, "finally:", "    seen.append(k)"],
        ["names = len(locals())", *made.lines, "seen.append(len(locals()) - names)"],
        ["with torch.inference_mode():", *inner],
        [*made.lines, "seen.append([v for v in range(2) if (k := v) > 5])"],
    ]
    made.lines = made.rng.choice(plain if made.scripted else [*plain, *rich])


def _noise(made: Program) -> None:
    """What may change whether a fix is safe."""
    plain = ("x = x + 1", "x = x * y", "first = x", "x = doubled(x)", "x = x.clone()")
    rich = ("x = self.norm(x)", "x = same(x)", "seen.append(x)", "x.add_(1)", "first = x.view(-1)")
    made.add(made.pick(*plain, *(() if made.scripted else rich)))


def _source(made: Program) -> str:
    notes = {name: f"{name}: {kind}" for name, kind in ARGUMENTS.items()}
    unsaid = {name: name for name in ("x", "y", "mask", "rows")} if not made.annotated else {}
    body = [f"def forward(self, {', '.join((notes | unsaid).values())}):"]
    seen = [] if made.scripted else ["    seen = []"]
    body += [*seen, *(f"    {line}" for line in made.lines)]
    body.append(f"    return {', '.join(['x', *made.kept, *(['seen'] if seen else [])])},")
    init = [
        "def __init__(self, p: float = 0.0, limit=4.0):",
        "    super().__init__()",
        "    self.p = p",
        "    self.limit = limit",
        *(f"    {line}" for line in made.init),
    ]
    methods = [line for method in made.methods for line in ("", *method.splitlines())]
    lines = ["class Model(nn.Module):", *(f"    {line}" for line in [*init, *methods, "", *body])]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    if "self.norm" in text:
        norm = made.pick("nn.LayerNorm(3)", "nn.Identity()", "nn.LayerNorm(3)")
        text = text.replace("    self.p = p\n", f"    self.p = p\n        self.norm = {norm}\n")
    parts = "".join(part for name, part in PARTS.items() if f"{name}(" in text)
    head = HEAD
    if made.chance(0.05):
        head = head.replace("import torch\n", "import torch\nfrom math import *\n", 1)
    return head + parts + "".join(f"{part}\n\n\n" for part in made.above) + text
