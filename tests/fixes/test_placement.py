"""Factories and numbers made where they are used."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.support import decline, expect, marked, offer

HEAD = """
import torch

def forward(x: torch.Tensor, device: torch.device, dtype, other=None):
    n = x.shape[0]
"""

MOVED = [
    ("«torch.zeros(n, 3).to(x.device)»", "torch.zeros(n, 3, device=x.device)"),
    ("«torch.ones((n,)).to(device)»", "torch.ones((n,), device=device)"),
    ("«torch.zeros(*x.shape).to(x.device)»", "torch.zeros(*x.shape, device=x.device)"),
    (
        "«torch.full((n, n), 2).to(device=device, non_blocking=True)»",
        "torch.full((n, n), 2, device=device)",
    ),
    ("«torch.eye(3).cuda()»", 'torch.eye(3, device="cuda")'),
    ("«torch.zeros(3).to(torch.device('cpu'))»", "torch.zeros(3, device=torch.device('cpu'))"),
    ("«torch.tensor([1.0, n]).to(x.device)»", "torch.tensor([1.0, n], device=x.device)"),
    ("2 * «torch.ones(3).to(x.device)».sum()", "2 * torch.ones(3, device=x.device).sum()"),
]


@pytest.mark.parametrize(("before", "after"), MOVED)
def test_factory_is_made_on_its_device(before: str, after: str) -> None:
    expect(f"{HEAD}    return {before}\n", f"{HEAD}    return {after}\n", "PG101")


CONVERTED = [
    (
        "«torch.arange(0, n, 2, dtype=torch.int64).to(device=device, dtype=torch.float)»",
        "torch.arange(0, n, 2, dtype=torch.int64, device=device).to(dtype=torch.float)",
    ),
    ("«torch.zeros(n).to(x.device, x.dtype)»", "torch.zeros(n, device=x.device).to(x.dtype)"),
]


@pytest.mark.parametrize(("before", "after"), CONVERTED)
def test_a_conversion_is_made_on_the_device_by_an_unsafe_fix(before: str, after: str) -> None:
    expect(f"{HEAD}    return {before}\n", f"{HEAD}    return {after}\n", "PG101", "unsafe")


IN_A_LOOP = [
    ("«torch.zeros([1, n]).to(device)»", "torch.zeros([1, n], device=device)", "safe"),
    (
        "«torch.arange(n).view(1, -1).cuda()»",
        'torch.arange(n, device="cuda").view(1, -1)',
        "unsafe",
    ),
    (
        "«torch.tensor(other).cuda()»",
        "torch.tensor(other).cuda(non_blocking=True)",
        "unsafe",
    ),
    ("«torch.randn(n).to(device)»", "torch.randn(n).to(device, non_blocking=True)", "unsafe"),
    ("x * «torch.tensor(0.0, device=device)»", "x * torch.zeros((), device=device)", "safe"),
]


@pytest.mark.parametrize(("before", "after", "applicability"), IN_A_LOOP)
def test_a_copy_on_every_step_is_made_on_the_device(
    before: str, after: str, applicability: str
) -> None:
    texts = [f"{HEAD}    return {line}\n" for line in (before, after)]
    expect(*texts, "PG704", applicability)


# (before, after) the move; what stands between the marks is the finding, of this code.
CHAINS = [
    ("PG101", "«torch.arange(n).unsqueeze(0).to(x.device)»", "{arange}.unsqueeze(0)"),
    ("PG101", "«torch.ones(n, n).tril().bool().to(x.device)»", "{ones}.tril().bool()"),
    (
        "PG101",
        "«torch.ones(n, n).view(1, n, n).to(x.device, dtype)»",
        "{ones}.view(1, n, n).to(dtype)",
    ),
    ("PG102", "«torch.arange(n)»[None, :].to(x.device)", "{arange}[None, :]"),
    ("PG102", "«torch.arange(n)»[..., None].t().to(x.device)", "{arange}[..., None].t()"),
    (
        "PG102",
        "torch.triu(«torch.ones(n, n)», diagonal=1).bool().to(x.device)",
        "torch.triu({ones}, diagonal=1).bool()",
    ),
    ("PG102", "torch.tril(«torch.ones(n, n)»).to(device=device)", "torch.tril({there})"),
    (
        "PG102",
        "torch.flip(«torch.arange(n)», (0,)).half().to(x.device)",
        "torch.flip({arange}, (0,)).half()",
    ),
    ("PG101", "«torch.ones(n, n).tril().long().to(x.device)»", "{ones}.tril().long()"),
    ("PG101", "«torch.arange(n).repeat(2, 1).to(x.device)»", "{arange}.repeat(2, 1)"),
    (
        "PG101",
        "«(torch.arange(n) * 2 - 1).unsqueeze(0).to(x.device)»",
        "({arange} * 2 - 1).unsqueeze(0)",
    ),
    ("PG101", "«torch.ones(n, n).permute(1, 0).to(x.device)»", "{ones}.permute(1, 0)"),
]
PLACED = {
    "arange": "torch.arange(n, device=x.device)",
    "ones": "torch.ones(n, n, device=x.device)",
    "there": "torch.ones(n, n, device=device)",
}


@pytest.mark.parametrize(("code", "before", "after"), CHAINS)
def test_a_factory_whose_shape_changes_before_the_move(code: str, before: str, after: str) -> None:
    after = after.format(**PLACED)
    expect(f"{HEAD}    return {before}\n", f"{HEAD}    return {after}\n", code, "unsafe")
    old, new = (
        module_of(f"{HEAD}    return {text}\n").forward
        for text in (before.replace("«", "").replace("»", ""), after)
    )
    x, meta = torch.zeros(5, 3), torch.zeros(5, 3, device="meta")
    args = (x, x.device, torch.float16)
    assert_same(run(old, args), run(new, args))
    # A copy to another device may lay memory out anew.
    moved, made = (f(meta, meta.device, torch.float16) for f in (old, new))
    assert (moved.shape, moved.stride(), moved.dtype) == (made.shape, made.stride(), made.dtype)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("PG101", "«torch.arange(n).expand(2, -1).to(x.device)»"),  # the copy has memory of its own
        ("PG102", "«torch.arange(n)»[::2].to(x.device)"),  # the copy is contiguous
        ("PG102", "«torch.arange(n)»[other].to(x.device)"),
        ("PG101", "«torch.arange(n).add(other).to(x.device)»"),
        ("PG101", "«torch.full((n,), 1e10).int().to(x.device)»"),  # does not fit
        ("PG101", "«torch.arange(n).float().sin().to(x.device)»"),  # may round otherwise
        ("PG101", "«torch.arange(n).view(next(other)).to(x.device)»"),
        ("PG102", "torch.cat([«torch.arange(n)», other]).to(x.device)"),
        ("PG102", "torch.tril(«torch.ones(n, n)», out=other).to(x.device)"),
        ("PG102", "torch.tril(«torch.ones(n, n)», diagonal=next(other)).to(x.device)"),
        ("PG102", "(«torch.arange(n)» + other).to(x.device)"),
        ("PG102", "(«torch.ones(n)» * 3).to(x.device)"),
        ("PG102", "(«torch.arange(n)» ** 2).to(x.device)"),
        ("PG102", "(«torch.arange(n)».half() * 2).to(x.device)"),
    ],
)
def test_a_factory_that_is_worked_on_before_the_move_stays(code: str, body: str) -> None:
    text = f"{HEAD}    return {body}\n"
    fix, changed = offer(text, code)
    assert fix is None or fix.applicability == "declined"
    assert changed == marked(text)[0]


def test_layout_and_comments_stay() -> None:
    expect(
        """
        import torch

        def forward(x):
            return «torch.zeros(  # one row each
                x.shape[0],
                3,  # channels
            ).to(x.device)»
        """,
        """
        import torch

        def forward(x):
            return torch.zeros(  # one row each
                x.shape[0],
                3,
                # channels
                device=x.device,
            )
        """.replace("3,\n                # channels", "3,  # channels"),
        "PG101",
    )


def test_a_line_that_grows_too_long_is_broken_as_the_file_does() -> None:
    expect(
        """
        import torch

        def forward(self, hidden_states: torch.Tensor, embedding):
            self.place = embedding[«torch.arange(9).to(hidden_states.device)», hidden_states, 1]
            return self.place
        """,
        """
        import torch

        def forward(self, hidden_states: torch.Tensor, embedding):
            self.place = embedding[
                torch.arange(9, device=hidden_states.device), hidden_states, 1
            ]
            return self.place
        """,
        "PG101",
    )


def test_a_factory_whose_name_is_moved_later() -> None:
    before = "    rows = torch.arange(n)\n    rows = «rows.unsqueeze(0).to(x.device)»\n"
    after = "    rows = torch.arange(n, device=x.device)\n    rows = rows.unsqueeze(0)\n"
    expect(f"{HEAD}{before}    return rows\n", f"{HEAD}{after}    return rows\n", "PG101", "unsafe")


@pytest.mark.parametrize(
    "between",
    [
        "    if x is None:\n        return None\n",
        "    assert x is not None\n",
        "    try:\n        n = x.ndim\n    except AttributeError:\n        return None\n",
        "    global rows\n",
    ],
)
def test_a_device_is_not_asked_for_where_it_was_not(between: str) -> None:
    text = f"{HEAD}    rows = torch.arange(n)\n{between}"
    text += "    rows = «rows.unsqueeze(0).to(x.device)»\n    return rows\n"
    fix, _ = offer(text, "PG101")
    assert fix is not None and fix.applicability == "declined"


def test_a_size_of_something_that_is_no_tensor_may_be_a_float() -> None:
    text = (
        "import torch\ndef forward(x, box):\n    return «torch.arange(box.size(0)).to(x.device)»\n"
    )
    fix, _ = offer(text, "PG101")
    assert fix is not None
    assert (fix.applicability, "last bit" in fix.reason) == ("unsafe", True)


NOT_MOVED = [
    ("«torch.rand(3).to(x.device)»", "may differ between devices"),
    ("«torch.randn(3).cuda()»", "may differ between devices"),
    ("«torch.zeros(3).to(other)»", "may be a dtype or a tensor"),
    ("«torch.zeros(3).to(dtype)»", "may be a dtype or a tensor"),
    ("«torch.zeros(3).to(dtype=dtype)»", "names no device"),
    ("f'{«torch.zeros(3).to(x.device)»}'", "f-string"),
]


@pytest.mark.parametrize(("before", "reason"), NOT_MOVED)
def test_factory_is_left_alone(before: str, reason: str) -> None:
    decline(f"{HEAD}    return {before}\n", "PG101", reason)


def test_a_device_known_by_name_only_is_unsafe() -> None:
    text = "import torch\ndef forward(x, device):\n    return «torch.zeros(3).to(device)»\n"
    fix, changed = offer(text, "PG101")
    assert fix is not None
    assert "torch.zeros(3, device=device)" in changed
    assert (fix.applicability, "only its name" in fix.reason) == ("unsafe", True)


SHAPES = [(), (0,), (1,), (3, 2)]
DTYPES = [torch.bool, torch.int64, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize(("before", "after"), [pair for pair in MOVED if "cuda" not in pair[0]])
def test_moved_factories_give_the_same(before: str, after: str) -> None:
    """Run on the CPU, and on the meta device for everything but values."""
    plain = before.replace("«", "").replace("»", "")
    old = module_of(f"{HEAD}    return {plain}\n").forward
    new = module_of(f"{HEAD}    return {after}\n").forward
    for shape, dtype, device in itertools.product(SHAPES[1:], DTYPES, ("cpu", "meta")):
        where = torch.device(device)
        arguments = (torch.ones(shape, dtype=dtype, device=where), where, dtype)
        assert_same(run(old, arguments), run(new, arguments))
    arguments = (torch.ones(3), torch.device("cpu"), torch.float32)
    assert_same(run(compiled(old), arguments), run(compiled(new), arguments))
    assert breaks(new, arguments) == 0


SCALARS = [
    ("x * «torch.tensor(2.0)»", "x * torch.full((), 2.0, device=x.device)"),
    ("x + «torch.tensor(3)»", "x + torch.full((), 3, device=x.device)"),
    ("x < «torch.tensor(-1)»", "x < torch.full((), -1, device=x.device)"),
    (
        "torch.where(x > 0, x, «torch.tensor(0.0, dtype=x.dtype)»)",
        "torch.where(x > 0, x, torch.full((), 0.0, dtype=x.dtype, device=x.device))",
    ),
    (
        "torch.maximum(x, «torch.tensor(0.5)»)",
        "torch.maximum(x, torch.full((), 0.5, device=x.device))",
    ),
]


@pytest.mark.parametrize(("before", "after"), SCALARS)
def test_filled_numbers_give_the_same(before: str, after: str) -> None:
    plain = before.replace("«", "").replace("»", "")
    old = module_of(f"{HEAD}    return {plain}\n").forward
    new = module_of(f"{HEAD}    return {after}\n").forward
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e30])
    given: list[torch.Tensor] = [odd, odd.clone().requires_grad_(), odd[::2]]
    for shape, dtype in itertools.product(SHAPES[1:], DTYPES):
        given.append(torch.ones(shape, dtype=dtype))
    given += [torch.ones(2, 3, device="meta"), torch.ones(4).t()]
    for x in given:
        arguments = (x, torch.device("cpu"), None)
        assert_same(run(old, arguments), run(new, arguments))
    arguments = (odd, torch.device("cpu"), None)
    assert_same(run(compiled(old), arguments), run(compiled(new), arguments))


def test_zero_dimensional_operands_promote_alike() -> None:
    old = module_of(f"{HEAD.replace('x.shape[0]', '1')}    return x * torch.tensor(2.0)\n").forward
    new = module_of(
        f"{HEAD.replace('x.shape[0]', '1')}    return x * torch.full((), 2.0, device=x.device)\n"
    ).forward
    for dtype in DTYPES:
        arguments = (torch.ones((), dtype=dtype), torch.device("cpu"), None)
        assert_same(run(old, arguments), run(new, arguments))


@pytest.mark.parametrize(
    ("imported", "safe"),
    [
        ("torch", True),
        ("torch.nn", True),
        (".torch_helpers", False),
        ("torchlib", False),
        ("helpers", False),
    ],
)
def test_what_another_file_gives_all_of_may_hide_a_factory(imported: str, safe: bool) -> None:
    text = f"""
        import torch
        from {imported} import *

        def forward(x: torch.Tensor):
            return x + «torch.arange(3).to(x.device)»
    """
    fix, _ = offer(text, "PG101")
    assert fix is not None and (fix.applicability == "safe") == safe
