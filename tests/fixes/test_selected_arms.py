"""Arms of branches that become ``torch.where``: elements, views, draws, warnings."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.fixes.equivalence import assert_near, breaks, module_of, run
from tests.fixes.support import decline, marked, offer

HEAD = """import torch


def rank_zero_warn(text):
    print(text)


def forward(x: torch.Tensor, y: torch.Tensor, n: int = 1):
"""


def _module(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"


# As OpenMMLab, torchmetrics, torchtune, ultralytics, pytorchvideo and spyrit write them.
ARMS = {
    "an element of a loop": (
        "PG301",
        "found = torch.ones(2)\nfor i in (0, 1):\n    if {}:\n        found[i] = 0.0\nreturn found",
        "(x[i] > 0).all()",
        "found[i] = torch.where((x[i] > 0).all(), 0.0, found[i])",
    ),
    "a column, in both arms": (
        "PG301",
        "x = x * 1\nif {}:\n    x[:, n] = x[:, n] * 2\nelse:\n    x[:, n] = 3.0\nreturn x",
        "x.sum() > 0",
        "x[:, n] = torch.where(x.sum() > 0, x[:, n] * 2, 3.0)",
    ),
    "an element of a copy": (
        "PG201",
        "if {} != 0.0:\n    x = x.clone()\n    x[-1, 0] = 0.0\nreturn x",
        "x[-1, 0].item()",
        "x[-1, 0] = torch.where(chosen, 0.0, x[-1, 0])",
    ),
    "an element that the condition reads": (
        "PG301",
        "x = x * 1\nif {}:\n    x[0, n] += x[0, n]\nreturn x",
        "x[0, n] > 0",
        "x[0, n] += torch.where((x[0, n] > 0).reshape(()), x[0, n], 0)",
    ),
    "an integer": (
        "PG202",
        "if {} < 3:\n    x = x * 2\nreturn x",
        "int((x > 0).sum())",
        "x = torch.where(((x > 0).sum() < 3).reshape(()), x * 2, x)",
    ),
    "a truncated number": (
        "PG202",
        "if {} == 0:\n    x = x * 2\nreturn x",
        "int(x.mean().item())",
        "x = torch.where((x.mean().long() == 0).reshape(()), x * 2, x)",
    ),
    "a draw": (
        "PG201",
        "if {} > 0.5:\n    x = -x\nreturn x",
        "torch.rand(1).item()",
        "x = torch.where((torch.rand(1) > 0.5).reshape(()), -x, x)",
    ),
    "one more dimension": (
        "PG301",
        "y = y[:, 0]\nif {}:\n    x = x * y.unsqueeze(-1)\nreturn x",
        "(y > 0).any()",
        "x = torch.where((y > 0).any(), x * y.unsqueeze(-1), x)",
    ),
    "zeros of the shape": (
        "PG301",
        "if {}:\n    x = torch.where(y > 1, x, torch.zeros(x.shape, device=x.device))\nreturn x",
        "(y > 1).sum() != 0",
        "torch.where(y > 1, x, torch.zeros(x.shape, device=x.device))",
    ),
    "a limit": (
        "PG301",
        "if {}:\n    x = x.masked_fill(y > 1, torch.finfo(x.dtype).min)\nreturn x",
        "(y > 1).any()",
        "torch.where((y > 1).any(), x.masked_fill(y > 1, torch.finfo(x.dtype).min), x)",
    ),
    "without dimensions": (
        "PG301",
        "if {}:\n    return torch.tensor(0.0)\nreturn torch.sum(y.view(-1) * x.reshape(-1))",
        "torch.sum(y.view(-1)) == 0",
        "torch.sum(y.view(-1) * x.reshape(-1))",
    ),
    "a warning": (
        "PG301",
        "if {}:\n    rank_zero_warn('none')\n    x = torch.ones_like(x)\nreturn x",
        "(y == 0).all()",
        "x = torch.where(chosen, torch.ones_like(x), x)",
    ),
}


@pytest.mark.parametrize("name", ARMS)
def test_arms_that_select(name: str) -> None:
    code, body, asked, expected = ARMS[name]
    fix, after = offer(_module(body.format(f"«{asked}»")), code)
    assert fix is not None and (fix.rewrite, fix.applicability) == ("tensor_branch", "unsafe"), fix
    assert expected in after
    old, new = (module_of(text).forward for text in (_module(body.format(asked)), after))
    for values in ([[1.0, -2.0], [3.0, 0.5]], [[-1.0, -1.0], [0.0, -0.5]]):
        x = torch.tensor(values, requires_grad=True)
        for y in (x.detach() + 1, torch.zeros(2, 2)):
            before, now = run(old, (x, y)), run(new, (x, y))
            now.gradients = now.gradients if before.gradients else []
            assert_near(before, now)
    assert breaks(old, (x, y)) > breaks(new, (x, y)) == 0


OTHERS = {
    "a view in place of the tensor": "if {}:\n    x = x.unsqueeze(0)\nreturn x",
    "a view that may not be there": "if {}:\n    x = x * y.view(-1)\nreturn x",
    "a mask": "x = x * 1\nif {}:\n    x[y > 0] = 0\nreturn x",
    "an element that is needed for gradients": (
        "x = x * 1\nif {}:\n    x[0, n] = x[0, n] * y.sum()\nreturn x"
    ),
    "a place that the arm moves": "x = x * 1\nif {}:\n    n = n - 1\n    x[n] = 0.0\nreturn x",
    "another element": "x = x * 1\nif {}:\n    x[0] = x[n]\nreturn x",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arms_stay(name: str) -> None:
    fix, _ = offer(_module(OTHERS[name].format("«(x > 0).any()»")), "PG301")
    assert fix is None or fix.rewrite != "tensor_branch" or fix.applicability == "declined", fix


def test_the_truth_of_a_truncated_number_is_not_that_of_the_tensor() -> None:
    fix, _ = offer(_module("if «int(x.mean())»:\n    x = x * 2\nreturn x"), "PG202")
    assert fix is None or fix.applicability == "declined", fix
    fix, _ = offer(_module("if «int((x > 0).sum())»:\n    x = x * 2\nreturn x"), "PG202")
    assert fix is not None and fix.applicability == "unsafe", fix


def test_a_second_draw_is_not_made_where_none_was() -> None:
    test = "«torch.rand(1).item()» > 0.5 and torch.rand(1).item() > 0.5"
    fix, _ = offer(_module(f"if {test}:\n    x = -x\nreturn x"), "PG201")
    assert fix is None or fix.applicability == "declined", fix


MAY_BE_NUMBERS = {
    "selected": ("PG301", "if «low > 3»:\n    x = x * 2\nreturn x"),
    "computed before": ("PG301", "low = low * 2\nif «low > 3»:\n    low = low - 1\nreturn low"),
    "raised": ("PG303", "if «low > 9»:\n    raise ValueError('large')\nreturn x"),
}


@pytest.mark.parametrize("name", MAY_BE_NUMBERS)
def test_what_may_be_a_number_is_not_asked_as_a_tensor(name: str) -> None:
    code, body = MAY_BE_NUMBERS[name]
    text = _module(body).replace("x: torch.Tensor, y", "low: float | torch.Tensor, x")
    _, after = offer(text, code)
    assert "torch.where" not in after and "_assert_async" not in after
    _, after = offer(text.replace("float | torch.Tensor", "torch.Tensor"), code)
    assert "torch.where" in after or "_assert_async" in after


@pytest.mark.parametrize(
    "body",
    [
        "    done = x > 0\n    if «done[i]»:\n        done[i] = False\n        x = x * 2\n",
        "    f = x.sum() > 0\n    if «f»:\n        f[()] = False\n        x = x * 2\n",
        "    if «x[0].sum() > 0»:\n        y = x[0]\n    else:\n        y = x\n    x = y\n",
        "    y = x\n    if «x.sum() > 0»:\n        y = x.unsqueeze(-1) + x\n    x = y\n",
    ],
)
def test_arms_that_change_the_condition_or_surely_have_another_shape(body: str) -> None:
    text = f"import torch\n\ndef forward(x: torch.Tensor, i: int):\n{body}    return x\n"
    fix, _ = offer(text, "PG301")
    assert fix is None or fix.rewrite != "tensor_branch" or fix.applicability == "declined"


def test_a_name_with_a_warning_inside_is_no_message() -> None:
    arm = "        {}(x)\n        x = x * 2\n"
    for name, kind in (("rank_zero_warn", "unsafe"), ("maybe_warn_update", "declined")):
        body = f"    if «x.sum() > 0»:\n{arm.format(name)}    return x\n"
        fix, _ = offer(f"import torch\n\ndef forward(x: torch.Tensor):\n{body}", "PG301")
        assert fix is not None and fix.applicability == kind, name


def test_statements_of_an_arm_that_share_its_line_get_lines_of_their_own() -> None:
    body = "    if «x.sum() > 1»: x = x / 2; y = y * 0\n    return x, y\n"
    text = f"import torch\n\ndef forward(x: torch.Tensor, y: torch.Tensor):\n{body}"
    fix, after = offer(text, "PG301")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert ";" not in after


def test_what_int_raises_for_is_said() -> None:
    body = "    if «int(x.sum())» == 3:\n        x = x + 1\n    return x\n"
    fix, _ = offer(f"import torch\n\ndef forward(x: torch.Tensor):\n{body}", "PG202")
    assert fix is not None and "nan and inf no longer raise" in fix.reason
    counted = body.replace("x.sum()", "(x > 0).sum()")
    fix, _ = offer(f"import torch\n\ndef forward(x: torch.Tensor):\n{counted}", "PG202")
    assert fix is not None and "no longer raise" not in fix.reason


def test_a_draw_that_chooses_between_values() -> None:
    body = "    return x if «torch.rand([]) < p» else -x\n"
    text = f"import torch\n\ndef forward(x: torch.Tensor, p: float):\n{body}"
    fix, after = offer(text, "PG306")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert "return torch.where(torch.rand([]) < p, x, -x)" in after
    old, new = (module_of(each).forward for each in (text.replace("«", "").replace("»", ""), after))
    for p in (0.2, 0.8):
        assert_near(run(old, (torch.ones(2), p)), run(new, (torch.ones(2), p)))
    assert breaks(old, (torch.ones(2), 0.5)) > breaks(new, (torch.ones(2), 0.5)) == 0


def test_what_may_have_been_a_number_is_said() -> None:
    body = "    total = 0.0\n    for row in x:\n        if «row.sum() > 0»:\n"
    body += "            total = total + row.sum()\n    return total\n"
    fix, _ = offer(f"import torch\n\ndef forward(x: torch.Tensor):\n{body}", "PG301")
    assert fix is not None and "what was a number is a tensor" in fix.reason


def test_a_bound_that_half_precision_may_not_hold_is_said() -> None:
    body = "    if «torch.isinf(x).any()»:\n        x = x.clamp({})\n    return x\n"
    for given, told in (("-9.0, 9.0", False), ("-most, most", True)):
        head = "import torch\n\ndef forward(x: torch.Tensor, most: float):\n"
        fix, _ = offer(head + body.format(given), "PG301")
        assert fix is not None and fix.applicability == "unsafe", fix
        assert ("can always be computed" in fix.reason) == told


COUNTS = """import torch

