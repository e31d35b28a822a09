"""What code outside of regions passes to compiled functions says what their parameters are."""

from __future__ import annotations

import textwrap

import pytest

from tests.analysis.programs import confirmed, project

STEP = """
    def step(x, t):
        y = x
        if y > t:
            return x
        return -x
"""
NET = """
    class Net(torch.nn.Module):
        def forward(self, x, t):
            y = x
            if y > t:
                return x
            return -x
"""


def branches(source: str, **files: str) -> int:
    """How many branches on tensors are confirmed in all files."""
    texts = {name: "import torch\n" + textwrap.dedent(text) for name, text in files.items()}
    linked, facts = project(m="import torch\n" + textwrap.dedent(source), **texts)
    found = [event.kind for module in facts.values() for event in confirmed(linked, module)]
    return found.count("branch.if")


COMPILED = "    @torch.compile" + STEP
CALLS = {
    "a call in a function": COMPILED + "    def main():\n        step(torch.ones(3), 0.5)\n",
    "a call of the module": COMPILED + "    step(torch.ones(3), torch.rand(()))\n",
    "a keyword": COMPILED + "    step(t=0.5, x=torch.ones(3))\n",
    "through another function": COMPILED
    + "    def loop(a):\n        step(a, 0.5)\n    def main():\n        loop(torch.ones(3))\n",
    "bound again": STEP + "    step = torch.compile(step)\n    step(torch.ones(3), 0.5)\n",
    "under another name": STEP
    + "    fast = torch.compile(step, dynamic=True)\n"
    + "    def main():\n        fast(torch.ones(3), 0.5)\n",
    "a module": NET + "    model = torch.compile(Net())\n    model(torch.ones(3), 0.5)\n",
    "a module, in a function": NET
    + "    model = torch.compile(Net())\n    def main():\n        model(torch.ones(3), 0.5)\n",
    "a module of a name": NET
    + "    net = Net()\n    fast = torch.compile(net)\n"
    + "    def main():\n        fast(torch.ones(3), 0.5)\n",
    "a module that is moved": NET
    + "    def main(device):\n        model = Net().to(device).eval()\n"
    + "        fast = torch.compile(model)\n        fast(torch.ones(3), 0.5)\n",
}


@pytest.mark.parametrize("source", CALLS.values(), ids=CALLS)
def test_a_tensor_that_is_passed_is_one(source: str) -> None:
    assert branches(source) == 1


@pytest.mark.parametrize("source", CALLS.values(), ids=CALLS)
def test_numbers_that_are_passed_are_none(source: str) -> None:
    source = source.replace("torch.ones(3)", "3.0").replace("torch.rand(())", "0.5")
    assert branches(source) == 0


def test_a_module_of_another_file() -> None:
    source = """
        from net import Net
        def main(device):
            model = Net().to(device)
            model(torch.ones(3), 0.5)
    """
    assert branches(source, net=NET) == 1


def test_nothing_is_said_of_where_tensors_are() -> None:
    """A small program runs on the host; what it compiles may run on a GPU."""
    source = COMPILED + "    step(torch.ones(3), 0.5)\n"
    source = source.replace("y = x", "y = x.to('cuda')")
    linked, facts = project(m="import torch\n" + textwrap.dedent(source))
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["branch.if"]


def test_what_numpy_may_have_made_is_no_tensor() -> None:
    """Outside of regions an array has the methods of a tensor."""
    source = COMPILED + "    def loop(a):\n        step(a, a.mean())\n"
    assert branches(source) == 0


def test_a_method_of_the_class_is_not_that_of_a_module() -> None:
    source = NET.replace(
        "def forward", "def to(self, device):\n            return 3\n        def go"
    )
    source += "    def main(n):\n        Net().to(n)(torch.ones(3), 0.5)\n"
    assert branches(source) == 0
