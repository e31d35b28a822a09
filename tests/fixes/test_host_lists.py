"""Sizes that went through tensors: kept in Python, run and compared."""

from __future__ import annotations

import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked, offer

JOINED = """
    import torch


    def forward(x, index):
        size = x.size()[1:]
        device = x.device
        # the shape before
        shape = torch.cat(
            [
                torch.as_tensor(index.shape, dtype=torch.long, device=device),
                torch.as_tensor([-1, 1], dtype=torch.long),
                torch.tensor(size, dtype=torch.int64),
            ],
            dim=0,
        )

        return x.reshape(«shape.tolist()»)
    """
JOINED_AFTER = """
    import torch


    def forward(x, index):
        size = x.size()[1:]
        # the shape before
        shape = [*index.shape, -1, 1, *size]

        return x.reshape(shape)
    """

KNOWN_ON_THE_DEVICE = JOINED.replace("[-1, 1], dtype=torch.long)", "2).unsqueeze(0)")
KNOWN_AFTER = JOINED_AFTER.replace("-1, 1,", "-1,")

PARAMETER = """
    import torch


    def ranges(shape, count):
        device = count.device if torch.is_tensor(count) else "cpu"
        shape = torch.as_tensor(shape, dtype=torch.long, device=device)
        count = torch.as_tensor(count, device=device)
        # ones, and the count
        ones = torch.cat([torch.ones_like(shape, dtype=torch.long), count.unsqueeze(dim=0)])
        indices = torch.arange(count, device=device).view([int(x) for x in «ones.tolist()»])
        times = torch.cat([shape, torch.as_tensor([1], dtype=torch.int64)], dim=0)
        return indices.repeat(«times.tolist()»)


    def forward(x, index):
        return ranges(index.shape, x.size(0)) + x.size(1)
    """
PARAMETER_AFTER = """
    import torch


    def ranges(shape, count):
        device = count.device if torch.is_tensor(count) else "cpu"
        shape_list = shape
        shape = torch.as_tensor(shape, dtype=torch.long, device=device)
        count = torch.as_tensor(count, device=device)
        indices = torch.arange(count, device=device).view([*[1] * len(shape_list), -1])
        times = [*shape_list, 1]
        return indices.repeat(times)


    def forward(x, index):
        return ranges(index.shape, x.size(0)) + x.size(1)
    """

PAIRS = {
    "joined": (JOINED, JOINED_AFTER, "safe"),
    "known-on-the-device": (KNOWN_ON_THE_DEVICE, KNOWN_AFTER, "unsafe"),
    "parameter": (PARAMETER, PARAMETER_AFTER, "unsafe"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_list_is_made_in_python(name: str) -> None:
    before, after, applicability = PAIRS[name]
    expect(before, after, "PG203", applicability)


@pytest.mark.parametrize("name", PAIRS)
def test_no_break_is_left(name: str) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in PAIRS[name][:2])
    arguments = (torch.ones(6, 2), torch.ones(3))
    assert breaks(before, arguments) > 0
    assert breaks(after, arguments) == 0


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(rows=st.integers(1, 3), shape=st.lists(st.integers(1, 3), max_size=3))
def test_they_compute_the_same(name: str, rows: int, shape: list[int]) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in PAIRS[name][:2])
    index, rows = torch.ones(shape), 1 if name == "known-on-the-device" else rows
    arguments = (torch.randn(2 * rows * index.numel(), 3, requires_grad=True), index)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


@pytest.mark.parametrize(("shape", "rows"), [((0,), 2), ((2,), 3)])
def test_the_same_exceptions(shape: tuple[int, ...], rows: int) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in (JOINED, JOINED_AFTER))
    arguments = (torch.ones(rows, 3), torch.ones(shape))
    seen = run(before, arguments)
    assert seen.error is not None
    assert_same(seen, run(after, arguments))


