"""Numbers that numpy works out of sizes."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import expect, marked, offer

HEAD = (
    "import math\n\nimport numpy as np\nimport torch\n\n\ndef forward(x: torch.Tensor, k: int):\n"
)
SAFE = [
    ("int(«np.prod(x.shape)»)", "int(x.numel())"),
    ("int(«np.max(x.shape)»)", "int(max(x.shape))"),
    ("int(«np.sum(x.shape)»)", "int(sum(x.shape))"),
    ("«np.max(x.shape)».item()", "max(x.shape)"),
    ("int(«np.min([x.shape[0], 4])»)", "int(min([x.shape[0], 4]))"),
    (
        "«np.ceil(np.log1p(x.shape[0])).astype(int).item()»",
        "math.ceil(math.log1p(x.shape[0]))",
    ),
    ("int(«np.prod(x.shape[1:])»)", "int(x.shape[1:].numel())"),
    ("int(«np.prod(list(x.shape)[:-1])»)", "int(torch.Size(list(x.shape)[:-1]).numel())"),
    ("«np.floor(x.shape[0] / 2).astype('int').item()»", "math.floor(x.shape[0] / 2)"),
]


@pytest.mark.parametrize(("before", "after"), SAFE)
def test_python_works_the_number_out(before: str, after: str) -> None:
    before, after = f"{HEAD}    return x, {before}\n", f"{HEAD}    return x, {after}\n"
    expect(before, after, "PG520")
    old, new = module_of(marked(before)[0]).forward, module_of(after).forward
    for x in (torch.ones(2, 3), torch.ones(5), torch.ones(1, 0), torch.ones(())):
        assert_same(run(old, (x, 2)), run(new, (x, 2)))


@pytest.mark.parametrize("sizes", ["x.shape[1:]", "list(x.shape)[1:]"])
def test_a_product_beyond_64_bits_wraps_as_before(sizes: str) -> None:
    text = f"{HEAD}    return int(«np.prod({sizes})»)\n"
    fix, changed = offer(text, "PG520")
    assert fix is not None and fix.applicability == "safe"
    x = torch.empty(0, 1, 1).expand(0, 2**32 + 1, 2**32)
    old, new = module_of(marked(text)[0]).forward, module_of(changed).forward
    assert old(x, 2) == new(x, 2) == 2**32


@pytest.mark.parametrize(
    "value",
    [
        "«np.prod(x.shape)».item()",  # 1.0 where there are no sizes
        "«np.prod(x.shape[1:])».item()",
        "int(«np.prod([k, 2])»)",
        "x.view(«np.prod(x.shape)»)",  # another type
    ],
)
def test_what_may_wrap_or_be_seen_is_unsafe(value: str) -> None:
    fix, changed = offer(f"{HEAD}    return {value}\n", "PG520")
    assert fix is not None and fix.applicability == "unsafe"
    assert "np." not in changed.partition("def ")[2]


def test_a_name_that_holds_sizes_is_one_of_a_list() -> None:
    body = (
        "    sizes = list(x.shape)\n    return x.reshape([int(«np.prod(sizes[:-k])»), -1]), sizes\n"
    )
    fix, changed = offer(HEAD + body, "PG520")
    assert fix is not None and fix.applicability == "safe"
    assert "int(torch.Size(sizes[:-k]).numel())" in changed
    old, new = module_of(marked(HEAD + body)[0]).forward, module_of(changed).forward
    assert_same(run(old, (torch.ones(2, 3, 4), 1)), run(new, (torch.ones(2, 3, 4), 1)))
    for change in ("sizes[0] = 1.5", "sizes += [1.5]", "sizes.append(1.5)", "change(sizes)"):
        other = body.replace("\n", f"\n    {change}\n", 1)
        fix, _ = offer(HEAD + other, "PG520")
        assert fix is not None and fix.applicability == "declined"


@pytest.mark.parametrize(
    "value",
    [
        "«np.max(x.shape)».dtype",
        "«np.max(x.shape)»",
        "int(«np.max(x)»)",
        "int(«np.max([k, 1.5])»)",
        "int(«np.max(x.shape, axis=0)»)",
        "int(«np.mean(x.shape)»)",
        "«np.ceil(np.log1p(k)).astype(int).item()»",
        "«np.ceil(x.shape[0] / k).astype(int).item()»",
    ],
)
def test_what_only_numpy_answers_is_left_to_it(value: str) -> None:
    text = f"{HEAD}    return {value}\n"
    fix, changed = offer(text, "PG520")
    assert fix is not None and fix.applicability == "declined"
    assert changed == marked(text)[0]


@pytest.mark.parametrize(
    "head",
    ["from other import *\n", "def max(x):\n    return 7\n", "if torch:\n    max = len\n"],
)
def test_a_builtin_that_may_be_something_else_is_not_used(head: str) -> None:
    body = "\n\ndef f(x: torch.Tensor):\n    return int(«np.max(x.shape)»)\n"
    fix, _ = offer(f"import numpy as np\nimport torch\n{head}{body}", "PG520")
    assert fix is not None and fix.applicability == "declined"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import numpy as np\nimport torch\n", "import math\n\nimport numpy as np\nimport torch\n"),
        (
            "import os\nimport numpy as np\nimport torch\n",
            "import math\nimport os\nimport numpy as np\nimport torch\n",
        ),
    ],
)
def test_an_import_stands_where_the_file_would_have_it(before: str, after: str) -> None:
    body = "\n\ndef f(x: torch.Tensor):\n    return int({})\n"
    old = body.format("«np.ceil(np.sqrt(len(x))).astype(int).item()»")
    new = body.format("math.ceil(math.sqrt(len(x)))")
    expect(before + old, after + new, "PG520", "unsafe")
    exports = '\n__all__ = ["f"]\n'
    expect(before + exports + old, after + exports + new, "PG520")
    expect(before + old, after + new, "PG520", closed=True)
