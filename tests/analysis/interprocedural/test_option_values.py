"""Options: what users may choose, and usual use does not."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.link import Project
from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, kinds, project

HEAD = "import torch\nfrom functools import partial\nfrom torch import nn\n"
MODEL = (
    HEAD
    + """
class Block(nn.Module):
    def __init__(self, width, flag: bool = False, kind="a", norm=None):
        super().__init__()
        self.width = width
        self.flag = flag
        self.kind = kind
        self.norm = norm

    def forward(self, x: torch.Tensor):
        {}
        return x

    def read(self, x):
        return x.sum().item()
"""
)
WITH = MODEL.format("if self.flag: x.tolist()")
OUTER = """
class Net(nn.Module):
    def __init__(self, flag: bool = False):
        super().__init__()
        self.block = Block(3, {})
"""


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("if self.flag: x.tolist()", False),
        ("if not self.flag: x.tolist()", True),
        ("if self.flag is True and self.training: x.tolist()", False),
        ("if self.kind == 'b': x.tolist()", False),
        ("if self.kind in ('a', 'b'): x.tolist()", True),
        ("if self.norm is not None: x.tolist()", False),
        ("if self.norm is None: x.tolist()", True),
        ("if self.width == 3: x.tolist()", True),
        ("if self.flag > 0: x.tolist()", False),
        ("if self.training and self.flag > 0.0: x.tolist()", False),
        ("if self.flag > 1: x.tolist()", False),
        ("if self.flag >= 0: x.tolist()", True),
        ("if self.flag <= 0: x.tolist()", True),
        ("if self.flag < 1: x.tolist()", True),
        ("if not self.flag > 0: x.tolist()", True),
        ("if self.width > 0: x.tolist()", True),
        ("y = self.read(x) if self.flag else x", False),
        ("y = x if self.flag else self.read(x)", True),
    ],
)
def test_what_only_an_option_leads_to_that_nothing_sets_is_not_reported(
    statement: str, reported: bool
) -> None:
    source = MODEL.format(statement)
    assert bool(kinds(source)) is reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert confirmed(linked, facts["m"])  # all that users may choose


@pytest.mark.parametrize(
    ("more", "reported"),
    [
        ("def make(): return Block(3)", False),
        ("def make(): return Block(3, False)", False),
        ("def make(): return Block(3, True)", True),
        ("def make(): return Block(3, flag=True)", True),
        ("def make(flag): return Block(3, flag)", True),
        ("def make(flag=False): return Block(3, flag)", False),
        ("def make(flag=False): return Block(3, flag)\ndef use(): return make(True)", True),
        ("def make(config): return Block(3, config.flag)", False),
        ("def make(config): return Block(3, flag=config['flag'])", False),
        ("def make(config): return Block(3, config.get('flag', False))", False),
        ("def make(config): return Block(3, config.get('flag', True))", True),
        ("def make(config): return Block(3, config.causal)", True),
        ("def make(x): return Block(3, len(x) > 3)", True),
        ("def make(config): return Block(**config)", False),
        ("def make(values): return Block(*values)", True),
        ("def make(**kw): return Block(3, **kw)\ndef use(): return make(flag=True)", True),
        ("def make(): return partial(Block, flag=True)", True),
        ("class Own(Block):\n    def __init__(self): super().__init__(3, flag=True)", True),
        ("class Own(Block):\n    def __init__(self): super().__init__(3)", False),
        (
            "class Own(Block):\n    def __init__(self):\n        super().__init__(3)\n"
            "        self.flag = True",
            True,
        ),
        ("class Own(Block):\n    flag = True", True),
        ("def turn_on(model): model.flag = True", True),
        (OUTER.format("flag"), False),
        (OUTER.format("flag=flag") + "\ndef use(): return Net(flag=True)", True),
    ],
)
def test_an_option_is_what_constructions_pass(more: str, reported: bool) -> None:
    assert bool(kinds(WITH + more)) is reported


def test_what_tests_choose_is_not_usual() -> None:
    test = "from m import Block\n\ndef test_block(): Block(3, flag=True)\n"
    linked, facts = project(m=WITH, tests__test_m=test)
    assert not confirmed(linked, facts["m"])
    linked, facts = project(m=WITH, tools=test)
    assert confirmed(linked, facts["m"])


@pytest.mark.parametrize("name", ["device", "use_cuda", "accelerator", "is_distributed"])
def test_where_a_program_runs_is_no_option(name: str) -> None:
    assert kinds(WITH.replace("flag", name)) == ["sync.tolist"]


@pytest.mark.parametrize(
    ("keeps", "passes", "reported"),
    [
        ("self.flag = flag", "self.flag", False),
        ("self.other = flag", "self.other", False),
        ("self.flag = flag or self.kind", "self.flag", True),
        ("self.flag = flag; self.flag = True", "self.flag", True),
        ("self.kind, self.flag = 1, flag", "self.flag", False),
        ("self.kind, self.flag = 1, True", "self.flag", True),
    ],
)
def test_an_option_that_an_object_keeps_and_passes_on(
    keeps: str, passes: str, reported: bool
) -> None:
    whole = (
        "\nclass Net(nn.Module):\n    kind = True\n    def __init__(self, flag: bool = False):\n"
        f"        super().__init__()\n        {keeps}\n"
        f"        self.block = Block(3, flag={passes})\n"
    )
    assert bool(kinds(WITH + whole)) is reported


LOOP = """
class Trainer:
    def __init__(self, model, flag: bool = False, kind: str = "a"):
        self.model = model
        self.flag = flag
        self.kind = kind

    def train(self, loader, optimizer):
        for x in loader:
            loss = self.model(x).sum()
            loss.backward()
            optimizer.step()
            {}