def test_the_second_fix_finds_the_name_of_the_first() -> None:
    first = PARAMETER.replace("«times.tolist()»", "times.tolist()")
    _, once = offer(first, "PG203")
    assert once.count("shape_list = shape\n") == 1
    _, twice = offer(once.replace("times.tolist()", "«times.tolist()»"), "PG203")
    assert twice == textwrap.dedent(PARAMETER_AFTER).lstrip("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shape = torch.cat(", "shape = torch.stack("),
        ("dim=0", "dim=1"),
        ("shape = torch.cat(", "shape = other = torch.cat("),
        ("return x", "shape = shape + 1\n        return x"),
        ("shape = torch.cat(", "if device:\n            pass\n        shape, _ = torch.cat("),
        ("index.shape, dtype", "index, dtype"),
        ("index.shape, dtype=torch.long", "index.shape, dtype=torch.float"),
        ("[-1, 1]", "[-1, 1.0]"),
        ("[-1, 1]", "[-1, index[0]]"),
        ("torch.tensor(size, dtype=torch.int64)", "index"),
        ("torch.tensor(size, dtype=torch.int64)", "size_tensor(index)"),
        ("torch.tensor(size, dtype=torch.int64)", "index.long()"),
        ("return x", "print(shape)\n        return x"),
        ("x.reshape(«shape.tolist()»)", "x.reshape(«shape.tolist()»[0])"),
        ("x.reshape(«shape.tolist()»)", "[i for i in «shape.tolist()» if i]"),
        ("x.reshape(«shape.tolist()»)", "[i + 1 for i in «shape.tolist()»]"),
    ],
)
def test_other_lists_stay(old: str, new: str) -> None:
    assert old in JOINED
    decline(JOINED.replace(old, new, 1), "PG203", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shape = torch.as_tensor(shape,", "shape = torch.as_tensor(count,"),
        ("count = torch", "shape = shape + 1\n        count = torch"),
        ("ranges(index.shape,", "ranges(index,"),
        ("def ranges(", "shape_list = []\n\n\n    def ranges(shape_list, "),
        ("# ones", "shape_list = 1\n        # ones"),
        ("dtype=torch.long), count", "dtype=torch.float), count"),
    ],
)
def test_other_parameters_stay(old: str, new: str) -> None:
    assert old in PARAMETER
    before = PARAMETER.replace("«times.tolist()»", "times.tolist()").replace(old, new, 1)
    decline(before, "PG203", "")


def test_a_list_that_a_name_was_made_of() -> None:
    before = PARAMETER.replace("shape = torch.as_tensor(shape,", "sizes = torch.as_tensor(shape,")
    before = before.replace("ones_like(shape,", "ones_like(sizes,").replace("([shape,", "([sizes,")
    after = PARAMETER_AFTER.replace("        shape_list = shape\n", "").replace(
        "        shape = torch.as_tensor(shape,", "        sizes = torch.as_tensor(shape,"
    )
    expect(before, after.replace("shape_list", "shape"), "PG203", "unsafe")


NAMED = """
    import torch


    def forward(x, index):
        sizes = [*x.shape]
        first = torch.tensor(sizes, dtype=torch.long)
        assert first.dim() == len(sizes)
        shape = torch.cat([first, torch.as_tensor([1])])
        return x.reshape(«shape.tolist()»)
    """


@pytest.mark.parametrize(
    "written",
    [
        "first.mul_(2)",
        "first[0] = 4",
        "sizes[0] = 4",
        "sizes.append(1)",
        "other = first",
        "other = sizes",
        "index.update(sizes, first)",
        "torch.abs(first, out=first)",
    ],
)
def test_what_may_be_written_to_in_place_is_read_back(written: str) -> None:
    asked = "assert first.dim() == len(sizes)"
    decline(edited(NAMED, asked, written), "PG203", "may change in place")


def test_a_second_name_of_the_list_is_seen() -> None:
    before = NAMED.replace("sizes = [*x.shape]", "sizes = [*x.shape]\n        other = sizes")
    before = before.replace("        shape =", "        other[0] = 1\n        shape =")
    decline(before, "PG203", "may change in place")


def test_a_list_that_is_only_read_is_taken() -> None:
    fix, _ = offer(NAMED.replace("[*x.shape]", "x.shape"), "PG203")
    assert fix is not None
    assert fix.applicability == "safe", fix.reason


PRODUCT = """
    import torch


    class Index:
        def __init__(self, indices, count):
            self.indices = indices
            self.count = torch.as_tensor(count, device=indices.device)

        def shape(self):
            return self.indices.size()[:2]


    def forward(x):
        index = Index(x, x.shape[0])
        size = torch.prod(«torch.tensor(list(index.shape()))»)
        return torch.arange(end=size, device=x.device) * index.count * size
    """
PRODUCT_AFTER = PRODUCT.replace("import torch\n", "import math\n\n    import torch\n", 1).replace(
    "torch.prod(«torch.tensor(list(index.shape()))»)", "math.prod(index.shape())"
)


def test_a_product_of_sizes_is_worked_out_in_python() -> None:
    fix = expect(PRODUCT, PRODUCT_AFTER, "PG104", "unsafe")
    assert "a number" in fix.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.prod(torch.tensor(list(x.shape)))", "math.prod(x.shape)"),
        ("torch.tensor(list(x.shape)).prod()", "math.prod(x.shape)"),
        ("torch.sum(torch.as_tensor(x.shape[-2:]))", "sum(x.shape[-2:])"),
        ("torch.as_tensor([2, x.size(0)]).sum()", "sum([2, x.size(0)])"),
    ],
)
def test_spellings_of_products_and_sums(old: str, new: str) -> None:
    head = "import math\nimport torch\n\n\ndef forward(x):\n    return torch.zeros({}) + len(x)\n"
    start = old.index("torch.", 1) if old.startswith(("torch.prod", "torch.sum")) else 0
    end = old.rindex(")", 0, -1) + 1 if start else old.rindex(".")
    place = f"{old[:start]}«{old[start:end]}»{old[end:]}"
    expect(head.format(place), head.format(new), "PG104", "unsafe")
    before, after = (module_of(head.format(text)).forward for text in (old, new))
    arguments = (torch.ones(2, 3),)
    assert breaks(before, arguments) > 0
    assert breaks(after, arguments) == 0
    assert_same(run(before, arguments), run(after, arguments))


