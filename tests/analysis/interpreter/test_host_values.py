"""What the host has anyway: values of its own tensors, arrays, data for a loader, tests."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, kinds, project
from tests.rules.conftest import lint_text

HEAD = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


def claims(body: str) -> list[tuple[str, str, str]]:
    """Code, break and wait of each finding in a forward, without those for making a tensor."""
    lines = ["class M(nn.Module):", "    def forward(self, x: torch.Tensor):"]
    lines += [f"        {line}" for line in body.split("\n")]
    found = lint_text(HEAD + "\n".join(lines) + "\n")
    said = [(f.code, f.consequences["compile"], f.consequences["sync"]) for f in found]
    return [each for each in said if not each[0].startswith("PG1")]


def of_all(source: str) -> list[str]:
    """The kinds of the events where whatever gets tensors is asked for."""
    linked, facts = project(RegionOptions(every=True), m=source)
    return [event.kind for event in confirmed(linked, facts["m"])]


WAITS = [
    ("return torch.arange(2, x.ndim).tolist()", "PG203", "no"),
    ("return x.long().tolist()", "PG203", "yes"),
    ("w = torch.randint(1, 9, (1,))\nreturn x[:w]", "PG407", "no"),
    ("i = torch.sparse_coo_tensor(x, x, size=(3, 3))\nreturn i", "PG514", "no"),
    ("i = torch.sparse_coo_tensor(x, x)\nreturn i", "PG514", "yes"),
    ("if torch.rand(1) < 0.5:\n    return x", "PG306", "no"),
    ("if torch.rand(1, device=x.device) < 0.5:\n    return x", "PG301", "yes"),
]


@pytest.mark.parametrize(("body", "code", "waits"), WAITS, ids=[body for body, _, _ in WAITS])
def test_only_values_of_the_device_are_waited_for(body: str, code: str, waits: str) -> None:
    assert claims(body) == [(code, "break", waits)]


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("marks = torch.arange(9).expand(x.shape[0], x.sum())\nreturn marks.tolist()", "no"),
        ("marks = F.pad(torch.arange(9), (0, x.shape[0], x))\nreturn marks.tolist()", "no"),
        ("marks = F.pad(x, (0, x.shape[0]))\nreturn marks.tolist()", "yes"),
    ],
)
def test_sizes_do_not_say_where_a_tensor_is(body: str, waits: str) -> None:
    assert claims(body)[-1] == ("PG203", "break", waits)


RATE = """
class Settings:
    def __init__(self, rate{0}):
        self.rate = rate

class Model(nn.Module):
    def __init__(self, settings: Settings):
        super().__init__()
        self.rate = settings.rate

    def forward(self, x):
        if torch.rand([]) < self.rate{1}:
            return x
