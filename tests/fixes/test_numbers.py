"""Numbers that numpy works out of sizes."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import expect, marked, offer

HEAD = "import numpy as np\nimport torch\n\n\ndef forward(x: torch.Tensor, k: int):\n"
SAFE = [
    ("int(«np.prod(x.shape)»)", "int(x.numel())"),
    ("int(«np.prod(x.shape[1:])»)", "int(x.shape[1:].numel())"),
    ("int(«np.prod(x.size())»)", "int(x.numel())"),
]


@pytest.mark.parametrize(("before", "after"), SAFE)
def test_python_works_the_number_out(before: str, after: str) -> None:
    before, after = f"{HEAD}    return x, {before}\n", f"{HEAD}    return x, {after}\n"
    expect(before, after, "PG520")
    old, new = module_of(marked(before)[0]).forward, module_of(after).forward
    for x in (torch.ones(2, 3), torch.ones(5), torch.ones(1, 0), torch.ones(())):
        assert_same(run(old, (x, 2)), run(new, (x, 2)))


def test_a_product_beyond_64_bits_wraps_as_before() -> None:
    text = f"{HEAD}    return int(«np.prod(x.shape[1:])»)\n"
    fix, changed = offer(text, "PG520")
    assert fix is not None and fix.applicability == "safe"
    x = torch.empty(0, 1, 1).expand(0, 2**32 + 1, 2**32)
    old, new = module_of(marked(text)[0]).forward, module_of(changed).forward
    assert old(x, 2) == new(x, 2) == 2**32


@pytest.mark.parametrize(
    "value",
    [
        "«np.prod(x.shape)».item()",  # 1.0 where there are no sizes
        "x.view(«np.prod(x.shape)»)",  # another type
        "int(«np.prod([k, 2])»)",
        "int(«np.prod(x)»)",
        "int(«np.prod(x.shape, axis=0)»)",
        "int(«np.max(x.shape)»)",
    ],
)
def test_what_only_numpy_answers_is_left_to_it(value: str) -> None:
    text = f"{HEAD}    return {value}\n"
    fix, changed = offer(text, "PG520")
    assert fix is not None and fix.applicability == "declined"
    assert changed == marked(text)[0]
