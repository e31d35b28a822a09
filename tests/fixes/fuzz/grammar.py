"""Programs made of the idioms that rewrites look for, and of what their preconditions ask about."""

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


class Box:
    def __init__(self):
        self.asked = 0

    def size(self, dim):
        return 2.5

    @property
    def p(self):
        self.asked += 1
        return 0.0


def same(x):
    return x


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


"""


@dataclass
class Program:
    """A program as it is put together. ``names`` hold tensors."""

    rng: random.Random
    annotated: bool
    lines: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    count: int = 0

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def add(self, *lines: str) -> None:
        self.lines += lines


def program(seed: int) -> str:
    """The source of a module with a ``Model`` whose forward takes x, y, mask, k, p and box."""
    rng = random.Random(seed)
    made = Program(rng, annotated=rng.random() < 0.7)
    if rng.random() < 0.3:
        made.add(made.pick("x = x + 1", "x = x * y", "kept = x", "x = self.norm(x)", "x = same(x)"))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(_IDIOMS)(made)
        if rng.random() < 0.2:
            made.add(made.pick("x.add_(1)", "first = x", "seen.append(x)", "x = doubled(x)"))
    note = ": torch.Tensor" if made.annotated else ""
    arguments = f"self, x{note}, y{note}, mask{note}, k: int, p, box"
    body = [f"def forward({arguments}):", "    seen = []", *(f"    {line}" for line in made.lines)]
    body.append(f"    return {', '.join(['x', 'mask', *made.kept])}, seen")
    init = [
        "def __init__(self, p: float = 0.0, limit=4.0):",
        "    super().__init__()",
        "    self.p = p",
        "    self.limit = limit",
        f"    self.norm = {made.pick('nn.LayerNorm(3)', 'nn.Identity()', 'nn.LayerNorm(3)')}",
        "    self.host = [torch.zeros(3)]",
    ]
    lines = ["class Model(nn.Module):", *(f"    {line}" for line in [*init, "", *body])]
    return HEAD + "\n".join(lines) + "\n"


Idiom = Callable[[Program], None]


def _count(made: Program) -> str:
    return made.pick("x.shape[0]", "x.size(0)", "len(x)", "k", "box.size(0)", "3", "x.shape[0] * 2")


def _placement(made: Program) -> None:
    n, name = _count(made), made.name()
    factory = made.pick(
        *(f"torch.zeros({n})", f"torch.ones({n}, 3)", f"torch.arange({n})", "torch.eye(3)"),
        *(f"torch.arange(0, {n}, 2)", f"torch.full(({n},), 3e9)", "torch.arange(0, 1, 0.1)"),
        *("torch.tensor([1.5, 2.5])", f"torch.rand({n})", f"torch.full(({n},), 300)"),
    )
    chain = made.pick(
        *("", "", ".unsqueeze(0)", ".float()", ".long()", "[None, :]", ".bool()", ".half()"),
        *(".flatten().int()", ".repeat(2)", ".expand(2, -1)", ".add(1)"),
    )
    plain = f"{factory}{chain}"
    whole = made.pick(plain, plain, plain, f"({factory} * 2){chain}", f"({factory} + k){chain}")
    to = made.pick("x.device", "y.device", "x.device, torch.int32", "x", "device=x.device")
    if made.rng.random() < 0.3:
        made.add(f"{name} = {whole}")
        if made.rng.random() < 0.3:
            made.add(made.pick("x = torch.zeros(3)", f"seen.append({name})", "k = k + 1"))
        made.add(f"{name} = {name}.to({to})")
    else:
        made.add(f"{name} = {whole}.to({to})")
    made.kept.append(name)


def _meeting(made: Program) -> None:
    name = made.name()
    made.add(f"{name} = torch.{made.pick('ones(3)', 'arange(3)', 'zeros(1)')}")
    made.add(
        made.pick(
            f"x = x * {name}", f"x = x + {name}", f"seen.append(x * {name})", f"x = {name} + x * 2"
        )
    )
    if made.rng.random() < 0.4:
        made.add(
            made.pick(
                f"seen.append(torch.zeros(3) + {name})",
                f"seen.append({name}.tolist())",
                f"seen.append(self.host[0] * {name})",
            )
        )


def _fill(made: Program) -> None:
    name = made.name()
    value = made.pick(
        *("0.0", "1.0", "-0.0", "0", "1", "True", "1e-8", "2**40", "9223372036854775808", "k"),
        *("float('inf')", "torch.finfo(x.dtype).min", "-1", "1e39", "self.limit", "300"),
    )
    dtype = made.pick("", "", ", dtype=torch.float16", ", dtype=torch.uint8", ", dtype=x.dtype")
    made.add(f"{name} = torch.tensor({value}{dtype}, device=x.device)")
    made.kept.append(name)


def _finite(made: Program) -> None:
    test = made.pick(
        *("torch.isinf(x).any()", "torch.isnan(x).any()", "not torch.isfinite(x).all()"),
        *("(torch.isinf(x).any() or torch.isnan(x).any())", "x.isnan().any().item()"),
    )
    static = made.pick(
        *("", "x.dtype == torch.float16 and ", "x.is_floating_point() and ", "k > 1 and "),
        "x.dtype in (torch.float16, torch.float32) and ",
    )
    made.add(f"if {static}{test}:")
    if made.rng.random() < 0.2:
        made.add(made.pick("    logger.warning('inf')", "    print('inf')", "    seen.append(1)"))
    limit = made.pick("4.0", "torch.finfo(x.dtype).max - 1000", "self.limit", "1e9")
    if made.rng.random() < 0.5:
        made.add(f"    limit = {limit}")
        limit = "limit"
    made.add(f"    x = {made.pick('torch.clamp(x, ', 'x.clamp(')}min=-{limit}, max={limit})")


def _condition(made: Program) -> str:
    return made.pick(
        *("x.sum() > 0", "y.abs().max() < 9", "mask.any()", "(x > 0).all()", "x.sum()", "y > 0"),
        *("x.sum() > 0 and y.sum() > 0", "not mask.all()", "x.shape[0] > 1 and mask.any()"),
    )


def _arm(made: Program) -> str:
    return made.pick(
        *("x * 2", "x + y", "x.relu()", "torch.abs(x)", "torch.cat([x, x])", "x.unsqueeze(0)"),
        *("x[mask]", "x.double()", "x[0]", "self.norm(x)", "torch.where(mask, x, 0 * x)", "-x"),
        "x.view(3, 2)",
    )


def _branch(made: Program) -> None:
    made.add(f"if {_condition(made)}:")
    form = made.rng.random()
    if form < 0.5:
        made.add(f"    x = {_arm(made)}")
        if made.rng.random() < 0.4:
            made.add("else:", f"    x = {_arm(made)}")
    elif form < 0.75:
        a, b = made.name(), made.name()
        made.add(f"    {a} = {_arm(made)}", f"    {b} = {_arm(made)}", "else:")
        made.add(f"    {a} = {_arm(made)}", f"    {b} = {_arm(made)}")
        made.kept += [a, b]
    else:
        made.add(f"    return {_arm(made)}", f"return {_arm(made)}")


def _drop(made: Program) -> None:
    probability = made.pick("self.p", "p", "box.p", "0.3")
    draw = made.pick("torch.rand([])", "torch.rand(1)", "random.uniform(0, 1)", "random.random()")
    made.add(f"draw = {draw}")
    if made.rng.random() < 0.2:
        made.add("seen.append(draw)")
    made.add(made.pick(f"if draw < {probability}:", f"if self.training and draw < {probability}:"))
    made.add("    x = x * 0")


def _check(made: Program) -> None:
    tested = made.pick("x.sum() > 1e6", "(x > 1e6).any()", "not (x < 1e6).all()", "k > 99")
    form = made.rng.random()
    if form < 0.5:
        text = made.pick('"large"', 'f"large {k}"', '"a" "b"')
        made.add(f"if {tested}:", f"    raise ValueError({text})")
    else:
        made.add(
            made.pick(
                "assert x.max().item() < 1e6 and y.min() > -1e6",
                "assert x.max().item() < 1e6 and k >= 0",
                "assert k < 9 and x.shape[0] > -1, 'k'",
                "assert (x < 1e6).all().item()",
            )
        )


def _say(made: Program) -> None:
    said = made.pick(
        *("print('seen', k)", "logger.warning('a %s', k)", "warnings.warn('old', stacklevel=2)"),
        *("logger.info(f'{k}')", "print(seen.append(k))"),
    )
    if made.rng.random() < 0.5:
        made.add(f"if {made.pick('k > 1', 'seen', 'k > 1 or k < 0', 'k in (1, 2)')}:")
        made.add(f"    {said}")
    else:
        made.add(said, said)


def _numbers(made: Program) -> None:
    name = made.name()
    made.add(
        f"{name} = "
        + made.pick(
            *("int(np.prod(x.shape))", "np.prod(x.shape[1:])", "np.sum([k, 2])", "np.max([k, 3])"),
            *("int(np.prod([k, 2 ** 62, 8]))", "np.ceil(np.log1p(k)).astype(int).item()"),
        )
    )
    made.add(made.pick(f"x = x * {name}", f"seen.append(int({name}))", f"seen.append({name} + 1)"))


def _item(made: Program) -> None:
    name = made.name()
    made.add(f"{name} = {made.pick('y.sum().item()', 'float(y.max())', 'float(k)')}")
    made.add(made.pick(f"x = x * {name}", f"x = x + {name} / 2", f"seen.append({name})"))


def _mask(made: Program) -> None:
    made.add(f"if {made.pick('mask.all()', 'k > 9 or torch.all(mask == 1)', 'not mask.any()')}:")
    made.add("    mask = None", "if mask is not None:", "    x = x.masked_fill(~mask, 0)")


_IDIOMS: tuple[Idiom, ...] = (
    *(_placement, _placement, _meeting, _fill, _finite, _finite, _branch, _branch, _drop, _check),
    *(_say, _numbers, _item, _mask),
)