"""


@pytest.mark.parametrize(
    ("default", "more", "waits"),
    [("=0.0", "", "no"), (": float | torch.Tensor", "", "no"), ("=0.0", " + x.mean()", "yes")],
)
def test_a_number_does_not_say_where_what_it_meets_is(default: str, more: str, waits: str) -> None:
    found = lint_text(HEAD + RATE.format(default, more))
    assert [each.consequences["sync"] for each in found if not each.code.startswith("PG1")] == [
        waits
    ]


def test_the_rate_of_a_draw_is_a_number() -> None:
    base = "import torch\nclass Base(torch.nn.Module):\n    def __init__(self, rate):\n"
    base += "        super().__init__()\n        self.rate = rate\n"
    source = "import torch\nfrom base import Base\nclass M(Base):\n    def forward(self, x):\n"
    source += "        if torch.rand([]) < self.rate:\n            return x\n"
    for program, kind in (
        (source, "branch.random-skip"),
        (source.replace("torch.rand([])", "torch.rand([], device=x.device)"), "branch.if"),
    ):
        linked, facts = project(base=base, m=program)
        assert kind in [event.kind for event in confirmed(linked, facts["m"])]


def test_the_message_says_that_the_tensor_is_on_the_host() -> None:
    text = HEAD + "class M(nn.Module):\n    def forward(self, x):\n"
    text += "        return torch.arange(3).tolist()\n"
    messages = [each.message for each in lint_text(text) if each.code == "PG203"]
    assert len(messages) == 1
    assert "a tensor on the host" in messages[0]
    assert "waits" not in messages[0]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.cat([torch.empty(0), x])",
        "return torch.cat([torch.Tensor().to(x.device), x])",
        "return x.to('cpu', non_blocking=True)",
    ],
)
def test_no_elements_and_no_wait(body: str) -> None:
    assert forward(body) == []


def test_a_tensor_of_what_is_a_tensor_copies_nothing_from_the_host() -> None:
    source = """
    import torch
    from torch import nn

    def wrap(values):
        return torch.tensor(values)

    class M(nn.Module):
        def forward(self, x: torch.Tensor):
            return wrap({})
    """
    assert of_all(source.replace("{}", "x.sum()")) == []
    assert of_all(source.replace("{}", "[1.0, 2.0]")) == ["host.data-tensor"]
    either = source.replace("values):", "values=0.5):").replace("{}", "x.sum()")
    assert of_all(either) == ["host.data-tensor"]  # the default is a number


@pytest.mark.parametrize(
    "test",
    [
        "if isinstance(x, np.ndarray):\n        x = torch.from_numpy(x)\n    return x",
        "if isinstance(x, torch.Tensor):\n        return x\n    return torch.tensor([1.0, 2.0])",
        "if not torch.is_tensor(x):\n        x = torch.tensor([1.0, 2.0])\n    return x",
        "return x if torch.is_tensor(x) else torch.tensor([1.0, 2.0])",
    ],
)
def test_what_no_tensor_enters_does_not_run_for_tensors(test: str) -> None:
    source = HEAD + f"def f(x):\n    {test}\n"
    model = "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return f({})\n"
    assert of_all(source + model.format("x")) == []
    if "ndarray" not in test:
        assert of_all(source + model.format("1.0")) == ["host.data-tensor"]


def test_what_reads_data_for_a_loader_is_in_no_region() -> None:
    source = HEAD + "from torch.utils.data import Dataset\n"
    source += "class Data(Dataset):\n    def __init__(self, path):\n"
    source += "        self.rows = torch.tensor([1.0, 2.0])\n"
    source += "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += "        return Data('a') or x\n"
    assert of_all(source) == []
    assert "host.data-tensor" in of_all(source.replace("(Dataset)", ""))


@pytest.mark.parametrize("name", ["tests__layers", "pkg__test_layers", "pkg__test__layers"])
def test_models_of_tests_are_no_regions(name: str) -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += "        return x.item()\n"
    linked, facts = project(**{name: source, "pkg__layers": source})
    assert confirmed(linked, facts[name.replace("__", ".")]) == []
    assert [each.kind for each in confirmed(linked, facts["pkg.layers"])] == ["sync.item"]


@pytest.mark.parametrize("name", ["pkg__data__crops", "dataio__crops"])
def test_modules_that_prepare_data_are_no_regions(name: str) -> None:
    source = HEAD + "class Crop(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += "        return x.item()\n"
    linked, facts = project(**{name: source})
    assert confirmed(linked, facts[name.replace("__", ".")]) == []
    caller = "import torch\nfrom {0} import Crop\nclass M(torch.nn.Module):\n"
    caller += "    def __init__(self):\n        super().__init__()\n        self.crop = Crop()\n"
    caller += "    def forward(self, x: torch.Tensor):\n        return self.crop(x)\n"
    module = name.replace("__", ".")
    linked, facts = project(**{name: source, "model": caller.format(module)})
    assert [each.kind for each in confirmed(linked, facts[module])] == ["sync.item"]


def test_what_gets_images_of_pil_is_in_no_region() -> None:
    source = HEAD + "from PIL import Image\nclass M(nn.Module):\n"
    source += "    def forward(self, x: Image.Image):\n        return x * torch.rand(()) < 0.5\n"
    assert kinds(source) == []
    assert kinds(source.replace("Image.Image", "torch.Tensor")) == ["host.factory"]


@pytest.mark.parametrize("imported", ["pymatgen.core import Structure", "ase import Structure"])
def test_what_gets_objects_without_tensors_is_in_no_region(imported: str) -> None:
    source = HEAD + f"from {imported}\nclass M(nn.Module):\n"
    source += "    def forward(self, x: Structure):\n        return torch.tensor(x.numbers)\n"
    assert kinds(source) == []


def test_a_number_that_is_moved_at_once_is_data_of_the_host() -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor, n: int):\n"
    source += "        return x + torch.tensor(n){}\n"
    assert kinds(source.format("")) == ["host.scalar-tensor"]
    assert kinds(source.format(".to(x.device)")) == ["host.data-tensor"]
    assert kinds(source.format(".fill_(2).float().cuda()")) == ["host.data-tensor"]


def test_arms_for_devices_that_are_neither_cuda_nor_the_host() -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        {}\n"
    source += "        return x\n"
    assert kinds(source.format("if x.device.type == 'mps': x = x.cpu()")) == []
    assert kinds(source.format("if x.device.type in ('mps', 'xpu'): x = x.cpu()")) == []
    assert kinds(source.format("if x.device.type == 'cuda': x = x.cpu()")) == ["sync.copy"]
    assert kinds(source.format("if x.device.type != 'mps': x = x.cpu()")) == ["sync.copy"]


def test_a_cached_property_breaks_once() -> None:
    source = HEAD + "from functools import cached_property\nclass M(nn.Module):\n"
    source += "    @cached_property\n    def size(self):\n        print(1)\n        return 3\n"
    source += "    def forward(self, x: torch.Tensor):\n"
    source += "        return x * self.size + self.size\n"
    assert kinds(source) == ["effect.cached-property"]


def test_a_number_of_the_host_as_index_is_not_copied() -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += "        rows = torch.arange(4)\n        for i in {}:\n            x = x[{}] + x\n"
    source += "        return x\n"
    pairs = "torch.cartesian_prod(rows, rows)"
    assert "host.moved" not in kinds(source.format("rows", "i"))
    assert "host.moved" not in kinds(source.format(pairs, "i[0], i[1]"))
    assert "host.moved" in kinds(source.format("range(3)", "rows + 1"))


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("return x * 2 ** x.max().item()", "error"),
        ("return x * x.max().item() ** 2", "ok"),
        ("return x * (x.max().item() // 2)", "ok"),
        ("return x if len(torch.unique(x)) > 2 else -x", "error"),
        ("assert len(torch.unique(x)) == 3", "ok"),
        ("return x[x > 1].sum()", "ok"),
    ],
)
def test_what_has_to_be_known_cannot_be_one_graph(line: str, whole: str) -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    found = lint_text(source + f"        {line}\n")
    said = [(each.consequences["compile"], each.consequences["fullgraph"]) for each in found]
    assert said == [("break", whole)]


@pytest.mark.parametrize(
    ("calls", "waits"),
    [
        ("cut(x, torch.arange(9))", "no"),
        ("cut(x, x.sum(-1).cpu()) + cut(x, mask=torch.arange(9))", "no"),
        ("cut(x, torch.arange(9)) + cut(x, x.sum(-1))", "yes"),
        ("cut(x, x.sum(-1))", "yes"),
        ("cut(x, others)", "yes"),
        ("handed(x, torch.arange(9))", "no"),
        ("handed(x, x)", "yes"),
    ],
)
def test_what_every_call_passes_from_the_host_is_not_waited_for(calls: str, waits: str) -> None:
    source = HEAD + "def cut(x, mask):\n    return x * mask.sum().item()\n"
    source += "def handed(x, mask):\n    return cut(x, mask)\nclass M(nn.Module):\n"
    source += f"    def forward(self, x: torch.Tensor, others):\n        return {calls}\n"
    found = [each for each in lint_text(source) if each.code == "PG201"]
    assert [(each.consequences["compile"], each.consequences["sync"]) for each in found] == [
        ("break", waits)
    ]
