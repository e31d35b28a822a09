"""Numbers that go to a helper inside a tensor: passed as they are, run and compared."""

from __future__ import annotations

import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

ELEMENT = """
    import torch


    @torch.jit.script
    def product(one, other, count):
        both = one + other
        return torch.relu(both[:, :«count»]) + both[:, count:]


    class Model(torch.nn.Module):
        def __init__(self, size: int):
            super().__init__()
            self.size = size

        def forward(self, x, other):
            # how many columns
            size = torch.IntTensor([self.size])

            for _ in range(2):
                x = torch.cat([product(x, other, size[0])] * 2, 1)
            return x
    """

INSIDE = (
    ELEMENT.replace("        both =", "        size = count[0]\n        both =")
    .replace("«count»", "«size»")
    .replace("count:]", "size:]")
    .replace("size[0])]", "size)]")
)


def _after(text: str) -> str:
    plain = marked(text)[0].replace("count):", "count: int):").replace("= count[0]", "= count")
    made = "        # how many columns\n        size = torch.IntTensor([self.size])\n\n"
    assert made in plain
    plain = plain.replace(made, "")
    return plain.replace("other, size[0])", "other, self.size)").replace(
        "other, size)", "other, self.size)"
    )


def _plain(text: str) -> str:
    """The same with a helper that is not TorchScript."""
    return text.replace("@torch.jit.script\n", "").replace("count: int", "count")


PAIRS = {
    "element": (ELEMENT, _after(ELEMENT)),
    "inside": (INSIDE, _after(INSIDE)),
    "python": (_plain(ELEMENT.replace("    @torch", "@torch")), _plain(_after(ELEMENT))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_number_is_passed(name: str) -> None:
    before, after = PAIRS[name]
    fix = expect(before, after, "PG407", "unsafe")
    assert "not whole" in fix.reason


@pytest.mark.parametrize("name", PAIRS)
def test_no_break_is_left(name: str) -> None:
    before, after = (
        module_of(text).Model(2) for text in (marked(PAIRS[name][0])[0], PAIRS[name][1])
    )
    arguments = (torch.ones(2, 4), torch.ones(2, 4))
    assert breaks(before, arguments) > 0
    assert breaks(after, arguments) == 0


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(size=st.integers(0, 3), rows=st.integers(0, 2))
def test_they_compute_the_same(name: str, size: int, rows: int) -> None:
    before, after = (
        module_of(text).Model(size) for text in (marked(PAIRS[name][0])[0], PAIRS[name][1])
    )
    arguments = (torch.randn(rows, 2 * size, requires_grad=True), torch.randn(rows, 2 * size))
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


def test_a_tensor_that_is_used_for_more_stays() -> None:
    before = ELEMENT.replace("return x\n", "return x * size\n")
    after = marked(before)[0].replace("other, size[0])", "other, self.size)")
    expect(before, after.replace("count):", "count: int):"), "PG407", "unsafe")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.IntTensor([self.size])", "torch.IntTensor([self.size, 1])"),
        ("torch.IntTensor([self.size])", "torch.FloatTensor([self.size])"),
        ("torch.IntTensor([self.size])", "torch.tensor([self.size], device=x.device)"),
        ("torch.IntTensor([self.size])", "torch.IntTensor([next(self.sizes)])"),
        ("for _", "size = size + 1\n        for _"),
        ("for _", "self.size = 3\n        for _"),
        ("size[0])]", "size[1])]"),
        ("size[0])]", "size)]"),
        ("size[0])]", "count=size[0])]"),
        ("return x", "return x, product"),
        ("return x", "return product(x, x, x[0])"),
        ("both = one", "both = count * one"),
        ("both = one", "count = count + 1\n    both = one"),
    ],
)
def test_other_tensors_stay(old: str, new: str) -> None:
    assert old in ELEMENT
    decline(textwrap.dedent(ELEMENT).replace(old, new, 1), "PG407", "")