@FEW
@given(shape=st.lists(st.integers(0, 3), min_size=2, max_size=3))
def test_products_compute_the_same(shape: list[int]) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in (PRODUCT, PRODUCT_AFTER))
    arguments = (torch.ones(shape),)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.prod(«torch.tensor(list(index.shape()))»)", "«torch.tensor(list(index.shape()))»"),
        ("«torch.tensor(list(index.shape()))»)", "«torch.tensor(list(index.shape()))», 0)"),
        ("«torch.tensor(list(index.shape()))»)", "«torch.tensor(list(index.shape()))», dim=0)"),
        ("torch.prod(", "torch.amax("),
        ("list(index.shape())", "list(index.indices)"),
        ("list(index.shape())", "list(index.other())"),
        ("return self.indices.size()[:2]", "yield self.indices.size()[:2]"),
        ("return self.indices.size()[:2]", "self.indices.size()[:2]"),
        ("return self.indices.size()[:2]", "return self.indices[:2]"),
        ("return torch", "size = size + 1\n        return size.item(), torch"),
        ("return torch", "print(size.item())\n        return torch"),
    ],
)
def test_other_products_stay(old: str, new: str) -> None:
    assert old in PRODUCT
    decline(PRODUCT.replace(old, new, 1), "PG104", "")


