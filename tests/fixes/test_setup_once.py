"""What is set up once leaves the compiled code: run and compared, hooks included."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.support import decline, expect, marked, offer

HEAD = """
    import threading

    import torch

    _LOCK = threading.Lock()
    """

BODY = """

    def put(module: torch.nn.Module) -> None:
        «module.register_forward_hook»(lambda module, given, output: output * 2)


    def put_all(module, known=()):
        for child in module.children():
            put_all(child)
        put(module)
        setattr(module, "prepared", True)


    def prepare(module: "torch.nn.Module") -> None:
        '''Doubles what each module returns, from its next call on.'''
        # not again
        if getattr(module, "prepared", False):
            return

        # one thread
        with «_LOCK»:
            if getattr(module, "prepared", False):
                return
            put_all(module)
    """

MODEL = """

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)
            torch.nn.init.ones_(self.inner.weight)
            torch.nn.init.zeros_(self.inner.bias)

        def forward(self, x):
            x = x.relu()
            prepare(self)
            return self.inner(x)
    """

WITH_TORCH = HEAD + BODY + MODEL
AFTER = WITH_TORCH.replace(
    "        # one thread",
    """        _prepare(module)


    @torch.compiler.disable
    def _prepare(module: 'torch.nn.Module') -> None:
        # one thread""",
)
#: A file that only needs torch when it is given a module; its users import torch.
WITHOUT_TORCH = HEAD.replace("    import torch\n\n", "") + BODY.replace("torch.nn.", "torch.nn.")
WITHOUT_TORCH = WITHOUT_TORCH.replace(": torch.nn.Module", "")
WITHOUT_AFTER = WITHOUT_TORCH.replace(
    "        # one thread",
    """        import torch

        torch.compiler.disable(_prepare)(module)


    def _prepare(module: 'torch.nn.Module') -> None:
        # one thread""",
)
PAIRS = {
    "torch": (WITH_TORCH, AFTER, ""),
    "no torch": (WITHOUT_TORCH, WITHOUT_AFTER, "\n    import torch\n" + MODEL),
}


def _one(text: str, code: str) -> str:
    """The text with only the place marked that a rule reports."""
    hook, lock = "«module.register_forward_hook»", "«_LOCK»"
    return text.replace(lock, "_LOCK") if code == "PG521" else text.replace(hook, hook[1:-1])


@pytest.mark.parametrize("code", ["PG513", "PG521"])
@pytest.mark.parametrize("name", PAIRS)
def test_it_goes_into_a_function_of_its_own(name: str, code: str) -> None:
    before, after, _ = PAIRS[name]
    expect(_one(before, code), marked(after)[0], code)


@pytest.mark.parametrize("name", PAIRS)
def test_both_findings_share_the_function(name: str) -> None:
    before, after, _ = PAIRS[name]
    _, changed = offer(_one(before, "PG513"), "PG513")
    assert changed == marked(after)[0]


@pytest.mark.parametrize("name", PAIRS)
def test_hooks_act_from_the_same_call_on(name: str) -> None:
    before, after, rest = PAIRS[name]
    x = torch.tensor([[1.0, -1.0]], requires_grad=True)
    models = [module_of(marked(text + rest)[0]).Model() for text in (before, after, after)]
    calls = [models[0], models[1], compiled(models[2])]
    for _ in range(3):
        seen = [run(call, (x,)) for call in calls]
        assert seen[0].error is None
        assert_same(seen[0], seen[1])
        assert_same(seen[0], seen[2])


@pytest.mark.parametrize("name", PAIRS)
def test_fewer_breaks_then_none(name: str) -> None:
    before, after, rest = PAIRS[name]
    counts = []
    for text in (before, after):
        model = module_of(marked(text + rest)[0]).Model()
        counts.append([breaks(model, (torch.ones(1, 2),)) for _ in range(2)])
    (old, old_again), (new, new_again) = counts
    assert old > new > 0
    assert old_again == new_again == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def prepare(module:", "def prepare(other, module:"),
        ("def prepare(module:", "def prepare(*module:"),
        ("        # not again", "        print(module)"),
        ("            return\n\n", "            return None, 1\n\n"),
        ('if getattr(module, "prepared", False):\n            return\n\n', "if module:\n    "
         "        return\n\n"),
        ('if getattr(module, "prepared", False):\n            return\n\n', "if getattr(_LOCK, "
         "'prepared', False):\n            return\n\n"),
        ("        put_all(module)\n    ", "        return put_all(module)\n    "),
        ('setattr(module, "prepared", True)', 'setattr(module, "ready", True)'),
        ("put(module)\n", "put(module)\n        print(torch.ones(2))\n"),
        ("known=()", "known: torch.Tensor | None = None"),
        ("    class Model", "    _prepare = None\n\n\n    class Model"),
    ],
)  # fmt: skip
def test_other_functions_stay(old: str, new: str) -> None:
    assert old in WITH_TORCH
    decline(_one(WITH_TORCH, "PG513").replace(old, new, 1), "PG513", "")


def test_a_hook_that_another_function_leads_to_stays() -> None:
    more = "\n\n    def again(module):\n        put(module)\n    "
    text = _one(WITH_TORCH, "PG521").replace("put(module)\n", "pass\n") + more
    decline(text, "PG521", "")
