"""Code of libraries without annotations: functions that get others, objects that hold tensors."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project


def seen(source: str) -> list[str]:
    """The kinds of the events of a library's file, whatever of it users may compile."""
    linked, facts = project(
        RegionOptions(every=True), m="import torch\nfrom torch import nn\n" + source
    )
    return [event.kind for event in confirmed(linked, facts["m"])]


CALLED = "def solve(fun, x, n):\n    x = x.unsqueeze(0)\n    y = fun(x)\n"


@pytest.mark.parametrize(
    "later",
    [
        "if y > n:\n    return x\nreturn y",
        "if y > n:\n    return x\ny = x + 1\nreturn y.softmax(-1)",  # of another value
        "if y > n:\n    return x\nreturn y.softmax(-1) if torch.is_tensor(y) else y",
        "if y > n:\n    return x\nreturn y.softmax(-1) if isinstance(y, torch.Tensor) else y",
        "if y > n:\n    return x\nreturn y.inverse(x)",  # of a transform
    ],
)
def test_later_uses_that_show_nothing(later: str) -> None:
    body = "".join(f"    {line}\n" for line in later.split("\n"))
    assert seen("import m2\n" + CALLED.replace("fun(x)", "m2.table[n](x)") + body) == []


def test_a_method_of_an_object_that_holds_tensors() -> None:
    source = """
class Buffer:
    def __init__(self, other):
        self.done = torch.zeros_like(other.done)
        self.full = False
    def valid(self):
        return bool(self.done.all())
    def is_full(self):
        print(self.full)
        return self.full
"""
    assert seen(source) == ["sync.bool"]


def test_a_method_of_a_module_that_applies_its_layer() -> None:
    source = """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 4)
    def act(self, obs):
        return self.net(obs).argmax().item()
"""
    assert seen(source) == ["sync.item"]


def test_a_method_of_a_module_gets_tensors() -> None:
    source = """
class Shift(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
    def inverse(self, y):
        print(self.n)
        return y / self.n
    def __repr__(self):
        print(self.n)
"""
    assert seen(source) == ["call"]


def test_elements_of_a_parameter_that_are_read() -> None:
    source = "def group(found):\n    return [each.item() for each in found]\n"
    assert seen(source) == ["sync.item"]


@pytest.mark.parametrize(
    ("name", "expected"), [("fun", ["branch.if"]), ("stop_fn", []), ("check_convergence", [])]
)
def test_a_function_that_an_object_is_made_with(name: str, expected: list[str]) -> None:
    source = f"""
class Solver:
    def __init__(self, {name}, rtol):
        self.{name} = {name}
        self.rtol = rtol
    def step(self, x):
        x = x.unsqueeze(0)
        y = self.{name}(x)
        if y:
            return x
        return x + 1
"""
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if y > 2:\n        x = -x\n    return nn.functional.mse_loss(x, y)", ["branch.if"]),
        ("if y > 2:\n        x = -x\n    return torch.cdist(x, y)", ["branch.if"]),
        ("if y > 2:\n        x = -x\n    return torch.add(x, y)", []),
    ],
)
def test_a_second_argument_that_has_to_be_a_tensor(body: str, expected: list[str]) -> None:
    assert seen(f"def loss(x, y):\n    x = x.unsqueeze(0)\n    {body}\n") == expected


@pytest.mark.parametrize(("name", "expected"), [("mask", ["shape.mask-read"]), ("index", [])])
def test_an_index_that_is_called_a_mask(name: str, expected: list[str]) -> None:
    assert (
        seen(f"def keep(x, {name}=None):\n    x = x.unsqueeze(0)\n    return x[{name}]\n")
        == expected
    )


def test_what_describes_a_tensor_is_none() -> None:
    source = """
def make(x, dtype=None, out_device=None):
    x = x.unsqueeze(0)
    return cast(x, dtype or x.dtype, out_device or x.device)
def cast(x, dtype, device):
    return torch.stack([x, dtype, device])
"""
    assert seen(source) == []


