"""The last masked position of each row: looked up by its number, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

HEAD = "import torch\n\n\ndef forward(x, mask):\n"
PAIRS = {
    "sizes": (
        "    y = «x[mask, :]».view(x.size(0), -1, x.size(-1))[\n        :, -1, :\n    ]\n"
        "    return y * 2\n",
        "    last = mask.size(1) - 1 - mask.flip(1).int().argmax(1)\n"
        "    y = x[torch.arange(x.size(0), device=last.device), last]\n    return y * 2\n",
    ),
    "unpacked": (
        "    rows, _, width = x.shape\n    return «x[mask]».reshape(rows, -1, width)[:, -1] * 2\n",
        "    rows, _, width = x.shape\n"
        "    last = mask.size(1) - 1 - mask.flip(1).int().argmax(1)\n"
        "    return x[torch.arange(rows, device=last.device), last] * 2\n",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_last_position_is_looked_up(name: str) -> None:
    before, after = PAIRS[name]
    fix = expect(HEAD + before, HEAD + after, "PG402", "unsafe")
    assert "no longer raise" in fix.reason


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(rows=st.lists(st.permutations(range(5)), min_size=1, max_size=4), count=st.integers(1, 5))
def test_they_compute_the_same(name: str, rows: list[list[int]], count: int) -> None:
    old, new = (module_of(marked(HEAD + text)[0]).forward for text in PAIRS[name])
    mask = torch.tensor(rows) < count
    x = torch.randn(len(rows), 5, 3, dtype=torch.float64, requires_grad=True)
    seen = run(old, (x, mask))
    assert seen.error is None
    assert_same(seen, run(new, (x, mask)))
    assert_same(seen, run(compiled(new), (x, mask)))


@pytest.mark.parametrize("name", PAIRS)
def test_no_break_is_left(name: str) -> None:
    old, new = (module_of(marked(HEAD + text)[0]).forward for text in PAIRS[name])
    arguments = (torch.ones(2, 3, 4), torch.tensor([[True, False, False], [False, True, False]]))
    assert breaks(old, arguments) > 0
    assert breaks(new, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[:, -1]", "[:, 0]"),
        ("[:, -1]", "[-1]"),
        ("[:, -1]", ""),
        ("-1, width)", "2, width)"),
        ("rows, -1, width", "-1, rows, width"),
        ("x.shape", "mask.shape"),
        ("x[mask]", "x[:, mask]"),
        ("x[mask]", "x[mask > 0]"),
        ("x[mask]", "x.relu()[mask]"),
        ("reshape", "expand"),
    ],
)
def test_other_selections_stay(old: str, new: str) -> None:
    before = PAIRS["unpacked"][0].replace("«", "").replace("»", "")
    assert old in before
    text = before.replace(old, new, 1)
    read = next(
        part for part in ("x[:, mask]", "x[mask > 0]", "x.relu()[mask]", "x[mask]") if part in text
    )
    decline(HEAD + text.replace(read, f"«{read}»"), "PG402", "")
