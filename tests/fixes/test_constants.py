"""Tensors written out in a module's method become buffers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, compiled, module_of, run
from tests.fixes.strategies import FEW, tensors
from tests.fixes.support import decline, expect, marked

BEFORE = """
    import torch
    from torch import nn


    class Model(nn.Module):
        def __init__(self, size=3):
            super().__init__()
            self.size = size

        def forward(self, x: torch.Tensor):
            weights = «torch.tensor(
                [0.299, -0.587, 0.114], device=x.device
            )»
            return (x * weights).sum(-1) + x.sum() * «torch.tensor([[1, 2]], dtype=torch.int64)»
    """
AFTER = """
    import torch
    from torch import nn


    class Model(nn.Module):
        def __init__(self, size=3):
            super().__init__()
            self.register_buffer("_weights", torch.tensor([0.299, -0.587, 0.114]), persistent=False)
            self.size = size

        def forward(self, x: torch.Tensor):
            weights = self._weights
            return (x * weights).sum(-1) + x.sum() * «torch.tensor([[1, 2]], dtype=torch.int64)»
    """


def _one(text: str, which: int) -> str:
    """The text with only one of its places marked."""
    first, _, rest = text.partition("«")
    inside, _, rest = rest.partition("»")
    if which == 0:
        return f"{first}«{inside}»" + rest.replace("«", "").replace("»", "")
    return first + inside + rest


def test_a_constant_becomes_a_buffer() -> None:
    after = AFTER.replace("«", "").replace("»", "")
    expect(_one(BEFORE, 0), after, "PG104", "unsafe")
    line = '            self.register_buffer("_w'
    constant = "torch.tensor([[1, 2]], dtype=torch.int64)"
    indent = " " * 12
    made = f'{indent}self.register_buffer(\n{indent}    "_constant", {constant}, persistent=False\n'
    made += f"{indent})\n"
    second = after.replace(f"x.sum() * {constant}", "x.sum() * self._constant")
    second = second.replace(line, made + line)
    expect(AFTER, second, "PG104", "unsafe")


def _models() -> tuple[Callable[..., object], Callable[..., object]]:
    texts = (marked(text)[0] for text in (BEFORE, AFTER))
    old, new = (module_of(text).Model() for text in texts)
    return old, new


@FEW
@given(data=st.data())
def test_it_gives_the_same(data: st.DataObject) -> None:
    x = data.draw(tensors([torch.float16, torch.float32, torch.float64]))
    old, new = _models()
    assert_same(run(old, (x,)), run(new, (x,)))
    assert_same(run(old, (x,)), run(new, (x,)))
    if run(old, (x,)).error is None:
        assert_same(run(old, (x,)), run(compiled(new), (x,)))


def test_the_saved_state_stays() -> None:
    old, new = _models()
    assert isinstance(old, torch.nn.Module)
    assert isinstance(new, torch.nn.Module)
    assert list(new.state_dict()) == list(old.state_dict()) == []
    assert [name for name, _ in new.named_buffers()] == ["_weights"]


ONE = _one(BEFORE, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-0.587", "self.size"),
        ("[0.299, -0.587, 0.114]", "[]"),
        ("device=x.device", "dtype=x.dtype"),
        ("device=x.device", "requires_grad=True"),
        ("(nn.Module)", "(Base)"),
        ("super().__init__()", "nn.Module.__init__(self)"),
        ("def __init__", "def start"),
        ("def forward(self, x", "@staticmethod\n        def forward(self, x"),
        ("return (x", "weights += 1\n            return (x"),
        ("return (x", "self.kept = weights\n            return (x"),
    ],
)
def test_what_is_no_constant_stays(old: str, new: str) -> None:
    assert old in ONE
    decline(ONE.replace(old, new, 1), "PG104", "")


def test_names_that_the_class_uses_are_left_alone() -> None:
    text = textwrap.dedent(ONE).replace("self.size = size", "self._weights = self._weights_2 = 1")
    fix = expect(
        text,
        textwrap.dedent(AFTER)
        .replace("«", "")
        .replace("»", "")
        .replace("_weights", "_weights_3")
        .replace("self.size = size", "self._weights = self._weights_2 = 1"),
        "PG104",
        "unsafe",
    )
    assert "device" in fix.reason
