"""Branches that guard: against inf and nan, for dropping layers, around what is only said."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import DTYPES, FEW, tensors
from tests.fixes.support import decline, expect, marked, offer

FINITE = {
    "half": (
        """
        import torch

        def forward(x: torch.Tensor, y):
            x = x + y
            # clamp inf values to enable fp16 training
            if x.dtype == torch.float16 and «torch.isinf(x).any()»:
                limit = torch.finfo(x.dtype).max - 1000
                x = torch.clamp(x, min=-limit, max=limit)
            return x
        """,
        """
        import torch

        def forward(x: torch.Tensor, y):
            x = x + y
            # clamp inf values to enable fp16 training
            if x.dtype == torch.float16:
                limit = torch.finfo(x.dtype).max - 1000
                x = torch.where(torch.isinf(x).any(), torch.clamp(x, min=-limit, max=limit), x)
            return x
        """,
    ),
    "either": (
        """
        import torch

        def forward(x: torch.Tensor, y):
            x = x * y
            if (
                x.dtype in (torch.float16, torch.bfloat16)
                and «(torch.isinf(x).any() or torch.isnan(x).any())»
            ):
                x = x.clamp(-4.0, 4.0)  # both sides
            return x
        """,
        """
        import torch

        def forward(x: torch.Tensor, y):
            x = x * y
            if x.dtype in (torch.float16, torch.bfloat16):
                x = torch.where(
                    torch.logical_or(torch.isinf(x).any(), torch.isnan(x).any()),
                    x.clamp(-4.0, 4.0),
                    x,
                )  # both sides
            return x
        """,
    ),
    "norm": (
        """
        import torch
        from torch import nn

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(3)

            def forward(self, x, y):
                x = self.norm(x)
                if «not torch.isfinite(x).all()»:
                    # keep it finite

                    limit = torch.finfo(x.dtype).max - 1000
                    x = torch.clamp(x, min=-limit, max=limit)
                return x

        torch.manual_seed(0)
        forward = Layer()
        """,
        """
        import torch
        from torch import nn

        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(3)

            def forward(self, x, y):
                x = self.norm(x)
                # keep it finite

                limit = torch.finfo(x.dtype).max - 1000
                x = torch.where(
                    torch.logical_not(torch.isfinite(x).all()),
                    torch.clamp(x, min=-limit, max=limit),
                    x,
                )
                return x

        torch.manual_seed(0)
        forward = Layer()
        """,
    ),
}


@pytest.mark.parametrize("name", FINITE)
def test_a_finite_guard_becomes_a_selection(name: str) -> None:
    # Gradients, memory and hooks tell the copy from the original.
    for closed in (False, True):
        expect(*FINITE[name], "PG307", "unsafe", closed=closed)


def test_what_a_guard_says_is_said_outside_compiled_code() -> None:
    expect(
        """
        import torch

        def forward(x):
            x = x * 2
            if «torch.isnan(x).any()»:  # should not be
                # tell
                print("nan")
                x = torch.clamp(x, -4.0, 4.0)
            return x
        """,
        """
        import torch

        def forward(x):
            x = x * 2
            # should not be
            chosen = torch.isnan(x).any()
            # tell
            if not torch.compiler.is_compiling() and chosen:
                print("nan")
            x = torch.where(chosen, torch.clamp(x, -4.0, 4.0), x)
            return x
        """,
        "PG307",
        "unsafe",
    )


# The forms of two unrelated projects, found after the rewrite took `nan_to_num`.
NAN_TO_NUM = {
    "every element is asked": (
        "if not «torch.all(torch.isfinite(x))»:\n"
        "        print('clamped')\n"
        "        x = torch.nan_to_num(x, nan=0.5, posinf=2.0, neginf=-2.0)"
    ),
    "by place": (
        "if «torch.isnan(x).any()»:\n"
        "        print('nan')\n"
        "        x = torch.nan_to_num(x, 0., posinf=9.0, neginf=-9.0)"
    ),
    "a method": "if «x.isnan().any()»:\n        x = x.nan_to_num()",
}


@pytest.mark.parametrize("name", NAN_TO_NUM)
def test_a_guard_may_replace_nan(name: str) -> None:
    body = f"x = x * 2\n    {NAN_TO_NUM[name]}\n    return x\n"
    before = f"import torch\n\ndef forward(x):\n    {body}"
    fix, after = offer(before, "PG307", closed=True)
    assert fix is not None, before
    assert fix.applicability == "unsafe" if "print" in before else "safe", fix.reason
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    for value in (1.0, float("inf"), float("nan")):
        x = torch.tensor([1.0, value, -2.0], requires_grad=True)
        assert_same(run(old, (x,)), run(new, (x,)))
    assert breaks(old, (x,)) > breaks(new, (x,)) == 0


def _pair(name: str) -> tuple[object, object]:
    before, after = FINITE[name]
    old = module_of(marked(before)[0]).forward
    return old, module_of(textwrap.dedent(after)).forward


@pytest.mark.parametrize("name", FINITE)
@FEW
@given(data=st.data())
def test_finite_guards_give_the_same(name: str, data: st.DataObject) -> None:
    old, new = _pair(name)
    dtypes = [torch.float32] if name == "norm" else DTYPES
    x = data.draw(tensors(dtypes))
    y = data.draw(st.sampled_from([torch.ones((), dtype=x.dtype), torch.full((), 2).to(x.dtype)]))
    with torch.autocast("cpu", enabled=data.draw(st.booleans())):
        assert_same(run(old, (x, y)), run(new, (x, y)))
    with torch.no_grad():
        assert_same(run(old, (x, y)), run(new, (x, y)))


@pytest.mark.parametrize("name", FINITE)
def test_finite_guards_do_not_break_the_graph(name: str) -> None:
    old, new = _pair(name)
    dtype = torch.float32 if name == "norm" else torch.float16
    for value in (1.0, float("inf"), float("nan")):
        x = torch.full((2, 3), value, dtype=dtype, requires_grad=True)
        y = torch.ones((), dtype=dtype)
        assert_same(run(compiled(old), (x, y)), run(compiled(new), (x, y)))
    assert (breaks(old, (x, y)) > 0, breaks(new, (x, y))) == (True, 0)


NOT_SELECTED = [
    ("if «torch.isinf(x).any()»:\n        x = f(x)", "may raise"),
    ("if «torch.isinf(x).any()»:\n        seen += 1\n        x = x.clamp(0)", "not certainly"),
    ("if «torch.isinf(x).sum() > 1»:\n        x = x[0]", "may raise"),
]


@pytest.mark.parametrize(("body", "reason"), NOT_SELECTED)
def test_other_guards_stay(body: str, reason: str) -> None:
    decline(f"import torch\n\ndef forward(x):\n    {body}\n    return x\n", "PG307", reason)


OTHERS_LOOKED_AT = [
    "«torch.isinf(x).any()» and self.count()",
    "«torch.isinf(x).any()» and self.limits[0]",
    "«torch.isinf(x).any()» and self.limit > 3",
    "«torch.isinf(x).any()» and (seen := True)",
    "«torch.isinf(self.more(x)).any()» and self.training",
    "«(torch.isinf(x).any() or torch.isnan(self.more(x)).any())»",
]


@pytest.mark.parametrize("test", OTHERS_LOOKED_AT)
def test_what_a_condition_calls_is_called_as_before(test: str) -> None:
    body = f"    if x.dtype == torch.half and {test}:\n        x = x.clamp(-4.0, 4.0)\n"
    text = f"import torch\n\ndef forward(self, x):\n    x = x + 1\n{body}    return x\n"
    fix, _ = offer(text, "PG307")
    assert fix is not None and fix.applicability != "safe"


@pytest.mark.parametrize(
    "test", ["self.training", "x.dtype in (torch.half, torch.float)", "not (self.a or y is None)"]
)
def test_what_a_condition_only_looks_at_may_come_first(test: str) -> None:
    head = "import torch\n\ndef forward(self, x: torch.Tensor, y):\n    x = x + y\n"
    clamped = "        x = {}\n    return x\n"
    before = f"    if x.dtype == torch.half and «torch.isinf(x).any()» and {test}:\n"
    after = f"    if x.dtype == torch.half and {test}:\n"
    chosen = "torch.where(torch.isinf(x).any(), x.clamp(-4.0, 4.0), x)"
    before, after = (
        head + before + clamped.format("x.clamp(-4.0, 4.0)"),
        head + after + clamped.format(chosen),
    )
    expect(before, after, "PG307", "unsafe")


def test_a_bound_that_others_may_read_is_left_in_the_branch() -> None:
    body = "    global limit\n    if «torch.isinf(x).any()»:\n        limit = 4.0\n"
    text = f"import torch\n\ndef forward(x):\n{body}        x = x.clamp(-limit, limit)\n"
    decline(text + "    return x\n", "PG307", "not both values are known")


SKIP = """
import torch