GIVEN = """
    import torch


    class Index:
        def __init__(self, indices, count, dims=0):
            self.indices = indices
            self.count = torch.as_tensor(count, device=indices.device)
            self.dims = dims

        def inner(self):
            return Index(self.indices, self.count)


    class Product(Index):
        def __init__(self, one, other):
            super().__init__(one.indices, count=one.count * other.count)


    def flat(index):
        return Index(index.indices + index.count, index.count * index.indices.size(0))


    def forward(x):
        index = flat(Product(Index(x, 2), Index(x, x.size(1))).inner())
        index = Index(index.indices, max(index.count, index.count))
        return torch.ones(«int(flat(Index(x, 2)).count)», device=x.device) + index.indices.sum()
    """
GIVEN_AFTER = """
    import torch


    class Index:
        def __init__(self, indices, count, dims=0):
            self.indices = indices
            self.count = torch.as_tensor(count, device=indices.device)
            self.count_given = count
            self.dims = dims

        def inner(self):
            return Index(self.indices, self.count_given)


    class Product(Index):
        def __init__(self, one, other):
            super().__init__(one.indices, count=one.count_given * other.count_given)


    def flat(index):
        return Index(index.indices + index.count, index.count_given * index.indices.size(0))


    def forward(x):
        index = flat(Product(Index(x, 2), Index(x, x.size(1))).inner())
        index = Index(index.indices, max(index.count, index.count))
        return torch.ones(flat(Index(x, 2)).count_given, device=x.device) + index.indices.sum()
    """
COMPARED = ("torch.ones(«int(flat(Index(x, 2)).count)», device=x.device)", "«int(index.count)»")


def test_the_number_is_kept_beside_the_tensor() -> None:
    fix = expect(GIVEN, GIVEN_AFTER, "PG202", "unsafe")
    assert "may lack the number" in fix.reason


def test_int_stays_where_no_size_is_wanted() -> None:
    before = GIVEN.replace(*COMPARED)
    after = GIVEN_AFTER.replace(
        "torch.ones(flat(Index(x, 2)).count_given, device=x.device)", "int(index.count_given)"
    )
    expect(before, after, "PG202", "unsafe")


def test_the_second_fix_finds_the_number() -> None:
    _, once = offer(GIVEN, "PG202")
    again = once.replace("return torch.ones(", "return «int(index.count)» + torch.ones(")
    _, twice = offer(again, "PG202")
    assert twice == once.replace(
        "return torch.ones(", "return int(index.count_given) + torch.ones("
    )


@FEW
@given(shape=st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_numbers_compute_the_same(shape: list[int]) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in (GIVEN, GIVEN_AFTER))
    arguments = (torch.randn(shape, requires_grad=True),)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


def test_no_break_is_left_by_numbers() -> None:
    before, after = (module_of(marked(text)[0]).forward for text in (GIVEN, GIVEN_AFTER))
    arguments = (torch.ones(2, 3),)
    assert breaks(before, arguments) > 0
    # Numbers that stay tensors elsewhere need not break.
    assert breaks(after, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("«int(flat(Index(x, 2)).count)»", "int(«flat(Index(x, 2)).count»)"),
        ("«int(flat(Index(x, 2)).count)»", "«float(flat(Index(x, 2)).count)»"),
        ("«int(flat(Index(x, 2)).count)»", "«int(flat(Index(x, 2)).size)»"),
        ("torch.as_tensor(count, device", "torch.as_tensor(count + 1, device"),
        ("torch.as_tensor(count, device", "torch.as_tensor(count, dtype=torch.uint8, device"),
        ("torch.as_tensor(count, device", "torch.full((), count, device"),
        ("def flat", "class Other:\n        def __init__(self, count):\n            self.count = "
         "torch.as_tensor(count)\n\n\n    def flat"),
        ("index = flat", "index.count = 3\n        index = flat"),
        ("self.indices = indices", "count = abs(count)"),
        ("        def __init__(self, indices", '        __slots__ = ("indices",)\n\n'
         "        def __init__(self, indices"),
        ("self.dims = dims", "self.count_given = dims"),
    ],
)  # fmt: skip
def test_other_numbers_stay(old: str, new: str) -> None:
    assert old in GIVEN
    decline(GIVEN.replace(old, new, 1), "PG202", "")