def test_what_a_list_is_searched_for() -> None:
    source = "def drop(x):\n    rest = [0, 1, 2]\n    rest.remove(x.argmax())\n    return x[rest]\n"
    assert seen(source)[0] == "branch.membership"


def test_a_parameter_in_a_text() -> None:
    source = "def text(x):\n    return inner(x.exp())\ndef inner(t):\n    return str(t)\n"
    assert seen(source) == ["sync.format"]


OBJECTS = """
class Problem:
    x: torch.Tensor
    n: int
class Other:
    def __init__(self):
        self.steps = 3
"""


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("problem.x.sum() > 0", ["branch.if"]),
        ("problem.n > 0", []),
        ("problem.steps > 0", []),
        ("config.x > 0", []),  # settings
    ],
)
def test_an_attribute_by_its_name(test: str, expected: list[str]) -> None:
    body = f"    y = y.unsqueeze(0)\n    if {test}:\n        y = -y\n    return y\n"
    assert seen(f"{OBJECTS}def step(problem, config, y):\n{body}") == expected
    twice = OBJECTS + OBJECTS.replace("Problem", "Second").replace("Other", "Third")
    assert seen(f"{twice}def step(problem, config, y):\n{body}") == []


DIAGONAL = """
class Diagonal:
    def __init__(self, diag, size):
        self.diag = diag
        self.size = size
    def logdet(self):
        if self.diag.min() <= 0:
            raise ValueError
        return self.diag.log().sum()
    def rows(self):
        if self.size > 3:
            print(self.size)
        return self.size
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("self.diag * other", []),
    ],
)
def test_what_an_object_is_made_with_as_its_methods_use_it(use: str, expected: list[str]) -> None:
    assert seen(f"{DIAGONAL}    def matmul(self, other):\n        return {use}\n") == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("loss.backward()", ["sync.item", "method"]),  # a step of a solver, say
        ("model.zero_grad()", ["sync.item"]),
        ("model.zero_grad(); loss.backward()", ["sync.item", "method"]),  # an attack
        ("model.zero_grad(); loss.backward(); model.optimizer.step()", []),
    ],
)
def test_a_function_that_trains_is_not_compiled(last: str, expected: list[str]) -> None:
    source = f"""
def fit(model: nn.Module, data: torch.Tensor):
    lowest = data.min().item()
    loss = model(data).mean() * lowest
    {last}
"""
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("more", "expected"), [("", []), ("def kinds():\n    return [Limits]\n", ["sync.item"])]
)
def test_a_constructor_is_compiled_where_a_list_may_make_objects(
    more: str, expected: list[str]
) -> None:
    source = """
class Limits:
    def __init__(self, x: torch.Tensor):
        self.most = x.max().item()
"""
    assert seen(source + more) == expected


AGENT = """
class Agent:
    def __init__(self, space):
        self.size = torch.prod(torch.ones(space.shape)).item()
def train(cfg, make):
    return USE
