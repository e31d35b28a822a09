"""Properties that are computed once and kept, and what is left of their imports."""

from __future__ import annotations

import sys
import textwrap

import pytest
import torch
from torch._dynamo.utils import counters

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import decline, expect, marked, offer

MODEL = """
    import math
    from functools import cached_property

    import torch


    class Model(torch.nn.Conv1d):
        @cached_property
        def left(self):
            \"\"\"Columns in front.\"\"\"
            size = (self.kernel_size[0] - 1) * self.dilation[0] + 1
            return size - self.stride[0] if size > 1 else -0

        def forward(self, x):
            x = torch.nn.functional.pad(x, («self.left», 0))
            return super().forward(x)


    class Other:
        def __init__(self, model):
            self.left = model.left
    """

AFTER = (
    marked(MODEL)[0]
    .replace("from functools import cached_property\n", "")
    .replace("@cached_property", "@property")
)


def test_a_number_that_is_kept_is_computed() -> None:
    fix = expect(MODEL, AFTER, "PG513", "unsafe")
    assert "follows attributes" in fix.reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from functools import cached_property, partial", "from functools import partial"),
        ("from functools import partial, cached_property", "from functools import partial"),
        ("from functools import cached_property as kept", ""),
        ("import functools", "import functools"),
    ],
)
def test_an_import_that_nothing_uses_goes(before: str, after: str) -> None:
    used = {"as kept": "kept", "import functools": "functools.cached_property"}
    name = next((name for end, name in used.items() if before.endswith(end)), "cached_property")
    line = "from functools import cached_property\n"
    old = MODEL.replace(line, f"{before}\n").replace("@cached_property", f"@{name}")
    new = MODEL.replace(f"    {line}", f"    {after}\n" if after else "")
    new = new.replace("@cached_property", "@property").replace("«", "").replace("»", "")
    expect(old, new, "PG513", "unsafe")


def test_an_import_that_others_use_stays() -> None:
    right = "        @cached_property\n        def right(self):\n            return 1\n"
    other = MODEL.replace("class Other:\n", f"class Other:\n{right}\n")
    new = marked(other)[0].replace("@cached_property", "@property", 1)
    expect(other, new, "PG513", "unsafe")


def _seen(text: str) -> tuple[torch.nn.Module, int]:
    """The model of a text, and how often Dynamo leaves its graph."""
    torch.manual_seed(0)
    model = module_of(text).Model(2, 2, 3)
    torch._dynamo.reset()
    counters.clear()
    torch.compile(model, backend="eager")(torch.ones(1, 2, 5))
    left = sum(counters["graph_break"].values()) + sum(counters["unimplemented"].values())
    return model, left


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions of Python take no lock")
def test_there_was_a_break() -> None:
    assert _seen(marked(MODEL)[0])[1] > 0


def test_no_break_is_left_and_results_are_the_same() -> None:
    (old, _), (new, left) = _seen(marked(MODEL)[0]), _seen(AFTER)
    assert left == 0
    x = torch.randn(2, 2, 7, requires_grad=True)
    assert_same(run(old, (x,)), run(new, (x,)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.dilation[0]", "math.prod(self.dilation)"),
        ("return size", "for _ in range(2):\n                pass\n            return size"),
        ("    @cached_property", "    @cached_property\n        @staticmethod"),
        ("self.left = model.left", "model.left = self"),
        ("self.left = model.left", "del model.left"),
        ("from functools", "from mine"),
    ],
)
def test_other_properties_stay(old: str, new: str) -> None:
    assert old in MODEL
    decline(MODEL.replace(old, new, 1), "PG513", "")


OWN = frozenset({"Model"})
MADE = """
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.stride = (1,)

        def forward"""


def test_what_constructors_alone_set_does_not_change() -> None:
    fix, changed = offer(MODEL, "PG513", own=OWN)
    assert fix is not None
    assert (fix.applicability, changed) == ("safe", textwrap.dedent(AFTER).lstrip("\n"))
    made, _ = offer(MODEL.replace("\n        def forward", MADE), "PG513", own=OWN)
    assert made is not None
    assert made.applicability == "safe"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = torch", "self.stride = (2,)\n            x = torch"),
        ("self.left = model.left", "model.stride = (2,)"),
        ("self.left = model.left", "self.left = model.left\n\n    Model.dilation = (1,)"),
        ("if size > 1", "if LIMIT > 1"),
    ],
)
def test_what_may_change_is_unsafe_to_follow(old: str, new: str) -> None:
    text = MODEL.replace(old, new)
    assert text != MODEL
    fix, _ = offer(text, "PG513", own=OWN)
    assert fix is not None
    assert fix.applicability == "unsafe"


SIZED = """
    from functools import cached_property

    import torch


    class Model(torch.nn.Module):
        def __init__(self, size: int, parts: float | None = None):
            super().__init__()
            self.size, self.stride = size, 1
            self.parts: float = parts
            self.first = self.left

        @cached_property
        def left(self):
            return self.size - self.stride * self.parts

        def forward(self, x):
            return x * «self.left»
    """


def test_numbers_that_a_constructor_is_given_do_not_change() -> None:
    for text in (SIZED, SIZED.replace("super()", "super(Model, self)")):
        fix, _ = offer(text, "PG513", own=OWN)
        assert fix is not None and fix.applicability == "safe"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.first = self.left", "self.first = self.left\n            self.size = 5"),
        ("self.first = self.left", "self.size += 2"),
        ("self.parts: float", "other(self)\n            self.parts"),
        ("self.parts: float", "self.forward(1)\n            self.parts"),
        ("self.first = self.left", "for self.size in range(3): pass"),
        ("self.first = self.left", "while size: self.size = 3"),
        ("size: int", "size"),
        ("size: int", "size: list"),
        ("super().__init__()", "size = [size]"),
        ("size, 1", "[1], [2]"),
        ("size, 1", "size"),
        ("- self.stride", "- self.training"),
        ("- self.stride", "- self.cfg['n']"),
        ("- self.stride", "- self.cfg.n"),
        ("- self.stride", "- self.kernel_size"),
        ("- self.stride", "- self.twice"),
        ("return x", "setattr(self, 'size', 3)\n            return x"),
        ("return x", "self.__dict__['left'] = 3\n            return x"),
        ("return x", "'left' in vars(self)\n            return x"),
    ],
)
def test_what_may_be_something_else_later_is_unsafe_to_follow(old: str, new: str) -> None:
    assert old in SIZED
    fix, _ = offer(SIZED.replace(old, new, 1), "PG513", own=OWN)
    assert fix is not None and fix.applicability == "unsafe"


def test_the_constructor_of_a_base_may_read_before() -> None:
    body = "            super().__init__(3)\n            self.size = 5\n"
    more = f"\n\n    class More(Model):\n        def __init__(self):\n{body}    "
    fix, _ = offer(SIZED + more, "PG513", own=OWN)
    assert fix is not None and fix.applicability == "unsafe"


def test_other_files_may_set_what_a_class_of_theirs_reads() -> None:
    fix, _ = offer(MODEL, "PG513", own=frozenset({"Other"}))
    assert fix is not None
    assert fix.applicability == "unsafe"