TURNS = """
    import torch
    from torch import split


    def forward(x, sizes):
        lengths = sizes[1:] - sizes[:-1]
        # parts of each
        parts = [
            split(tensor, «lengths.tolist()», dim=0)
            for tensor in (x, sizes)
        ]
        return parts
    """
TURNS_AFTER = TURNS.replace(
    "        parts =", "        lengths_list = lengths.tolist()\n        parts ="
)
TURNS_AFTER = TURNS_AFTER.replace("«lengths.tolist()»", "lengths_list")


def test_a_tensor_is_copied_once_for_all_turns() -> None:
    expect(TURNS, TURNS_AFTER, "PG203")


@FEW
@given(sizes=st.lists(st.integers(0, 3), max_size=4))
def test_turns_compute_the_same(sizes: list[int]) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in (TURNS, TURNS_AFTER))
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    for total in (sum(sizes), len(offsets)):
        arguments = (torch.randn(total, 2, requires_grad=True), offsets)
        seen = run(before, arguments)
        assert_same(seen, run(after, arguments))
        if seen.error is None:
            assert_same(seen, run(compiled(after), arguments))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(x, sizes)\n        ]", "zip(x, sizes)\n        ]"),
        ("(x, sizes)\n        ]", "(x,)\n        ]"),
        ("(x, sizes)\n        ]", "(x, *sizes)\n        ]"),
        ("(x, sizes)\n        ]", "(x, sizes.add_(1))\n        ]"),
        ("(x, sizes)\n        ]", "(x, sizes) if len(tensor)\n        ]"),
        ("parts = [", "parts = *["),
        ("«lengths.tolist()», dim=0", "«lengths.tolist()», dim=print(0)"),
        ("«lengths.tolist()», dim=0", "«lengths.tolist()», **{}"),
        ("split(tensor", "torch.relu_(tensor"),
        ("split(tensor", "(lambda *_, dim: _)(tensor"),
    ],
)
def test_other_turns_stay(old: str, new: str) -> None:
    assert old in TURNS
    decline(TURNS.replace(old, new, 1).replace("= *[", "= 0, [", 1), "PG203", "")


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ("split(y, «lengths.tolist()») if y is x else y", "may do without"),
        ("y if y is x else split(y, «lengths.tolist()»)", "may do without"),
        ("y is x and split(y, «lengths.tolist()»)", "may do without"),
        ("0 < len(y) < torch.Size(«lengths.tolist()»)", "may do without"),
        ("torch.cat([*(torch.tensor(«lengths.tolist()») for _ in y)])", "may do without"),
        ("{0: torch.tensor(«s.tolist()») for s in y}", "another tensor"),
        ("torch.cat([*(torch.tensor(«s.tolist()») for s in y)])", "another tensor"),
        ("«lengths.tolist()»", "may keep the list"),
        ("(y, «lengths.tolist()»)", "may keep the list"),
        ('{"n": «lengths.tolist()»}', "may keep the list"),
        ("[*split(y, lengths.tolist()), «lengths.tolist()»]", "may keep the list"),
    ],
)
def test_turns_that_skip_or_keep_the_list_stay(elements: str, reason: str) -> None:
    before = TURNS.replace("split(tensor, «lengths.tolist()», dim=0)", elements)
    decline(before.replace("for tensor in", "for y in"), "PG203", reason)


def test_a_turn_that_always_reads_may_read_again_in_a_branch() -> None:
    once = "split(tensor, «lengths.tolist()», dim=0)"
    twice = f"({once}, split(x, lengths.tolist()) if tensor is x else x)"
    after = TURNS_AFTER.replace(
        "split(tensor, lengths_list, dim=0)",
        "(split(tensor, lengths_list, dim=0), split(x, lengths_list) if tensor is x else x)",
    )
    expect(TURNS.replace(once, twice), after, "PG203")
