"""What calls give, whatever form the callee has: generators, closures, tables, stars, backends."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

HELPERS = """
    import torch
    def each(x):
        for i in range(3):
            yield x * i
    def numbered(x):
        yield from enumerate(each(x))
    def scaled(factor):
        def inner(x):
            return x * factor
        return inner
    def total(*parts):
        return sum(parts)
    def by_name(**given):
        return given["x"] + given.get("shift", 0)
    def reduced(x, how="sum"):
        if isinstance(x, torch.Tensor):
            return x.sum()
        return x
    def by_mode(x, mode):
        if mode == "sum":
            return x.sum()
        if mode == "mean":
            return x.mean()
        if mode == "max":
            return x.max()
        if mode == "min":
            return x.min()
        if mode == "size":
            return 3
        return x
    def plain(x, dense=False, flat=False):
        if dense == "yes":
            return x + 1
        if flat:
            return x * 2
        return 0
    class Point:
        def __init__(self, x):
            self.x = x
        @classmethod
        def of(cls, x):
            return cls(x)
        def length(self):
            raise NotImplementedError
        def __call__(self, y):
            return self.length() + y
    class Plane(Point):
        def length(self):
            return self.x * 2
"""
MODEL = """
    import functools
    from collections import defaultdict, deque
    import torch
    from pkg import backend as bk
    import torch.nn.functional as F
    from pkg.helpers import *
    ACTIVATIONS = {"relu": F.relu, "sine": torch.sin}
    LAYERS = {"relu": torch.nn.ReLU, "gelu": torch.nn.GELU}
    class Model(torch.nn.Module):
        def __init__(self, size, xp, act="relu"):
            super().__init__()
            self.xp = xp
            self.scale = scaled(size)
            self.act = LAYERS[act]()
            for i in range(3):
                setattr(self, f"layer{i}", torch.nn.Linear(size, size))
        def forward(self, x: torch.Tensor, n: int = 3, mode="relu"):
            TEST
            return x
"""


def branches(test: str) -> int:
    """How often the model branches on a tensor."""
    model = MODEL.replace("TEST", "\n            ".join(test.splitlines()))
    linked, facts = project(pkg__helpers=HELPERS, pkg__backend="any = make()", pkg__model=model)
    events = confirmed(linked, facts["pkg.model"])
    return sum(event.kind.startswith("branch") for event in events)


@pytest.mark.parametrize(
    "test",
    [
        "for y in each(x):\n    if y > 0: x = -x",
        "for i, y in numbered(x):\n    if y > 0: x = -x",
        "if next(each(x)) > 0: x = -x",
        "if scaled(2)(x) > 0: x = -x",
        "f = scaled(2)\nif f(x) > 0: x = -x",
        "if self.scale(x) > 0: x = -x",
        "if total(x, x) > 0: x = -x",
        "if by_name(x=x) > 0: x = -x",
        "if reduced(x) > 0: x = -x",
        *(f"if by_mode(x, '{each}') > 0: x = -x" for each in ("sum", "mean", "max", "min")),
        "if plain(x, flat=True) > 0: x = -x",
        "y = plain(x, 'yes') if n else plain(x, flat=True)\nif y > 0: x = -x",
        "if ACTIVATIONS[mode](x) > 0: x = -x",
        "if self.act(x) > 0: x = -x",
        "if getattr(torch, mode)(x) > 0: x = -x",
        "if getattr(self, f'layer{n}')(x) > 0: x = -x",
        "if Point.of(x).x > 0: x = -x",
        "if Plane(x)(n) > 0: x = -x",
        "found = defaultdict(list)\nfound[n].append(x)\nif found[n][0] > 0: x = -x",
        "queue = deque()\nqueue.append(x)\nif queue.popleft() > 0: x = -x",
        "if functools.reduce(lambda a, b: a + b, [x, x]) > 0: x = -x",
        "if bk.any(x > 0): x = -x",
        "if self.xp.any(x > 0): x = -x",
    ],
)
def test_a_tensor_comes_back(test: str) -> None:
    assert branches(test) == 1


@pytest.mark.parametrize(
    "test",
    [
        "for y in each(3):\n    if y > 0: x = -x",
        "for i, y in numbered(x):\n    if i > 0: x = -x",
        "if scaled(2)(n) > 0: x = -x",
        "if total(x, 3) > 0: x = -x",  # which of them comes back is not known
        "if by_name(x=3, y=x) > 0: x = -x",
        "if reduced(3) > 0: x = -x",
        "if plain(x) > 0: x = -x",
        "if plain(x, 'no') > 0: x = -x",
        "if self.act: x = -x",
        "if LAYERS[mode](): x = -x",
        "if getattr(self, f'layer{n}'): x = -x",
        "if Plane(3)(n) > 0: x = -x",
        "found = defaultdict(list)\nfound[n].append(3)\nif found[n][0] > 0: x = -x",
        "sizes = functools.reduce(lambda a, b: a + b.numel(), [x, x], 0)\nif sizes > 0: x = -x",
        "if bk.any([n > 0]): x = -x",
        "if self.xp.any(n > 0): x = -x",
        "if 'scale' in x: x = -x",
    ],
)
def test_something_else_comes_back(test: str) -> None:
    assert branches(test) == 0


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("list[torch.Tensor]", 1),
        ("tuple[torch.Tensor, ...]", 1),
        ("tuple[int, int]", 0),
        ("dict[str, torch.Tensor]", 0),  # a batch, or a state
    ],
)
def test_a_function_of_a_library_that_gets_several_tensors(annotation: str, expected: int) -> None:
    source = f"""
        import torch
        def largest(xs: {annotation}):
            return xs[0].item()
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert len(confirmed(linked, facts["m"])) == expected


@pytest.mark.parametrize(("imported", "expected"), [("numpy as np, torch", 1), ("numpy as np", 0)])
def test_what_a_file_without_torch_gets_are_arrays(imported: str, expected: int) -> None:
    source = f"""
        import {imported}
        def largest(x):
            return float(x.max())
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert len(confirmed(linked, facts["m"])) == expected


def test_what_is_taken_from_keywords_may_be_tested() -> None:
    source = """
        import torch
        def given(**others):
            a = others["a"]
            if isinstance(a, torch.Tensor):
                return a.sum()
            return 0
        @torch.compile
        def step(x: torch.Tensor):
            if given(a=x) > 0:
                return x
            if given(a=2) > 0:
                return x
            return -x
    """
    linked, facts = project(m=source)
    assert [event.span.line for event in confirmed(linked, facts["m"])] == [10]
