"""Numbers that numpy works out of Python numbers: worked out by Python, run and compared."""

from __future__ import annotations

import math
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked, offer

HEAD = "import math\nimport numpy as np\nimport torch\n\n\n"

PAIRS = {
    "product": (
        "return x.reshape(int(«np.prod(x.shape)»))",
        "return x.reshape(int(math.prod(x.shape)))",
    ),
    "extreme": (
        "return torch.zeros(«np.max(x.shape)», dtype=x.dtype)",
        "return torch.zeros(max(x.shape), dtype=x.dtype)",
    ),
    "taken-out": (
        "return x[: «np.max(x.shape)».item()]",
        "return x[: max(x.shape)]",
    ),
    "listed": (
        "sizes = [x.shape[0], 2]\nfor _ in range(«np.sum(sizes)»):\n    x = x + 1\nreturn x",
        "sizes = [x.shape[0], 2]\nfor _ in range(sum(sizes)):\n    x = x + 1\nreturn x",
    ),
    "rounded": (
        'n = x.size(0)\nreturn x[: «np.ceil(np.log1p(n)).astype("int").item()»]',
        "n = x.size(0)\nreturn x[: math.ceil(math.log1p(n))]",
    ),
    "halved": (
        "return x[: «np.floor(x.shape[0] / 2).astype(np.int64).item()»]",
        "return x[: math.floor(x.shape[0] / 2)]",
    ),
}


def _source(body: str) -> str:
    return f"{HEAD}def forward(x):\n{textwrap.indent(body, '    ')}\n"


@pytest.mark.parametrize("name", PAIRS)
def test_python_works_the_number_out(name: str) -> None:
    before, after = (_source(body) for body in PAIRS[name])
    expect(before, after, "PG520")
    x = torch.ones(3, 4)
    assert breaks(module_of(marked(before)[0]).forward, (x,)) > 0
    assert breaks(module_of(after).forward, (x,)) == 0


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(shape=st.lists(st.integers(0, 9), max_size=3), asks=st.booleans())
def test_it_is_the_same_number(name: str, shape: list[int], asks: bool) -> None:
    before, after = (_source(body) for body in PAIRS[name])
    old, new = module_of(marked(before)[0]).forward, module_of(after).forward
    x = torch.arange(float(math.prod(shape))).reshape(shape).requires_grad_(asks)
    seen = run(old, (x,))
    assert_same(seen, run(new, (x,)))
    if seen.error is None:
        assert_same(seen, run(compiled(new), (x,)))


def test_rounding_agrees_where_it_is_closest() -> None:
    """Where the logarithm of a size is nearest to a whole number, and far from it."""
    near = {round(math.e**k) + step for k in range(1, 42) for step in range(-3, 3)}
    for size in {*near, *range(2000), 2**31, 2**40 - 1, 2**53}:
        assert math.ceil(math.log1p(size)) == np.ceil(np.log1p(size)).astype("int").item()
        assert math.floor(math.sqrt(size)) == np.floor(np.sqrt(size)).astype("int").item()


@pytest.mark.parametrize(
    "body",
    [
        "return x, «np.max(x.shape)».dtype",
        "return x, «np.max(x.shape)».item(0)",
        "return x, (2 * «np.max(x.shape)»).item()",
        "return x, «np.max(x.shape)»[()]",
        "n = «np.max(x.shape)»\nreturn x, n.item()",
        "n = «np.max(x.shape)» + 1\nreturn x, n.astype(float)",
    ],
)
def test_what_only_numpy_answers_is_left_to_it(body: str) -> None:
    decline(_source(body), "PG520", "more than a number has")


PLAN = """
    import numpy as np
    import torch


    class Model:
        def run(self, x, blocks):
            ends, counts = self._plan(x.shape[0], blocks)
            return x + torch.as_tensor(self._rows(ends, counts, x.shape[0]))

        @staticmethod
        def _plan(size, blocks):
            ends = []
            counts = []
            if size // 2 > blocks - 1:
                ends.append(int(blocks * 2))
                counts.append(blocks)
                ends.append(size)
                counts.append(0)
            else:
                ends.append(size)
                counts.append(blocks // 2)
            return ends, counts

        def _rows(self, ends, counts, size):
            last = ends.index(size)
            rows = np.zeros((size, «np.sum(counts[: last + 1])»), dtype=np.int32)
            return rows.sum(axis=1)


    forward = Model().run
    """