class Model(torch.nn.Module):
    def __init__(self, layerdrop: float):
        super().__init__()
        self.layerdrop = layerdrop

    def forward(self, x):
        done = []
        for index in range(3):
            to_drop = False
            if self.training:
                dropout_probability = torch.rand([])
                if «dropout_probability < self.layerdrop»:  # skip the layer
                    to_drop = True
            draw = torch.rand([])
            skip = self.training and «(draw < self.layerdrop)»
            third = torch.rand(())
            if «self.layerdrop > third»:
                continue
            if not to_drop and (not skip or index > 5):
                x = x + index
                done.append(index)
        return x, done

def forward(x, layerdrop, training):
    return Model(layerdrop).train(training)(x)
"""
NOT_SKIPPED = (
    SKIP.replace("«(draw", "self.layerdrop > 0 and «(draw")
    .replace("«self.layer", "self.layerdrop > 0 and «self.layer")
    .replace("«dropout", "self.layerdrop > 0 and «dropout")
)


def test_layerdrop_asks_for_the_probability_first() -> None:
    expect(SKIP, marked(NOT_SKIPPED)[0], "PG306", closed=True)


def test_a_layerdrop_that_others_may_override_is_unsafe() -> None:
    expect(SKIP, marked(NOT_SKIPPED)[0], "PG306", "unsafe")


@pytest.mark.parametrize(
    "between",
    [
        "change(draw)",
        "draw.sub_(1)",
        "other = draw; other -= 1",
        "torch.sub(draw, 1, out=draw)",
        "draw.data -= 1",
        "draw -= 1",
        "change = lambda: draw.zero_()",
    ],
)
def test_a_draw_that_may_have_been_changed_is_not_skipped(between: str) -> None:
    body = f"draw = torch.rand([])\n    {between}\n    if «draw < p»:\n        x = x * 2"
    decline(f"import torch\n\ndef forward(x, p):\n    {body}\n    return x\n", "PG306", "draw")


@pytest.mark.parametrize(
    "body",
    [
        "draw = torch.rand([1], out=self.kept)\n    if «draw < p»:\n        x = x * 2",
        "global draw\n    draw = torch.rand([])\n    if «draw < p»:\n        x = x * 2",
        "draw = torch.rand([])\n    def change():\n        nonlocal draw\n        draw = x\n"
        "    change()\n    if «draw < p»:\n        x = x * 2",
    ],
)
def test_a_draw_that_others_hold_is_not_skipped(body: str) -> None:
    text = f"import torch\n\ndef forward(self, x, p):\n    {body}\n    return x\n"
    decline(text, "PG306", "draw")


@pytest.mark.parametrize(
    ("head", "target"), [("", "skip = self.last"), ("global skip", "skip"), ("", "self.last")]
)
def test_a_comparison_that_others_see_stays(head: str, target: str) -> None:
    body = f"    {head}\n    draw = torch.rand([])\n    {target} = «draw < p»\n"
    text = f"import torch\n\ndef forward(self, x, p):\n{body}    if skip:\n        return x\n"
    decline(text, "PG306", "used as a value")


def test_layerdrop_gives_the_same() -> None:
    old, new = module_of(marked(SKIP)[0]).forward, module_of(marked(NOT_SKIPPED)[0]).forward
    for layerdrop in (0.0, 0, -1.0, 0.4, 1.0, 1.5, float("nan"), None, "0.1"):
        for training in (False, True):
            arguments = (torch.ones(2), layerdrop, training)
            assert_same(run(old, arguments, seed=3), run(new, arguments, seed=3))
    arguments = (torch.ones(2), 0.0, True)
    assert_same(run(compiled(old), arguments), run(compiled(new), arguments))
    assert (breaks(old, arguments) > 0, breaks(new, arguments)) == (True, 0)


@pytest.mark.parametrize(
    "test",
    [
        "torch.rand(3) < self.layerdrop",
        "x.mean() < self.layerdrop",
        "draw <= self.layerdrop",
        "draw > self.layerdrop",
    ],
)
def test_other_comparisons_stay(test: str) -> None:
    body = f"    draw = torch.rand([])\n    if «{test}»:\n        return 1\n"
    text = f"import torch\n\ndef f(self, x):\n{body}"
    decline(text, "PG306", "not a comparison of a draw")


def test_what_is_said_goes_behind_the_guard() -> None:
    fix = expect(
        '''
        import logging

        import torch

        logger = logging.getLogger(__name__)

        def forward(x, mask=None):
            if mask is not None:
                «logger.warning("mask")»  # once
            if mask is None or x is mask:
                «print(
                    """no
            mask""",
                    x.shape,
                )»
            «logger.info("x", x.shape)»
            if x is None:
                «print(x)»
            else:
                return x
            return x
        ''',
        '''
        import logging

        import torch

        logger = logging.getLogger(__name__)

        def forward(x, mask=None):
            if not torch.compiler.is_compiling() and mask is not None:
                logger.warning("mask")  # once
            if not torch.compiler.is_compiling() and (mask is None or x is mask):
                print(
                    """no
            mask""",
                    x.shape,
                )
            if not torch.compiler.is_compiling():
                logger.info("x", x.shape)
            if x is None:
                if not torch.compiler.is_compiling():
                    print(x)
            else:
                return x
            return x
        ''',
        "PG502",
        "unsafe",
    )
    assert "no longer" in fix.reason


def test_filters_of_warnings_are_no_messages() -> None:
    text = """
        import warnings

        import torch

        def forward(x):
            with warnings.catch_warnings():
                «warnings.simplefilter("ignore")»
                warnings.warn("odd")
            return x
        """
    fix, changed = offer(text, "PG503")
    assert fix is not None and fix.reason.startswith("compiled code no longer sets what is warned")
    lines = [line.strip() for line in changed.splitlines()]
    guarded = lines.index("if not torch.compiler.is_compiling():")
    assert lines[guarded + 1 :] == ['warnings.simplefilter("ignore")', *lines[-2:]]
    assert lines[-2:] == ['warnings.warn("odd")', "return x"]


def test_what_is_said_eagerly_is_still_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = "import torch\ndef forward(x):\n    «print('seen')»\n    return x + 1\n"
    _, changed = offer(text, "PG501")
    new, x = module_of(changed).forward, torch.ones(2)
    assert_same(run(module_of(marked(text)[0]).forward, (x,)), run(new, (x,)))
    assert capsys.readouterr().out == "seen\nseen\n"
    assert breaks(new, (x,)) == 0
    assert capsys.readouterr().out == ""


def test_a_host_function_is_left_out_whole() -> None:
    before = """
        import numpy as np
        import torch


        # mask positions
        def positions(count):
            found = np.zeros(count)
            for index in range(count):
                found[index] = «np.random.normal()»
            return found

        def forward(x):
            return x + torch.as_tensor(positions(2), dtype=x.dtype)
        """
    line = "        @torch.compiler.disable\n"
    after = before.replace("        def pos", f"{line}        def pos")
    expect(before, after.replace("«", "").replace("»", ""), "PG504", "unsafe")
    old, new = module_of(marked(before)[0]).forward, module_of(marked(after)[0]).forward
    x = torch.ones(2, requires_grad=True)
    for function in (lambda it: it, compiled):
        results = []
        for forward in (old, new):
            np.random.seed(3)
            results.append(run(function(forward), (x,)))
        assert_same(*results)
    assert breaks(old, (x,)) > breaks(new, (x,)) == 1


def test_a_static_method_on_the_host_is_left_out_whole() -> None:
    before = """
        import numpy as np
        import torch


        class Plan:
            @staticmethod
            def positions(count):
                found = np.zeros(count)
                for index in range(count):
                    found[index] = «np.random.normal()»
                return found

            def run(self, x):
                return x + torch.as_tensor(self.positions(2), dtype=x.dtype)


        forward = Plan().run
        """
    line = "            @torch.compiler.disable\n"
    after = before.replace("            def pos", f"{line}            def pos")
    expect(before, after.replace("«", "").replace("»", ""), "PG504", "unsafe")
    old, new = module_of(marked(before)[0]).forward, module_of(marked(after)[0]).forward
    x = torch.ones(2, requires_grad=True)
    results = []
    for forward in (old, new):
        np.random.seed(3)
        results.append(run(forward, (x,)))
    assert_same(*results)
    assert breaks(old, (x,)) > breaks(new, (x,)) == 1
    decline(before.replace("@staticmethod", "@torch.jit.export"), "PG504", "")


@pytest.mark.parametrize(
    "made",
    ["self.register_buffer('p', torch.tensor(0.3))", "self.p = nn.Parameter(torch.tensor(0.3))"],
)
def test_a_probability_that_is_a_tensor_is_not_asked_for(made: str) -> None:
    before = (
        "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        {made}\n\n    def forward(self, x):\n"
        "        draw = torch.rand([])\n        if «draw < self.p»:\n            return x * 2\n"
        "        return x\n"
    )
    decline(before, "PG306", "the probability is a tensor")


@pytest.mark.parametrize(
    "made",
    [
        "kept = x = torch.add(a, a)",
        "x = torch.add(a, a, out=b)",
        "x = F.silu(a, inplace=True)",
        "x = +a",
        "x = torch.zeros(3, requires_grad=True)",
    ],
)
def test_a_guarded_tensor_that_others_may_hold_is_unsafe(made: str) -> None:
    text = f"""
        import torch
        import torch.nn.functional as F


        def forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            {made}
            if x.dtype == torch.float16 and «torch.isinf(x).any()»:
                x = torch.clamp(x, -5, 5)
            return x
        """
    fix, _ = offer(text, "PG307")
    assert fix is not None
    assert fix.applicability != "safe"


@pytest.mark.parametrize(
    "head",
    ['"""Docs."""; from torch import nn, tensor', "from os import path; from torch import tensor"],
)
def test_torch_is_imported_below_an_import_that_shares_its_line(head: str) -> None:
    head = f"{head}; names = [\n]\n"
    text = f"{head}\n\ndef forward(x):\n    return x * «tensor(2.0, device=x.device)»\n"
    fix, changed = offer(text, "PG104")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert changed.startswith(f"{head}import torch\n\n\ndef forward")
    old, new = (module_of(each).forward for each in (marked(text)[0], changed))
    assert_same(run(old, (torch.ones(2),)), run(new, (torch.ones(2),)))
