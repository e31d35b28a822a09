"""Rewrites around a region: set-up methods, backend flags, draws of Python, manual capture."""

from __future__ import annotations

import random
import textwrap

import pytest
import torch

from tests.fixes.equivalence import breaks, module_of
from tests.fixes.support import decline, expect, marked, offer

SETUP = """
    import torch
    from torch import nn


    class Full(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layer = «nn.Linear(size, size)»

        def forward(self, x):
            return self.layer(x)


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()
            self.kind = "sparse"

        def set_kind(self, kind: str):
            if kind == self.kind:
                return
            self.kind = kind
            torch.manual_seed(0)
            self.inner = Full(3)

        def forward(self, x):
            return self.inner(x)


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.kind = "sparse"

        # which attention to use
        def set_kind(self, kind: str):
            self.kind = kind
            for layer in self.layers:
                layer.set_kind(kind)

        def forward(self, x):
            if x.shape[0] < 4:
                self.set_kind("full")
            for layer in self.layers:
                x = layer(x)
            return x
    """


def _without_seed(text: str) -> str:
    return text.replace("            torch.manual_seed(0)\n", "")


def test_a_constructor_that_is_compiled_alone_is_left_out() -> None:
    before = _without_seed(SETUP)
    after = before.replace("«", "").replace("»", "")
    head = "        def __init__(self, size):\n"
    after = after.replace(head, f"        @torch.compiler.disable\n{head}")
    expect(before, after, "PG511", "unsafe", closed=True)
    old = module_of(textwrap.dedent(marked(before)[0])).Model
    new = module_of(textwrap.dedent(after)).Model
    x = torch.ones(2, 3)
    torch.manual_seed(0)
    expected = old()(x)
    torch.manual_seed(0)
    assert torch.equal(new()(x), expected)
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.compile(new(), backend="eager")
    assert torch.equal(model(x), expected)
    assert torch.equal(model(x), expected)
    assert breaks(new(), (x,)) < breaks(old(), (x,))


def test_layers_made_in_forward_itself_stay() -> None:
    text = """
        import torch
        from torch import nn


        class Model(nn.Module):
            def forward(self, x):
                return «nn.Linear(3, 3)»(x)
        """
    decline(text, "PG511", "")


def test_flags_are_set_outside_compiled_code_only() -> None:
    before = """
        from __future__ import annotations

        import torch


        def forward(x):
            with torch.no_grad(), «torch.backends.cudnn.flags(enabled=False)»:
                return x.sin()
        """
    after = """
        from __future__ import annotations

        import contextlib
        import torch


        def forward(x):
            with torch.no_grad(), contextlib.nullcontext() if torch.compiler.is_compiling() else (
                torch.backends.cudnn.flags(enabled=False)
            ):
                return x.sin()
        """
    fix, changed = offer(before, "PG519")
    assert fix is not None and fix.applicability == "unsafe"
    assert "import contextlib\n\nimport torch\n" in changed
    old, new = module_of(marked(before)[0]).forward, module_of(changed).forward
    same = module_of(textwrap.dedent(after).lstrip("\n")).forward
    x = torch.ones(3)
    assert torch.equal(old(x), new(x))
    assert torch.equal(new(x), same(x))
    assert breaks(old, (x,)) > 0
    assert breaks(new, (x,)) == 0


def test_other_contexts_stay() -> None:
    text = "import torch\n\ndef f(x):\n    with «torch.device('cpu')»:\n        return x.sin()\n"
    decline(text, "PG519", "only a backend's flags")
    text = "import torch\n\ndef f(contextlib):\n    with «torch.backends.mkl.verbose(1)»:\n"
    text += "        pass\n"
    decline(text, "PG519", "means something else")


DRAW = """
    import random

    import torch


    def forward(x, p: float):
        draw = random.uniform(0, 1)
        if «draw < p»:
            return x
        return x + draw
    """


def test_a_draw_of_python_is_looked_at_only_where_it_can_matter() -> None:
    after = DRAW.replace("«draw < p»", "p > 0 and draw < p")
    expect(DRAW, after, "PG306", "unsafe")
    old = module_of(textwrap.dedent(marked(DRAW)[0])).forward
    new = module_of(textwrap.dedent(after)).forward
    x = torch.ones(2)
    for p in (-1.0, 0.0, 0.5, 1.0, float("nan")):
        for seed in range(4):
            random.seed(seed)
            expected = old(x, p)
            state = random.getstate()
            random.seed(seed)
            assert torch.equal(new(x, p), expected)
            assert random.getstate() == state
    assert breaks(old, (x, 0.0)) > 0
    assert breaks(new, (x, 0.0)) == 0


@pytest.mark.parametrize("bounds", ["0, 2", "-1, 1", "0, n", "b=1, a=0"])
def test_draws_of_other_ranges_stay(bounds: str) -> None:
    text = "import random\nimport torch\n\ndef f(x, p, n):\n"
    text += f"    return 1 if «random.uniform({bounds}) < p» else 0\n"
    fix, changed = offer(text, "PG306")
    assert fix is not None and fix.applicability == "declined"
    assert changed == marked(text)[0]


@pytest.mark.parametrize(
    ("call", "offered"), [("forces(x * 2, at=x)", False), ("forces(x * 2)", True)]
)
def test_what_a_function_of_the_project_gets_may_need_its_gradient(
    call: str, offered: bool
) -> None:
    text = "import torch\nfrom helpers import forces\n\ndef forward(x):\n"
    text += f"    «x.requires_grad_()»\n    return {call}\n"
    fix, _ = offer(text, "PG508")
    assert fix is not None
    assert (fix.applicability != "declined") is offered


@pytest.mark.parametrize("off", ["x.requires_grad = False", "x.requires_grad_(again)"])
def test_what_may_turn_gradients_off_stays(off: str) -> None:
    """Compiled code would go on recording them, and the reason says the opposite."""
    text = f"import torch\n\ndef forward(x, again):\n    «{off}»\n    return x\n"
    decline(text, "PG508", "may turn gradients off")