def forward(x: torch.Tensor):
    seen, hits = [], 0
    for row in x:
        if «row.sum() > 0»:
            hits += 1
        seen.append(hits)
        MORE
    return seen
"""


def test_a_number_that_becomes_a_tensor_is_not_changed_in_place() -> None:
    text = COUNTS.replace("        MORE\n", "")
    fix, after = offer(text, "PG301")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert "        hits = hits + torch.where(row.sum() > 0, 1, 0)\n" in after
    x = torch.tensor([[1.0], [2.0], [-1.0]])
    assert list(map(int, module_of(after).forward(x))) == [1, 2, 2]


@pytest.mark.parametrize("more", ["hits /= 2", "hits += row[0]"])
def test_a_number_that_is_changed_elsewhere_stays_one(more: str) -> None:
    """`/=` and `+=` of a tensor of whole numbers raise, and change it for all that hold it."""
    fix, _ = offer(COUNTS.replace("MORE", more), "PG301")
    assert fix is None or fix.rewrite != "tensor_branch" or fix.applicability == "declined"


def test_arms_that_may_raise_by_dtype_stay_and_by_dimension_are_said() -> None:
    head = "import torch\n\ndef forward(x: torch.Tensor, y: torch.Tensor):\n"
    text = head + "    if «x.sum() > 0»:\n        x = {}\n"
    for value, expected in (
        ("x << 1", "declined"),
        ("x ** -1", "declined"),
        ("x ** 2", "unsafe"),
        ("x.to('cuda')", "declined"),
        ("x + y.to(x.device)", "can always be computed"),
        ("torch.softmax(x, 1)", "can always be computed"),
    ):
        fix, _ = offer(f"{text.format(value)}    return x\n", "PG301")
        assert fix is not None
        assert (fix.applicability == "declined") == (expected == "declined"), value
        assert ("can always be computed" in fix.reason) == (expected == "can always be computed")


@pytest.mark.parametrize(
    ("test", "kind", "told"),
    [
        ("«bad.any()» and x[1] > 2", "unsafe", True),
        ("«bad.any()» and given['half']", "unsafe", True),
        ("given['half'] and «bad.any()»", "unsafe", False),
        ("«bad.any()» and self.training", "unsafe", False),
        ("«bad.any()» and given.pop('half')", "declined", False),
    ],
)
@pytest.mark.parametrize("arm", ["x = x * 2", "x[bad] = 0"])
def test_what_a_condition_asks_last_is_asked_in_any_case(
    test: str, kind: str, told: bool, arm: str
) -> None:
    head = "import torch\n\ndef forward(self, x: torch.Tensor, given: dict):\n    bad = x > 1\n"
    fix, _ = offer(f"{head}    if {test}:\n        {arm}\n    return x\n", "PG301")
    declined = fix is None or fix.rewrite not in ("tensor_branch", "mask_guard")
    assert (kind if declined else fix.applicability) == kind
    if not declined and "x[1]" not in test:
        assert ("in any case, and may raise" in fix.reason) == told


def test_a_check_that_asks_for_more_behind_a_tensor_stays_one() -> None:
    text = "import torch\n\ndef forward(x: torch.Tensor, given: dict):\n    if «(x < 0).any()»{}:\n"
    text += "        raise ValueError('low')\n    return x\n"
    for more, asks in ((" and given['strict']", True), (" and given.pop('a')", True), ("", False)):
        _, after = offer(text.format(more), "PG303")
        assert ("_assert_async" in after) != asks


def test_a_mask_is_not_kept_where_asking_for_it_has_an_effect() -> None:
    text = "import torch\n\ndef forward(mask: torch.Tensor, left: list):\n    if {}:\n"
    text += "        mask = None\n    return mask\n"
    for more, kind in (("left.pop()", "declined"), ("left", "unsafe")):
        fix, _ = offer(text.format(f"{more} and «mask.all()»"), "PG301")
        found = fix is not None and fix.rewrite == "mask_unless_full" and fix.applicability
        assert (found or "declined") == kind


def test_a_sum_of_tensors_is_added_to_as_before() -> None:
    text = COUNTS.replace("hits += 1", "hits += row.sum()").replace("MORE", "hits += row[0]")
    fix, after = offer(text, "PG301")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert "        hits += torch.where(row.sum() > 0, row.sum(), 0)\n" in after


def test_a_check_keeps_its_comments() -> None:
    text = "import torch\n\ndef forward(x: torch.Tensor, n=None):\n    if {}:{}\n        # why\n"
    text += "        raise ValueError('low')  # behind\n    return x\n"
    _, after = offer(text.format("n and «(x < 0).any()»", "  # head"), "PG303")
    assert [each in after for each in ("_assert_async", "# head", "# why", "# behind")] == [
        True
    ] * 4
    beside = "(\n        n  # first\n        and «x.min() < 0»  # second\n    )"
    _, after = offer(text.format(beside, ""), "PG303")
    assert "_assert_async" not in after and "not torch.compiler.is_compiling()\n" in after
    assert [after.count(each) for each in ("# first", "# second", "# why", "# behind")] == [1] * 4


DIVIDED = {
    "a choice": "    mean = 0 if «kept.sum() == 0» else total / kept.sum()\n    return x + mean\n",
    "returned": (
        "    if «kept.sum() == 0»:\n        return total * 0\n    return total / kept.sum()\n"
    ),
    "a name that is changed": (
        "    if «kept.sum() > 0»:\n        total = total / kept.sum()\n    return total\n"
    ),
    "a name of the arm": (
        "    if «kept.sum() > 0»:\n        mean = total / kept.sum()\n        total = mean * 2\n"
        "    return total\n"
    ),
    "a root": (
        "    if «kept.sum() > 0»:\n        total = total + kept.sum().sqrt()\n    return total\n"
    ),
    "a power": (
        "    if «kept.sum() > 0»:\n        total = total + torch.pow(kept.sum(), 0.5)\n"
        "    return total\n"
    ),
    "in an update": "    if «kept.sum() > 0»:\n        total += 1 / kept.sum()\n    return total\n",
}
OF_KEPT = (
    "import torch\n\n\ndef forward(x: torch.Tensor, kept: torch.Tensor):\n"
    "    total = (x * kept).sum()\n"
)


@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("kept", [(0.0, 0.0), (1.0, 0.0)])
def test_a_division_that_is_not_chosen_gives_no_nan(name: str, kept: tuple[float, ...]) -> None:
    text = OF_KEPT + DIVIDED[name]
    fix, after = offer(text, "PG301")
    assert fix is not None and "torch.where(chosen, " in after
    found = []
    for each in (marked(text)[0], after):
        x, of = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor(kept, requires_grad=True)
        result = module_of(each).forward(x, of)
        grads = torch.autograd.grad(result.sum(), (x, of), materialize_grads=True)
        found.append([result.detach(), *grads])
    assert all(torch.equal(old, new) for old, new in zip(*found, strict=True))
    assert all(each.isfinite().all() for each in found[1])


def test_a_division_in_the_middle_of_an_expression_stays() -> None:
    text = OF_KEPT + "    return abs(total / kept.sum() if «kept.sum() > 0» else total)\n"
    decline(text, "PG301", "divide by zero")


@pytest.mark.parametrize(
    ("root", "after"),
    [
        ("th.sqrt(total)", "th.sqrt(torch.where(chosen, total, 1))"),
        ("torch.pow(total, -0.5)", "torch.pow(torch.where(chosen, total, 1), -0.5)"),
        ("total.sqrt()", "torch.where(chosen, total, 1).sqrt()"),
    ],
)
def test_the_operand_of_a_root_is_no_module(root: str, after: str) -> None:
    text = OF_KEPT.replace("import torch\n", "import torch\nimport torch as th\n", 1)
    text += f"    if «kept.sum() > 0»:\n        total = {root}\n    return total\n"
    fix, fixed = offer(text, "PG301")
    assert fix is not None and fix.applicability == "unsafe"
    assert after in fixed.replace("th.where", "torch.where")
