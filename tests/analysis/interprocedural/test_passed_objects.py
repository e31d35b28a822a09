"""Values that come from afar: attributes set by name, later or at import, and what callers pass."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

HEAD = "import numpy as np\nimport torch\nfrom torch import nn\n"


def found(source: str) -> list[str]:
    """The kinds of the events of a one-file program, where every region is asked for."""
    linked, facts = project(RegionOptions((), True), m=HEAD + source)
    kinds = [event.kind for event in confirmed(linked, facts["m"])]
    return [kind for kind in kinds if not kind.startswith("effect.")]


SCHEDULER = """
class Scheduler:
    def set_steps(self, n):
        self.steps = torch.linspace(0, 1, n)
        self.levels = torch.cumsum(self.steps, 0)
    def step(self, output: torch.Tensor, t: int, sample: torch.Tensor):
        if t > 0:
            sample = sample * 2
        return sample
"""
BASE = """
class Base:
    def register(self, **parts):
        for name, part in parts.items():
            setattr(self, name, part)
"""
PIPELINE = """
import torch
from base import Base
from scheduler import Scheduler
class Pipeline(Base):
    def __init__(self, scheduler: Scheduler, net):
        self.register(scheduler=scheduler, net=net)
    def run(self, x: torch.Tensor):
        for t in STEPS:
            x = self.other.step(self.net(x), t, x)
        return x
"""


def pipeline(steps: str, base: str = BASE, source: str = PIPELINE) -> list[str]:
    """The kinds of the events of the scheduler, where a pipeline takes its steps from `steps`."""
    files = {"base": base, "scheduler": HEAD + SCHEDULER, "m": source.replace("STEPS", steps)}
    linked, facts = project(RegionOptions((), True), **files)
    events = confirmed(linked, facts["scheduler"])
    return [event.kind for event in events if event.kind.startswith("branch")]


def test_a_tensor_passed_for_a_parameter_annotated_as_a_number() -> None:
    assert pipeline("self.scheduler.steps") == ["branch.if"]


@pytest.mark.parametrize("steps", ["range(3)", "self.unknown", "[1, 2]", "self.scheduler.name"])
def test_a_number_passed_for_it(steps: str) -> None:
    assert pipeline(steps) == []


def test_an_optimizer_step_means_no_method_of_the_project() -> None:
    alone = PIPELINE.replace("self.net(x), t, x", "t")
    assert pipeline("self.scheduler.steps", source=alone) == []


def test_keywords_become_attributes_only_where_they_are_set() -> None:
    assert pipeline("self.scheduler.steps", BASE.replace("setattr(self", "print(self")) == []


def test_a_number_by_its_annotation_counts_as_one() -> None:
    source = "def f(x: torch.Tensor, n: int):\n    y = x.new_zeros(4)\n    y[n + 1] = 1\n    TEST\n"
    assert found(source.replace("TEST", "return y[:n]")) == ["sync.index-write"]
    assert found(source.replace("TEST", "return n if n > 2 else x[n * 2, n]")) == [
        "sync.index-write"
    ]


@pytest.mark.parametrize(("name", "kinds"), [("levels", ["branch.if"]), ("name", [])])
def test_an_object_that_is_passed_and_kept(name: str, kinds: list[str]) -> None:
    source = f"""
class Sampler:
    def __init__(self, scheduler):
        self.scheduler = scheduler
    def run(self, x: torch.Tensor):
        if self.scheduler.{name}[0] > 0:
            x = -x
        return x
def sample(x: torch.Tensor):
    return Sampler(Scheduler()).run(x)
"""
    assert found(SCHEDULER + source) == kinds


LATER = """
class Solver:
    def __init__(self, y):
        self.last = START
    def solve(self, t: torch.Tensor):
        if self.last is None or self.last != 2:
            t = t * 2
        self.last = NEXT
        return t
