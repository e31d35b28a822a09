"""Reductions under a mask, and branches that ask whether a mask selects anything."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.fixes.equivalence import assert_near, assert_same, breaks, module_of, run
from tests.fixes.support import decline, expect, marked, offer


def _module(body: str, head: str = "x: torch.Tensor, y: torch.Tensor") -> str:
    return (
        "import torch\nimport torch.nn.functional as F\n\n"
        f"def forward({head}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    )


REDUCTIONS = {
    "mean": "kept = x > 0\nreturn «x[kept]».mean()",
    "error": "kept = x > 0\nreturn («x[kept]» - y[kept]).abs().mean()",
    "torch": "kept = x > 0\nreturn torch.sum(«x[kept]» / y[kept])",
    "rows": "kept = x.mean(1) > 0\nreturn «x[kept]».mean()",
    "inverted": "missing = x < 0\nreturn «x[~missing]».pow(2).sum()",
    "none": "kept = x > 99\nreturn «x[kept]».mean()",
    "computed": "kept = x.mean(1) > 0\nreturn «F.softplus(x + y)[~kept]».sum() * 2",
    "in parentheses": "kept = x > 0\nz = 1 + «(x * y)[kept]».mean()\nreturn z",
    "another mask": "return «x[y > 2]».mean()",
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_under_a_mask(name: str) -> None:
    x = torch.tensor([[-1.0, 0.0], [0.5, -0.25], [2.0, 0.01]], requires_grad=True)
    y = torch.arange(6.0).reshape(3, 2).requires_grad_()
    before = _module(REDUCTIONS[name])
    fix, after = offer(before, "PG402")
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    assert_near(run(old, (x, y)), run(new, (x, y)))
    assert breaks(old, (x, y)) > breaks(new, (x, y)) == 0


def test_a_mask_that_may_have_fewer_dimensions_gets_a_line_of_its_own() -> None:
    before = """
        # weighed by what is kept
        out = F.mse_loss(x, y, reduction="none")
        mask = keep > 0

        out = «out[mask]».mean()
        return out * 2
        """
    after = """
        # weighed by what is kept
        out = F.mse_loss(x, y, reduction="none")
        mask = keep > 0

        selected = mask.reshape(mask.shape + (1,) * (out.dim() - mask.dim())).expand_as(out)
        out = torch.where(selected, out, 0).sum() / selected.sum()
        return out * 2
        """
    before, after = (_module(text, "x, y, keep") for text in (before, after))
    expect(before, after, "PG402", "unsafe")
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    for keep in (torch.tensor([1, 0, 1, 1]), torch.ones(4, 3), torch.zeros(4)):
        assert torch.allclose(new(x, y, keep), old(x, y, keep), equal_nan=True)
    assert breaks(new, (x, y, torch.ones(4))) == 0


@pytest.mark.parametrize(
    "body",
    (
        "return [«x[y > 0]».mean() for x in x]",
        "return «x[y > 0]».mean() if x is not None else 0",
        "return «x[y > 0]».mean(0)",
    ),
)
def test_a_masked_mean_stays(body: str) -> None:
    fix, changed = offer(_module(body), "PG402")
    assert fix is None or fix.applicability == "declined"
    assert changed == marked(_module(body))[0]


# As espnet, MONAI, speechbrain, resemble-enhance and transformers write them.
GUARDS = {
    "a number": ("PG301", "bad = x < 0\nif «bad.any()»:\n    x[bad] = -1"),
    "part of a tensor": (
        "PG301",
        "bad = x[1:] < 0\nif «bad.any()»:\n    x[1:][bad] = float('-inf')",
    ),
    "a sum": ("PG301", "bad = x < 0\nif «bad.sum()» > 0:\n    x[bad] = 2"),
    "read back": (
        "PG201",
        "bad = x < 0\nif «torch.any(bad).item()»:\n    x = x.masked_fill(bad, 0.0)",
    ),
    "not all": ("PG301", "good = x > 0\nif not «good.all()»:\n    x[~good] = -1"),
    "in place": ("PG301", "bad = x < 0\nif «bad.any()»:\n    x.masked_fill_(bad, 0.0)"),
    "said behind": ("PG301", "if «(x < 0).sum()» != 0:\n    x[x < 0] = 3\n    print('low')"),
    "a limit": (
        "PG301",
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = torch.finfo(x.dtype).max / 2",
    ),
    "a quotient": ("PG307", "if «torch.isnan(x).any()»:\n    x[torch.isnan(x)] = 1 / 4"),
    "an element of each": (
        "PG301",
        "x = x[:, None] * 2\nbad = x[:, 0] < 0\nif «bad.any()»:\n    x[bad, -1] = 2",
    ),
    "said": (
        "PG307",
        "if «x.isnan().any()»:\n    print('nan')\n"
        "    x = torch.where(x.isnan(), torch.zeros_like(x), x)",
    ),
    "a flag": (
        "PG301",
        "bad = x < 0\nif y.dim() and «bad.any()»:  # rare\n    x[bad] = 0\n    y[bad] = 1",
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_writes_under_a_mask_are_not_asked_for(name: str) -> None:
    code, body = GUARDS[name]
    before = _module(f"x = x * 1.0\ny = y * 1.0\n{body}\nreturn x, y")
    fix, after = offer(before, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    assert "# rare" in after or "# rare" not in before
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    for values in ([-1.0, float("nan"), 2.0], [1.0, 2.0, 3.0], []):
        arguments = (torch.tensor(values), torch.ones(len(values)))
        assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 0


@pytest.mark.parametrize(
    "body",
    (
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = y",
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = x[bad].max()",
        "bad = x < 0\nif «bad.any()»:\n    x[~bad] = 0",
        "bad = x < 0\nif «bad.all()»:\n    x[bad] = 0",
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = 0\nelse:\n    y = x",
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = 0\n    print(x)",
        "z = x.view(-1)\nbad = x < 0\nif «bad.any()»:\n    x[bad] = 0\n    print(z)",
        "bad = x < 0\nif «bad.any()»:\n    x[bad] = 0\n    print(f'{y.sum()}')",
        "bad = x < 0\nif «bad.any()»:\n    x = torch.where(bad, y, x)",
        "bad = x < 0\nif «bad.any()»:\n    x[bad, y] = 0",
        "bad = x < 0\nif «bad.any()»:\n    x[bad, 0] = x[bad, 1]",
    ),
)
def test_other_branches_on_a_mask_stay(body: str) -> None:
    fix, _ = offer(_module(f"{body}\nreturn x, y"), "PG301")
    assert fix is None or fix.rewrite != "mask_guard" or fix.applicability == "declined"


# What is dropped or kept, the statement or expression that it becomes.
MASKS = {
    "unless full": ("mask = None if «kept.all()» else kept", "mask = kept"),
    "where something is left out": ("mask = bad if «bad.any()» else None", "mask = bad"),
    "inverted": ("mask = ~bad if not «kept.all()» else None", ""),
    "read": ("mask = ~bad if «bad.any().item()» else None", "mask = ~bad"),
    "more is asked": (
        "mask = ~bad if x.dim() > 1 and «bad.any()» else None",
        "mask = ~bad if x.dim() > 1 else None",
    ),
    "either": (
        "mask = None if x.dim() > 2 or «kept.all()» else kept",
        "mask = None if x.dim() > 2 else kept",
    ),
    "none before": (
        "mask = None\nif «bad.any()»:\n    mask = ~bad",
        "mask = None\n    mask = ~bad",
    ),
    "both arms": ("if «bad.any()»:\n    mask = ~bad\nelse:\n    mask = None", "mask = ~bad"),
    "not any": (
        "if not «bad.any()»:\n    mask = None\nelse:\n    # the others\n    mask = ~bad",
        "# the others\n    mask = ~bad",
    ),
    "a mask before": ("mask = kept\nif «bad.any()»:\n    mask = ~bad", ""),
    "another": ("mask = y > 2 if «bad.any()» else None", ""),
    "one way is enough": ("mask = bad if x.dim() > 2 or «bad.any()» else None", "mask = bad"),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_kept_without_asking_whether_it_is_full(name: str) -> None:
    before, expected = MASKS[name]
    masked = "x.masked_fill(mask, 0)" if "= bad" in before else "x * mask"
    text = _module(f"bad = x < 0\nkept = ~bad\n{before}\nreturn x if mask is None else {masked}")
    fix, after = offer(text, "PG201" if "item" in before else "PG301")
    served = fix is not None and (fix.rewrite, fix.applicability) == ("mask_unless_full", "unsafe")
    assert served == bool(expected), fix
    if not expected:
        return
    assert f"    kept = ~bad\n    {expected}\n    return" in after
    old, new = (module_of(each).forward for each in (marked(text)[0], after))
    y = torch.ones(3, 2)
    for x in (torch.ones(3, 2), torch.tensor([[1.0, -1.0]])):
        torch.testing.assert_close(old(x, y), new(x, y))
    assert breaks(old, (x, y)) > breaks(new, (x, y)) == 0


@pytest.mark.parametrize("kept", ["pad > 1", "~(pad < 0)", "pad == 2"])
def test_another_mask_than_the_one_that_is_asked_stays(kept: str) -> None:
    text = f"""
        import torch

        def forward(pad: torch.Tensor):
            return None if «(pad > 0).all()» else {kept}
    """
    fix, _ = offer(text, "PG301")
    assert fix is None or fix.rewrite != "mask_unless_full" or fix.applicability == "declined"


@pytest.mark.parametrize(
    ("code", "use"),
    [
        ("PG406", "«x[kept] *= -1»\nreturn x"),
        ("PG406", "out = torch.zeros_like(x)\n«out[kept] = x[kept].exp()»\nreturn out"),
        ("PG402", "return «x[kept]».mean()"),
    ],
)
@pytest.mark.parametrize(
    "mask", ["torch.rand(x.shape[:1]) < y.p", "~(torch.rand(size=x.shape[:1]) < 0.5)"]
)
def test_a_mask_of_the_host_is_no_condition_of_torch_where(code: str, use: str, mask: str) -> None:
    """As an index it may select from a tensor of the GPU; `torch.where` would raise."""
    decline(_module(f"kept = {mask}\n{use}", "x: torch.Tensor, y"), code, "the mask is on the host")
    beside = offer(_module(f"kept = torch.rand_like(x) < 0.5\n{use}"), code)[0]
    assert beside is not None and beside.applicability == "unsafe"


@pytest.mark.parametrize(
    "mask",
    ["~torch.isnan(y)", "known & (y == y)", "y.isfinite()", "y.isnan().logical_not() & known"],
)
def test_nan_that_a_mask_leaves_out_gets_into_no_gradient(mask: str) -> None:
    """Of what is computed and not selected the gradient is zero times nan."""
    body = f"known = x > -9\nkept = {mask}\n"
    for code, use in (
        ("PG402", "return («x[kept]» - y[kept]).pow(2).mean()"),
        ("PG406", "out = torch.zeros_like(x)\n«out[kept] = x[kept] * y[kept]»\nreturn out"),
    ):
        decline(_module(body + use), code, "the mask leaves nan or inf out")
        for other in ("y > 0", "torch.isnan(y)", "~torch.isfinite(y)"):
            fix, _ = offer(_module(body.replace(mask, other) + use), code)
            assert fix is not None and fix.applicability == "unsafe"
    before = _module(f"{body}return (y[kept] - «x[kept]»).mean()")
    _, after = offer(before, "PG402")
    arguments = (torch.ones(3, requires_grad=True), torch.tensor([1.0, float("nan"), 2.0]))
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    assert_near(run(old, arguments), run(new, arguments))
    assert "torch.where" in after


def test_a_loss_gets_no_labels_chosen_by_a_mask_of_the_host() -> None:
    use = "return F.cross_entropy(«x[kept]», y[kept])"
    decline(_module(f"kept = torch.rand(y.shape) < 0.5\n{use}"), "PG402", "the mask is on the host")
    fix, _ = offer(_module(f"kept = y > 0\n{use}"), "PG402")
    assert fix is not None and fix.rewrite == "ignored_rows" and fix.applicability == "unsafe"


#: Writes, and what stands for the mask: nothing else says what shape it has.
SHAPED = {
    "of fewer dimensions": (
        "out = x.clone()\nkept = x.mean(1) > 0\n«out[kept] = x[kept] / y[kept]»",
        "selected",
    ),
    "a comparison, of fewer dimensions": (
        "out = x.clone()\n«out[x.mean(1) > 0] = x[x.mean(1) > 0] / y[x.mean(1) > 0]»",
        "selected",
    ),
    "before there were more dimensions": (
        "kept = x > 0\nx = x[..., None].expand(3, 2, 2).clone()\nout = x\n«x[kept] = x[kept] + 2»",
        "kept.reshape(kept.shape + (1,) * (x.dim() - kept.dim()))",
    ),
    "computed of it": (
        "product = x * y\nkept = (product > -1) & (y > 1)\nout = torch.zeros_like(x)\n"
        "«out[kept] = product[kept] / y[kept]»",
        "kept",
    ),
    "compared": ("out = x.clone()\nkept = ~(out > y)\n«out[kept] = out[kept] + y[kept]»", "kept"),
}


@pytest.mark.parametrize("name", SHAPED)
def test_the_shape_of_a_mask_is_asked_for_once_and_only_where_it_is_not_known(name: str) -> None:
    body, selected = SHAPED[name]
    before = _module(f"{body}\nreturn out")
    _, after = offer(before, "PG402")
    assert f"torch.where({selected}, " in after
    assert after.count("reshape") == (name not in ("computed of it", "compared"))
    x = torch.tensor([[-1.0, 0.0], [0.5, -0.25], [2.0, 0.01]])
    given = (x, torch.arange(6.0).reshape(3, 2) + 1)
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    assert_same(run(old, given), run(new, given))


def test_a_mask_computed_of_what_is_reduced_has_its_shape() -> None:
    before = "above = x > y\nreturn torch.mean(«x[~above]»)"
    after = "above = x > y\nreturn torch.where(~above, x, 0).sum() / (~above).sum()"
    expect(_module(before), _module(after), "PG402", "unsafe")


@pytest.mark.parametrize("mask", ["(x[:, 0] > 0,)", "[x[:, 0] > 0]"])
def test_a_mask_in_a_tuple_is_none(mask: str) -> None:
    body = f"    inside = {mask}\n    z = x * 2\n    «z[inside] = x[inside]»\n    return z\n"
    text = f"import torch\n\ndef forward(x: torch.Tensor):\n{body}"
    fix, _ = offer(text, "PG402")
    assert fix is not None and fix.applicability == "declined"