"""


@pytest.mark.parametrize(
    ("use", "kinds"),
    [
        ("cast(Agent, make(cfg))", []),
        ("isinstance(make(cfg), Agent)", []),
        ("make(Agent, cfg)", ["sync.item"]),
    ],
)
def test_a_class_that_is_only_named_as_a_type(use: str, kinds: list[str]) -> None:
    found = seen("from typing import cast\n" + AGENT.replace("USE", use))
    assert [kind for kind in found if kind.startswith("sync")] == kinds


SCALER = """
class SizeLoss(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
    def forward(self, a, b):
        if a.sum() > 0:
            return a
        return b
class Scaler:
    def __init__(self, model, LOSS):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.loss_fn = GIVEN
    def fit(self, batches):
        for x, y in batches:
            loss = self.loss_fn(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(("given", "reached"), [("nn.BCELoss()", False), ("loss", True)])
def test_a_layer_of_torch_is_no_loss_of_the_project(given: str, reached: bool) -> None:
    source = "import torch\nfrom torch import nn\n" + SCALER.replace("GIVEN", given)
    linked, facts = project(m=source.replace("LOSS", "loss"))
    steps = [region.call_path for region, _ in linked.loop_events(facts["m"])]
    assert any("SizeLoss" in step for path in steps for step in path) is reached


MADE = """
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = self._make(n)
    def _make(self, n):
        return nn.Sequential(*[self._part(n) for _ in range(n)])
    def _part(self, n):
        return nn.Linear(n, n)
    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("", ""), []),
        (("_part", "part"), []),  # has to do with no tensor
        (("self.layers(x)", "self._part(2)(x)"), ["effect.parameter-made"]),
    ],
)
def test_a_method_that_constructors_alone_call_runs_once(
    change: tuple[str, str], expected: list[str]
) -> None:
    assert seen(MADE.replace(*change)) == expected


PICKS = """
def pick(pos: torch.Tensor, env=...):
    pos = pos.clone()
    {statement}
    return pos + 1
def outer(pos: torch.Tensor, where):
    return pick(pos, where)
def run(pos: torch.Tensor):
    places = {places}
    return outer(pos, env=places) if pos is None else outer(pos, places)
"""


@pytest.mark.parametrize(
    ("statement", "places", "expected"),
    [
        ("pos = pos[env]", "pos[0] > 0", ["shape.mask-read"]),
        ("pos[env] = pos[0]", "pos[0] > 0", ["shape.mask-write"]),
        ("pos = pos[env]", "pos.argsort(0)", []),
        ("pos = pos[env]", "3", []),
        ("pos = pos[env]", "slice(None)", []),
        ("pos[env] = pos[0]", "pos.argsort(0)", []),
    ],
)
@pytest.mark.parametrize("declared", ["env=...", "env: torch.Tensor"])
def test_a_mask_that_a_caller_passes_for_an_index(
    statement: str, places: str, expected: list[str], declared: str
) -> None:
    if declared == "env=..." or places not in ("3", "slice(None)"):
        source = PICKS.replace("env=...", declared).replace("where)", "where: torch.Tensor)", 1)
        assert seen(source.format(statement=statement, places=places)) == expected


SCRIPT = """
def demo(select, device):
    data = torch.rand(8).to(device)
    print(data.sum())
{more}
if __name__ == "__main__":
    demo("fft", torch.device("cuda"))
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", []),
        ("def again(x: torch.Tensor):\n    demo('dft', x.device)\n    return x", ["call"]),
        ("DEMOS = [demo]\ndef again(x: torch.Tensor):\n    return map(demo, x)", ["call"]),
    ],
)
def test_a_function_that_only_the_script_calls_runs_once(more: str, expected: list[str]) -> None:
    found = seen(SCRIPT.format(more=more))
    assert [kind for kind in found if kind == "call"] == expected


@pytest.mark.parametrize(
    ("show", "expected"), [("plt.plot(values)", []), ("values += 1", ["sync.tolist"])]
)
def test_a_function_that_plots_is_not_compiled(show: str, expected: list[str]) -> None:
    head = "import matplotlib.pyplot as plt\n"
    body = f"def curve(x: torch.Tensor):\n    values = x.tolist()\n    {show}\n"
    assert seen(head + body) == expected


def test_a_number_that_an_object_of_another_class_holds() -> None:
    source = """
class Seen:
    def __init__(self, n=None):
        self.n = n
class Env:
    def __init__(self, n, device):
        self.seen = Seen(n=torch.tensor(n, device=device))
    def observe(self, x: torch.Tensor, fixed: int):
        return torch.topk(x, k=self.seen.n)[0] + torch.topk(x, k=fixed)[0]
"""
    assert "sync.number" in seen(source)
    assert "sync.number" not in seen(source.replace("torch.tensor(n, device=device)", "n"))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("self.table['name'] == name", []),  # a column: nothing says that `name` is a tensor
        ("self.table.x == name", ["branch.if"]),
    ],
)
def test_a_text_that_rows_of_a_table_are_chosen_by(index: str, expected: list[str]) -> None:
    source = f"""
class Rows:
    def rows(self, name):
        if name > 3:
            return self.table[{index}]
"""
    assert [kind for kind in seen(source) if kind == "branch.if"] == expected


