"""Offsets that only bound slices: kept Python numbers, run and compared."""

from __future__ import annotations

import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked, offer

PAIRS = {
    "zipped": (
        """
        ends = torch.tensor(sizes).cumsum(-1)
        starts = torch.tensor([0] + sizes[:-1]).cumsum(dim=0)
        for start, end in zip(starts, ends):
            x[«start»:end, start : end - 1] = 0
        return x
        """,
        """
        ends = list(itertools.accumulate(sizes))
        starts = list(itertools.accumulate([0] + sizes[:-1]))
        for start, end in zip(starts, ends):
            x[start:end, start : end - 1] = 0
        return x
        """,
    ),
    "shifted": (
        """
        offsets = torch.tensor([0, *sizes]).cumsum(0)
        parts = []
        for start, end in zip(offsets[:-1], offsets[1:]):
            parts.append(x[:, start:«end»].sum())
        return parts
        """,
        """
        offsets = list(itertools.accumulate([0, *sizes]))
        parts = []
        for start, end in zip(offsets[:-1], offsets[1:]):
            parts.append(x[:, start:end].sum())
        return parts
        """,
    ),
    "indexed": (
        """
        stops = torch.tensor(sizes)
        for i in range(len(sizes)):
            x[: «stops[i]»] += 1
        for stop in stops:
            for row in range(stop - 1):
                x[row] -= 1
        return x
        """,
        """
        stops = sizes
        for i in range(len(sizes)):
            x[: stops[i]] += 1
        for stop in stops:
            for row in range(stop - 1):
                x[row] -= 1
        return x
        """,
    ),
}


def _module(body: str, head: str = "import torch\n\n\n") -> str:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"{head}def forward(x, sizes):\n{text}\n"


def _pair(name: str) -> tuple[str, str]:
    before, after = PAIRS[name]
    head = ("import itertools\n\n" if "itertools" in after else "") + "import torch\n\n\n"
    return _module(before), _module(after, head)


@pytest.mark.parametrize("name", PAIRS)
def test_offsets_become_numbers(name: str) -> None:
    before, after = _pair(name)
    expect(before, after, "PG407", "safe")
    old, new = module_of(marked(before)[0]).forward, module_of(after).forward
    assert breaks(old, (torch.ones(4, 4), [1, 2])) > 0
    assert breaks(new, (torch.ones(4, 4), [1, 2])) == 0


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(sizes=st.lists(st.integers(0, 3), max_size=3), size=st.integers(0, 5))
def test_they_bound_the_same(name: str, sizes: list[int], size: int) -> None:
    before, after = _pair(name)
    old, new = module_of(marked(before)[0]).forward, module_of(after).forward
    x = torch.arange(float(size * size)).reshape(size, size)
    seen = run(old, (x, sizes))
    assert_same(seen, run(new, (x, sizes)))
    if seen.error is None:
        assert_same(seen, run(compiled(new), (x, sizes)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[:, start:«end»]", "x[:, start:«end»] * end"),
        ("return parts", "return parts, offsets"),
        ("return parts", "return parts, offsets.sum()"),
        ("return parts", "return parts, end"),
        ("parts = []", "parts = [offsets[0] * 2]"),
        ("parts = []", "offsets = offsets + 1"),
        ("cumsum(0)", "cumsum(1)"),
        ("cumsum(0)", "cumprod(0)"),
        ("cumsum(0)", "cumsum(0, dtype=torch.int8)"),
        ("*sizes])", "*sizes], device=x.device)"),
        ("torch.tensor", "torch.as_tensor"),
        ("zip(offsets[:-1], offsets[1:])", "enumerate(offsets)"),
        ("for start, end in zip", "for start, end in map"),
    ],
)
def test_other_offsets_stay(old: str, new: str) -> None:
    before, _ = _pair("shifted")
    assert old in before
    decline(before.replace(old, new, 1), "PG407", "")