"""


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("if self.flag: print(loss.item())", False),
        ("if self.kind == 'b': print(loss.item())", False),
        ("if not self.flag: print(loss.item())", True),
        ("if self.kind == 'a': print(loss.item())", True),
        ("if self.model.flag: print(loss.item())", True),
    ],
)
def test_an_option_of_a_trainer_that_nothing_sets(statement: str, reported: bool) -> None:
    linked, facts = project(m=HEAD + LOOP.format(statement))
    assert bool(list(linked.loop_events(facts["m"]))) is reported


def test_options_of_a_forward_are_what_the_project_passes() -> None:
    source = HEAD + (
        "class M(nn.Module):\n    def forward(self, x, mask=None, loud=False):\n"
        "        if loud: x.tolist()\n        if mask is not None: x[mask > 0]\n"
        "        return x.sum(-1)\n"
    )
    assert kinds(source) == ["shape.mask-read"]
    called = source + (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.m = M()\n    def forward(self, x):\n        return self.m({})\n"
    )
    assert kinds(called.format("x")) == []
    assert kinds(called.format("x, loud=True")) == ["sync.tolist"]
    assert kinds(called.format("x, x > 0")) == ["shape.mask-read"]


@pytest.mark.parametrize(
    ("test", "reported"), [("exists(self.norm)", False), ("not exists(self.norm)", True)]
)
def test_a_function_that_asks_for_none(test: str, reported: bool) -> None:
    exists = "def exists(value):\n    return value is not None\n"
    assert bool(kinds(exists + MODEL.format(f"if {test}: x.tolist()"))) is reported


def test_an_option_that_is_handed_on_to_a_function() -> None:
    source = HEAD + (
        "def flat(x, ignore=None):\n    if ignore is None: return x\n    return x[x != ignore]\n"
        "class Loss(nn.Module):\n    def __init__(self, ignore=None):\n"
        "        super().__init__()\n        self.ignore = ignore\n"
        "    def forward(self, x: torch.Tensor):\n        return flat(x, ignore=self.ignore)\n"
    )
    assert kinds(source) == []
    assert kinds(source + "def make(): return Loss(255)\n") == ["shape.mask-read"]


def test_an_attribute_that_moves_stays_an_option() -> None:
    source = MODEL.format("if self.norm is not None: self.norm = self.norm.to(x)")
    more = "\n    def other(self, x):\n        if self.norm is not None: return x.tolist()\n"
    source = source.replace("return x\n", "return self.other(x)\n", 1) + more
    assert kinds(source) == []
    made = "\ndef make(): return Block(3, norm=torch.ones(3))"
    assert kinds(source + made) == ["sync.tolist"]


def test_an_option_of_a_part() -> None:
    whole = (
        "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.block = Block(3{})\n    def forward(self, x: torch.Tensor):\n"
        "        if self.block.flag: x.tolist()\n        return x\n"
    )
    assert kinds(MODEL.format("pass") + whole.format("")) == []
    assert kinds(MODEL.format("pass") + whole.format(", flag=True")) == ["sync.tolist"]


SETTINGS = {
    "a constructor": "class Settings:\n    def __init__(self, flag=False): self.flag = flag\n",
    "a field": "@dataclass\nclass Settings:\n    flag: bool = False\n",
    "a default": "@dataclass\nclass Settings:\n    flag: bool = field(default=False)\n",
}


SETTINGS = """
import torch
from dataclasses import dataclass
from m import exists

@dataclass
class Inputs:
    x: torch.Tensor
    label: torch.Tensor | None = None

class Net(torch.nn.Module):
    def forward(self, inputs: Inputs):
        label, x = None, inputs.x
        {}
        return x

    def loss(self, x):
        return x.sum().item()
"""


def _every(files: dict[str, str]) -> tuple[Project, ModuleFacts]:
    linked, facts = project(RegionOptions(every=True), **files)
    return linked, facts["net"]