@pytest.mark.parametrize(("use", "expected"), [("n", []), ("n(y)", ["effect.parameter-made"])])
def test_a_function_that_makes_layers_of_no_tensor_runs_once(use: str, expected: list[str]) -> None:
    source = f"""
class Net(nn.Module):
    def _linear(self, size):
        n = nn.Linear(size, size)
        y = self.mask.sum() if {use == "n(y)"} else None
        return {use}
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.zeros(3))
"""
    assert [kind for kind in seen(source) if kind == "effect.parameter-made"] == expected


def test_files_of_data_sets_are_beside_models() -> None:
    source = "import torch\ndef rows(x: torch.Tensor):\n    return x.tolist()\n"
    for name, expected in (("datasets", []), ("sets", ["sync.tolist"])):
        linked, facts = project(RegionOptions(every=True), **{name: source})
        assert [event.kind for event in confirmed(linked, facts[name])] == expected


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        ("tools", "rows", ["sync.tolist"]),
        ("scripts.tools", "rows", []),
        ("pkg._testing", "rows", []),
        ("tools", "extra_repr", []),
        ("tools", "add_to_state_dict", []),
        ("tools", "prepare_for_plot", []),
    ],
)
def test_what_is_by_its_name_not_compiled(file: str, function: str, expected: list[str]) -> None:
    source = f"import torch\ndef {function}(x: torch.Tensor):\n    return x.tolist()\n"
    linked, facts = project(RegionOptions(every=True), **{file: source})
    assert [event.kind for event in confirmed(linked, facts[file])] == expected


FIXED = """
class Kernel(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.weight = self.fixed(n)
    def fixed(self, size{more}):
        w = (0.5 * torch.ones(size, size)).to(self.device)
        return w * torch.triu(torch.ones_like(w), diagonal=1)
    def forward(self, r: torch.Tensor):
        return r * {use}
"""


@pytest.mark.parametrize(
    ("use", "more", "expected"),
    [
        ("self.weight", "", []),
        ("self.fixed(self.n)", "", ["host.moved"]),
        ("self.weight", ", x: torch.Tensor = None", ["host.moved"]),  # users may call it
    ],
)
def test_a_public_method_without_tensors_that_constructors_alone_call_runs_once(
    use: str, more: str, expected: list[str]
) -> None:
    found = set(seen(FIXED.format(use=use, more=more)))
    assert sorted(found & {"host.moved"}) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("pad_batch", ["sync.tolist"]), ("collate_pad", []), ("PadCollator", [])]
)
def test_what_collates_data_is_not_compiled(name: str, expected: list[str]) -> None:
    call = "(x: torch.Tensor):\n{0}    return x.tolist()\n"
    source = f"def {name}" + call.format("")
    if name == "PadCollator":
        source = f"class {name}:\n    def __call__" + call.replace("(x", "(self, x").format("    ")
    assert seen(source) == expected


def test_a_number_by_a_class_of_numpys() -> None:
    source = """
import numpy as np
def one(x):
    if isinstance(x, (int, np.integer)):
        return [int(x)]
    return x.view(-1)
"""
    assert seen(source) == []
    assert seen(source.replace("isinstance(x, (int, np.integer))", "x[0] is 1")) == ["sync.number"]


@pytest.mark.parametrize(
    ("other", "expected"), [("nn.LSTM(4, 8)", ["effect.rnn"]), ("nn.Linear(4, 8)", [])]
)
def test_a_layer_of_several_classes_that_are_all_recurrent(other: str, expected: list[str]) -> None:
    source = f"""
class Decoder(nn.Module):
    def __init__(self, kind):
        super().__init__()
        if kind == "gru":
            self.rnn = nn.GRU(4, 8)
        else:
            self.rnn = {other}
    def forward(self, x):
        return self.rnn(x)
"""
    assert seen(source) == expected