MADE = """
    import torch


    def forward(x, sizes: list[int]):
        ends = torch.tensor(sizes)
        for end in ends:
            x[: «end»] += 1
        return x
    """


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("sizes[0] = 2", "[*sizes]"),
        ("sizes += [1]", "[*sizes]"),
        ("sizes.append(1)", "[*sizes]"),
        ("other = sizes", "[*sizes]"),
        ("x = x + len(sizes) + sum(sizes) + sizes[0]", "sizes"),
    ],
)
def test_a_list_that_may_change_is_copied(body: str, made: str) -> None:
    before = MADE.replace("        for", f"        {body}\n        for")
    after = marked(before)[0].replace("torch.tensor(sizes)", made)
    fix, changed = offer(before, "PG407")
    assert fix is not None and fix.edits
    assert changed == after
    old, new = module_of(marked(before)[0]).forward, module_of(changed).forward
    for sizes in ([1, 3], [2]):
        arguments = (torch.ones(4), sizes)
        assert_same(run(old, arguments), run(new, arguments))


@pytest.mark.parametrize(
    ("made", "applicability"),
    [
        ("torch.tensor([0, 2, len(x)])", "safe"),
        ("torch.tensor([0, *sizes, sizes[0]])", "unsafe"),
        ("torch.tensor([n + 1 for n in sizes])", "safe"),
        ("torch.tensor([row.shape[0] for row in x])", "safe"),
        ("torch.tensor(x.shape)", "safe"),
        ("torch.tensor(list(sizes))", "safe"),
        ("torch.tensor(x.ends)", "unsafe"),
        ("torch.tensor(x.tolist())", "unsafe"),
        ("torch.tensor([[1], [2]])", "declined"),
        ("torch.tensor([[n] for n in sizes])", "declined"),
        ("torch.tensor([1.0, 2.0])", "declined"),
        ("torch.tensor(torch.ones(2))", "declined"),
        ("torch.tensor(numpy.ones(2))", "declined"),
    ],
)
def test_what_is_not_proven_to_be_numbers_is_not_safe(made: str, applicability: str) -> None:
    fix, _ = offer(MADE.replace("torch.tensor(sizes)", made), "PG407")
    assert fix is not None
    assert fix.applicability == applicability, fix.reason


@pytest.mark.parametrize("hint", ["torch.Tensor", "np.ndarray", "list[list[int]]", "list[float]"])
def test_other_annotations_stay(hint: str) -> None:
    decline(MADE.replace("list[int]", hint), "PG407", "more than a list of numbers")


def test_a_list_of_lists_stays() -> None:
    before = MADE.replace("torch.tensor(sizes)", "torch.tensor(sizes).cumsum(0)")
    decline(before.replace("for end in", "for end, _ in"), "PG407", "more than the bounds")
    named = MADE.replace("ends = torch.tensor(sizes)", "sizes = [[0], [2]]\n        ends = {}")
    decline(
        named.replace("{}", "torch.tensor(sizes)").replace("x, sizes: list[int]", "x"),
        "PG407",
        "more than a list of numbers",
    )


@pytest.mark.parametrize("index", ["ends[0, 0]", "ends[[0]]", "ends[ends > 1]"])
def test_what_only_a_tensor_can_be_indexed_with_stays(index: str) -> None:
    before = MADE.replace("        return", f"        x[: {index}] += 1\n        return")
    fix, _ = offer(before, "PG407")
    assert fix is not None and fix.applicability != "safe"


@pytest.mark.parametrize("name", ["range", "list", "zip"])
def test_other_meanings_of_builtins_stay(name: str) -> None:
    before = MADE.replace("def forward", f"from os import path as {name}\n\n    def forward")
    decline(before, "PG407", "is another name here")


@pytest.mark.parametrize(
    ("added", "applicability"),
    [("made[-1] + row.shape[0]", "safe"), ("row.sum()", "unsafe"), ("[1]", "declined")],
)
def test_a_list_that_grows_holds_what_it_is_given(added: str, applicability: str) -> None:
    growing = f"made = [0]\n        for row in x:\n            made.append({added})\n        ends ="
    before = MADE.replace("ends =", growing, 1).replace("tensor(sizes)", "tensor(made)")
    fix, changed = offer(before, "PG407")
    assert fix is not None
    assert fix.applicability == applicability, fix.reason
    assert ("ends = [*made]" in changed) == (applicability != "declined")