"""


@pytest.mark.parametrize("start", ["None", "-1"])
@pytest.mark.parametrize(("after", "kinds"), [("t", ["branch.if"]), ("self.last + 1", [])])
def test_an_attribute_that_is_set_later(start: str, after: str, kinds: list[str]) -> None:
    assert found(LATER.replace("START", start).replace("NEXT", after)) == kinds


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("[torch.tensor([i]) for i in range(3)]", ["host.moved"]),
        ("[torch.ones(3), torch.zeros(2)]", ["host.moved"]),
        ("[torch.ones(3).exp() / 2]", ["host.moved"]),
        ("[1.0, 2.0]", []),
        ("[torch.ones(3).tolist()]", []),
        ("[torch.ones(3, device=DEVICE)]", []),
    ],
)
def test_a_list_of_tensors_made_at_import(value: str, kinds: list[str]) -> None:
    source = "TABLE = " + value
    source += "\ndef f(x: torch.Tensor):\n    return [each.to(x.device) for each in TABLE]\n"
    assert found(source) == kinds


def test_a_class_attribute_made_at_import() -> None:
    source = "class M(nn.Module):\n    table = torch.ones(3) * 2\n"
    source += (
        "    def forward(self, x: torch.Tensor):\n        return x + self.table.to(x.device)\n"
    )
    assert found(source) == ["host.moved"]


def test_what_a_function_from_outside_gives() -> None:
    source = "def solve(x: torch.Tensor, f):\n    if f(x) > 0:\n        x = -x\n    return x\n"
    assert found(source) == ["branch.if"]
    assert found(source + "def use(x: torch.Tensor):\n    return solve(x, lambda y: 3)\n") == []
    assert found("def ask(f, n=3):\n    if f(n):\n        return n\n") == []


def test_a_number_made_of_what_a_closure_gives() -> None:
    source = (
        "def step(p: torch.Tensor, closure):\n    loss = float(closure())\n    return loss, p\n"
    )
    assert found(source) == ["sync.number"]


def test_a_function_that_another_one_hands_out() -> None:
    source = "def make(limit):\n    def inner(x: torch.Tensor):\n        return x.item()\n    USE\n"
    assert found(source.replace("USE", "return inner")) == ["sync.item"]
    assert found(source.replace("USE", "return limit").replace("make", "load")) == []


@pytest.mark.parametrize(
    ("made", "kinds"),
    [
        ("np.tril_indices(3)[0]", ["host.index-list"]),
        ("np.arange(3)", ["host.index-list"]),
        ("np.unique([3, 1], return_index=True)[1]", ["host.index-list"]),
        ("np.prod([1, 2])", []),
        ("np.nonzero([1])[0][0]", []),
    ],
)
def test_an_index_that_numpy_made(made: str, kinds: list[str]) -> None:
    source = "def f(x: torch.Tensor):\n    i = " + made + "\n    return x[i, i]\n"
    assert found(source) == kinds


def test_type_as_moves() -> None:
    source = (
        "def f(x: torch.Tensor):\n    y = torch.ones(3)\n    y = y * 2\n    return y.type_as(x)\n"
    )
    assert found(source) == ["host.factory", "host.moved"]


def test_the_rank_of_a_quotient() -> None:
    source = "def f(x: torch.Tensor, y: torch.Tensor, n: int):\n    i = torch.div(VALUE, n)\n"
    source += "    return x[i]\n"
    assert found(source.replace("VALUE", "y.argmax()")) == ["shape.from-value"]
    assert found(source.replace("VALUE", "y")) == []


def test_a_factor_of_an_addition_in_place() -> None:
    source = "def f(x: torch.Tensor):\n    x.add_(x, alpha=VALUE)\n    return x\n"
    assert found(source.replace("VALUE", "x.sum()")) == ["sync.number"]
    assert found(source.replace("VALUE", "0.5")) == []


GENERATOR = """
import torch
class Base(torch.nn.Module):
    def __init__(self, rng: torch.Generator | None = None):
        super().__init__()
        self.rng = torch.Generator() if rng is None else rng
        self.kept: torch.Generator | None = None
"""
DRAWS = """
import torch
from base import Base
class M(Base):
    def forward(self, x: torch.Tensor, given: torch.Generator | None = None):
        own = torch.Generator().manual_seed(0)
        return x + DRAW
"""


@pytest.mark.parametrize(
    ("draw", "count"),
    [
        ("torch.rand(3, generator=self.rng)", 1),
        ("torch.randperm(3, generator=own)", 1),
        ("torch.empty_like(x).uniform_(generator=self.rng)", 1),
        ("torch.rand(3, generator=given)", 0),
        ("torch.rand(3, generator=None)", 0),
        ("torch.rand(3, generator=self.kept)", 0),
        ("torch.rand(3, generator=self.other)", 0),
        ("torch.rand(3)", 0),
    ],
)
def test_a_draw_from_a_generator(draw: str, count: int) -> None:
    linked, facts = project(base=GENERATOR, m=DRAWS.replace("DRAW", draw))
    kinds = [event.kind for event in confirmed(linked, facts["m"])]
    assert kinds.count("effect.generator") == count


@pytest.mark.parametrize(
    ("given", "count"), [("own", 1), ("self.rng", 1), ("None", 0), ("self.other", 0)]
)
@pytest.mark.parametrize("parameter", ["rng", "rng=None", "rng: torch.Generator | None = None"])
def test_a_draw_from_a_generator_that_is_passed(parameter: str, given: str, count: int) -> None:
    source = DRAWS.replace("DRAW", f"draw({given})") + "\n"
    source += f"def draw({parameter}):\n    return torch.rand(3, generator=rng)\n"
    linked, facts = project(base=GENERATOR, m=source)
    kinds = [event.kind for event in confirmed(linked, facts["m"])]
    # A parameter that may be left out mostly is.
    assert kinds.count("effect.generator") == (0 if "None" in parameter else count)


@pytest.mark.parametrize(("method", "kinds"), [("get_length", []), ("argmax", ["branch.if"])])
def test_a_method_that_no_tensor_has(method: str, kinds: list[str]) -> None:
    source = f"def f(x: torch.Tensor, cache: torch.Tensor):\n    if cache.{method}() == 0:\n"
    assert found(source + "        x = -x\n    return x\n") == kinds


def test_a_number_by_its_annotation_leaves_a_tensor_on_the_host() -> None:
    source = "def f(x: torch.Tensor, n: int):\n    y = torch.arange(4)\n    y = y * n + 1\n"
    assert found(source + "    return x[:, None] + y.to(x.device)\n") == [
        "host.factory",
        "host.moved",
    ]


@pytest.mark.parametrize(("use", "form"), [(".item()", None), (".sum()", "array"), ("", "array")])
def test_the_value_of_an_array_that_is_drawn(use: str, form: str | None) -> None:
    source = f"def f(x: torch.Tensor):\n    return x * np.random.rand(1){use}\n"
    linked, facts = project(RegionOptions((), True), m=HEAD + source)
    assert [event.note("form") for event in confirmed(linked, facts["m"])] == [form]


def test_a_product_with_a_tensor_is_one() -> None:
    source = (
        "def f(x: torch.Tensor, steps: list):\n    a = steps[0].dot(GIVEN)\n"
        "    return x.add_(x, alpha=a)\n"
    )
    assert found(source.replace("GIVEN", "x.neg()")) == ["sync.number"]
    assert found(source.replace("GIVEN", "3")) == []