def test_a_list_is_followed_through_private_methods() -> None:
    after = PLAN.replace("«np.sum(counts[: last + 1])»", "sum(counts[: last + 1])")
    expect(PLAN, after, "PG520")
    old, new = (module_of(marked(text)[0]).forward for text in (PLAN, after))
    for size, blocks in ((8, 2), (3, 2), (1, 0)):
        arguments = (torch.ones(size), blocks)
        assert_same(run(old, arguments), run(new, arguments))
        assert_same(run(old, arguments), run(compiled(new), arguments))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("counts.append(0)", "counts.append([0])"),
        ("counts.append(0)", "counts.extend([0])"),
        ("counts.append(0)", "counts.append(name)"),
        ("counts.append(0)", "counts[0] = [0]"),
        ("counts = []", "counts = np.array([])"),
        ("return ends, counts", "return (ends, counts) if ends else None"),
        ("return ends, counts", "yield ends, counts"),
        ("self._rows(ends, counts, x.shape[0])", "self._rows(*given)"),
        (
            "self._rows(ends, counts, x.shape[0])",
            "self._rows(ends, x.shape, x.shape[0]), self._rows",
        ),
        ("def _plan", "def plan"),
    ],
)
def test_other_lists_stay(old: str, new: str) -> None:
    assert old in PLAN
    decline(PLAN.replace(old, new), "PG520", "not proven to be a list of single numbers")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("counts[: last + 1]", "counts[:last]"),
        ("counts[: last + 1]", "counts[1:]"),
        ("last = ends.index(size)", "last = size"),
        ("            else:\n", "            elif size:\n"),
        (
            "counts = []\n",
            "counts = []\n            if not size:\n                return ends, counts\n",
        ),
        ("_rows", "table"),
    ],
)
def test_what_may_be_empty_or_come_from_elsewhere_is_unsafe(old: str, new: str) -> None:
    assert old in PLAN
    before = PLAN.replace(old, new)
    after = before.replace("«np.sum(", "sum(").replace(")»", ")")
    expect(before, after, "PG520", "unsafe")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import numpy as np\n", "import math\n\nimport numpy as np\n"),
        ("import os\nimport numpy as np\n", "import math\nimport os\nimport numpy as np\n"),
        ("import abc\nfrom os import path\n\n", "import abc\nimport math\nfrom os import path\n\n"),
        ("from os import path\n\n", "import math\nfrom os import path\n\n"),
        ("from . import near\n\n", "import math\n\nfrom . import near\n\n"),
        (
            "from __future__ import annotations\n\nimport torch\n",
            "from __future__ import annotations\n\nimport math\n\nimport torch\n",
        ),
    ],
)
def test_an_import_stands_where_the_file_would_have_it(before: str, after: str) -> None:
    rest = "import numpy as np\nimport torch\n\n\ndef forward(x):\n"
    body = "    return x.reshape(int({}))\n"
    expect(
        before + rest + body.format("«np.prod(x.shape)»"),
        after + rest + body.format("math.prod(x.shape)"),
        "PG520",
    )


def test_a_public_method_of_a_class_that_is_the_files_own_is_followed_too() -> None:
    public = PLAN.replace("_rows", "rows_of")
    for own, safety in ((frozenset({"Model"}), "safe"), (frozenset({"forward"}), "unsafe")):
        fix, changed = offer(public, "PG520", own=own)
        assert fix is not None
        assert fix.applicability == safety
        assert "sum(counts[: last + 1])), dtype" in changed


@pytest.mark.parametrize(
    "head",
    ["size, blocks=np.array([1])", "size, *, blocks=torch.ones(2)", "size, blocks: torch.Tensor"],
)
def test_an_array_is_no_single_number(head: str) -> None:
    before = PLAN.replace("def _plan(size, blocks)", f"def _plan({head})")
    assert before != PLAN
    decline(before, "PG520", "not proven to be a list of single numbers")
