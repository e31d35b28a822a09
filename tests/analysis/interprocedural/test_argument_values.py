"""Branches that literal arguments, defaults and kinds of arguments never take."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, kinds, project

HEAD = "import time\nimport torch\nfrom torch import nn\n"
POOL = """
def pool(x, mode="avg", scale=None, loud=False):
    {body}
    return x

class M(nn.Module):
    def forward(self, x: torch.Tensor, mode, **more):
        return pool({given})
"""
# A branch with a call that is reported, what is passed, whether the branch can be taken.
BRANCHES = [
    ("if mode == 'max': time.time()", "x", False),
    ("if mode == 'max': time.time()", "x, 'max'", True),
    ("if mode == 'max': time.time()", "x, mode='max'", True),
    ("if mode == 'max': time.time()", "x, mode", True),
    ("if mode == 'max': time.time()", "x, mode=mode", True),
    ("if mode == 'max': time.time()", "x, **more", True),
    ("if mode == 'max': time.time()", "*x", True),
    ("if mode not in ('avg', 'max'): time.time()", "x, 'max'", False),
    ("if mode not in ('avg', 'max'): time.time()", "x, 'sum'", True),
    ("if mode != 'avg': time.time()", "x, 'avg'", False),
    (
        "if mode == 'a':\n        x = x + 1\n    elif mode != 'b':\n        time.time()",
        "x, 'a'",
        False,
    ),
    (
        "if mode == 'a':\n        x = x + 1\n    elif mode != 'b':\n        time.time()",
        "x, 'c'",
        True,
    ),
    ("if not isinstance(mode, str): time.time()", "x", False),
    ("if not isinstance(mode, str): time.time()", "x, 3", True),
    ("if not isinstance(mode, str): time.time()", "x, mode", True),
    ("if loud: time.time()", "x", False),
    ("if loud: time.time()", "x, loud=True", True),
    ("if not loud: return x\n    time.time()", "x", False),
    ("if loud is True: time.time()", "x", False),
    ("if loud is not False: time.time()", "x, loud=True", True),
    ("if scale is not None: time.time()", "x", False),
    ("if scale is not None: time.time()", "x, scale=x.shape[0]", True),
    ("if scale is None: time.time()", "x, 'avg', 2.0", False),
    ("if loud and scale is None: time.time()", "x, loud=True, scale=3", False),
    ("if isinstance(scale, str): time.time()", "x, scale=x", False),
    ("if isinstance(scale, str): time.time()", "x, scale='a'", True),
    ("if isinstance(scale, (list, tuple)): time.time()", "x, scale=2.0", False),
    ("if loud or mode == 'max': time.time()", "x", False),
    ("if loud or mode == 'max': time.time()", "x, 'max'", True),
    ("if loud or mode == 'max': time.time()", "x, loud=more", True),
    ("if not (mode == 'avg' and scale is None): time.time()", "x", False),
    ("if not (mode == 'avg' and scale is None): time.time()", "x, scale=3", True),
    ("if mode == 'avg' and scale is None: return x\n    time.time()", "x", False),
    ("if loud or x.shape[0] > 2: time.time()", "x", True),
    ("if type(mode) is not str: time.time()", "x", False),
    ("if type(mode) is not str: time.time()", "x, 3", True),
    ("if type(scale) in (list, tuple): time.time()", "x, scale=2.0", False),
    ("if type(scale) in (list, tuple): time.time()", "x, scale=[2.0]", True),
    ("mode = mode or 'max'\n    if mode == 'max': time.time()", "x, ''", True),
]


@pytest.mark.parametrize(("body", "given", "taken"), BRANCHES)
def test_a_branch_counts_where_some_call_may_take_it(body: str, given: str, taken: bool) -> None:
    body = body.replace("time.time()", "x.nonzero(); time.time()")
    found = kinds(HEAD + POOL.format(body=body, given=given))
    assert ("call" in found) is taken


def test_one_call_has_to_pass_all_that_a_branch_asks_for() -> None:
    source = HEAD + POOL.format(
        body="if mode == 'a':\n        if loud:\n            time.time()",
        given="x, 'a') + pool(x, 'b', loud=True",
    )
    assert kinds(source) == []
    assert kinds(source.replace("'b'", "'a'")) == ["call"]


def test_callers_that_are_not_known_may_pass_anything() -> None:
    source = HEAD + "def pool(x, loud=False):\n    if loud: time.time()\n    return x\n"
    model = "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return {}\n"
    assert kinds(source + model.format("pool(x)")) == []
    assert kinds(source + model.format("helper(pool, x)")) == ["call"]
    partial = "from functools import partial\n"
    assert kinds(partial + source + model.format("partial(pool, loud=True)(x)")) == ["call"]
    linked, facts = project(RegionOptions(("m.pool",)), m=source + model.format("pool(x)"))
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["call"]
    wrapped = (
        "def wrap(f):\n    def inner(*args):\n        return f(*args, True)\n    return inner\n"
    )
    assert kinds(wrapped + source.replace("def pool", "@wrap\ndef pool") + model.format("pool(x)"))


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("if self.unset:\n            self.unset = False\n            time.time()", False),
        ("if not self.ready:\n            time.time()\n            self.ready = True", False),
        ("if not self.ready:\n            time.time()\n            self.ready = False", True),
        ("if self.unset:\n            time.time()", True),
        ("if n not in self.kept:\n            self.kept[n] = time.time()", False),
        ("if n not in KEPT:\n            if x:\n                KEPT[n] = time.time()", False),
        ("if n not in self.kept:\n            self.other[n] = time.time()", True),
        ("if n not in self.kept:\n            self.kept[0] = time.time()", True),
        ("if not n in self.kept:\n            self.kept[n] = time.time()", False),
        ("if not n not in self.kept:\n            self.kept[n] = time.time()", True),
        ("if n in self.kept:\n            self.kept[n] = time.time()", True),
        ("kept = {{}}\n        if n not in kept:\n            kept[n] = time.time()", True),
        (
            "kept = self.kept\n        if n not in kept:\n            kept[n] = time.time()",
            False,
        ),
        (
            "kept = getattr(x, 'kept', None)\n        if n not in kept:\n"
            "            kept[n] = time.time()",
            False,
        ),
    ],
)
def test_what_the_first_call_sets_up_is_no_cost_of_each(body: str, seen: bool) -> None:
    source = HEAD + "KEPT = {{}}\nclass M(nn.Module):\n    "
    source += "def forward(self, x: torch.Tensor, n: int):\n        {}\n"
    assert [kind for kind in kinds(source.format(body)) if kind == "call"] == ["call"] * seen


def test_a_size_that_is_not_called_is_that_of_an_image() -> None:
    square = "def square(image):\n    width, height = image.size{}\n"
    square += "    return image if width > height else image.T\n"
    source = HEAD + square + "class M(nn.Module):\n    def forward(self, images):\n"
    source += "        return [square(image) for image in images]\n"
    assert kinds(source.format("")) == []
    assert kinds(source.format("()")) == []


def test_the_name_of_a_type_is_text() -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    assert kinds(source + "        return x if x.data.type() == self.kind else -x\n") == []


def test_gradients_are_tensors() -> None:
    source = HEAD + "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += "        (y,) = torch.autograd.grad(x.sum(), x)\n        return y.item()\n"
    assert kinds(source) == ["sync.item"]


def test_a_tensor_has_the_methods_of_tensors() -> None:
    source = HEAD + "import numpy as np\ndef convert(value):\n"
    source += "    if hasattr(value, 'detach'):\n        value = value.detach()\n{}"
    source += "    return np.asarray(value)\nclass M(nn.Module):\n"
    source += "    def forward(self, x: torch.Tensor):\n        return convert(x)\n"
    test = "    if hasattr(value, 'numpy'):\n        return value\n"
    assert kinds(source.format(test)) == []
    assert kinds(source.format("")) == ["sync.numpy"]


def test_private_functions_of_torch_give_nothing_that_is_known() -> None:
    source = HEAD + "import torch.nn.functional as F\nclass M(nn.Module):\n"
    source += "    def forward(self, x: torch.Tensor, how: str):\n"
    source += "        return x if F._Reduction.get_enum(how) == 0 else x.mean()\n"
    assert kinds(source) == []


@pytest.mark.parametrize(
    "use",
    [
        "self.fast = torch.compile(helper)",
        "self.fast = torch.jit.trace(helper, x)",
        "torch.onnx.export(self.layer, x, 'model.onnx')",
    ],
)
def test_a_function_that_has_others_traced_is_not_traced_itself(use: str) -> None:
    source = HEAD + "def check(x):\n    return x.item()\ndef helper(x):\n    return x\n"
    source += "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += (
        f"        self.prepare(x)\n        return x\n    def prepare(self, x):\n        {use}\n"
    )
    source += "        check(x)\n"
    assert kinds(source) == []
    assert kinds(source.replace(use, "pass")) == ["sync.item"]
    assert kinds(source + "prepared = torch.compile(M())\n") == ["sync.item"]


NAMED = """
def pool(*args, loud=False, **more):
    if loud:
        args[0].nonzero()
        time.time()
    return args[0]

class M(nn.Module):
    def forward(self, x: torch.Tensor, **more):
        return pool({given})
"""


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("x", False),
        ("*x", False),
        ("x, True", False),
        ("*x, loud=True", True),
        ("*x, loud=more", True),
        ("x, **more", True),
    ],
)
def test_no_place_fills_what_is_passed_by_name(given: str, taken: bool) -> None:
    assert ("call" in kinds(HEAD + NAMED.format(given=given))) is taken


UNBOUND = """
class A(nn.Module):
    def forward(self, image: torch.Tensor, level: float):
        if level < 0:
            return image
        return image * level

class B(A):
    def forward(self, image: torch.Tensor):
        return A.forward(self, image, {given})
"""


def test_a_method_called_through_its_class_gets_its_object_first() -> None:
    assert "branch.if" not in kinds(HEAD + UNBOUND.format(given="0.5"))
    assert "branch.if" in kinds(HEAD + UNBOUND.format(given="image.sum()"))


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("x", []),
        ("self.weight[0]", []),
        ("2.0", ["host.data-tensor"]),
        ("self.some", ["host.data-tensor"]),
    ],
)
def test_a_tensor_is_built_where_some_call_passes_no_tensor(given: str, seen: list[str]) -> None:
    source = f"""
import torch
from torch import nn

def scaled(x: torch.Tensor, factor: float | torch.Tensor):
    return x * torch.as_tensor(factor, device=x.device)

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor):
        return scaled(x, x) + scaled(x, {given})
"""
    assert kinds(source) == seen


@pytest.mark.parametrize(("given", "expected"), [("x", []), ("x, x", ["branch.if"])])
def test_what_no_call_passes_is_no_tensor_to_branch_on(given: str, expected: list[str]) -> None:
    source = f"""
import torch
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return self.decode({given})
    def decode(self, x: torch.Tensor, start: torch.Tensor | None = None):
        if start:
            x = x + 1
        return x
"""
    assert kinds(source) == expected


def test_what_is_only_traced_by_others_does_not_run() -> None:
    source = """
import torch, torchvision
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x.tolist() if torchvision._is_tracing() else x
"""
    assert kinds(source) == []


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("isinstance(xs[0], list)", False),
        ("isinstance(xs[0], (int, float))", False),
        ("isinstance(xs[0], torch.Tensor)", True),
        ("not isinstance(xs[0], list)", True),
        ("isinstance(xs[0], Other)", True),
    ],
)
def test_the_kind_of_the_first_element_says_that_a_list_holds_no_tensors(
    test: str, reported: bool
) -> None:
    source = f"""
        import torch
        class M(torch.nn.Module):
            def forward(self, xs: list[torch.Tensor | list]):
                if {test}:
                    return torch.tensor(xs)
                return xs
    """
    assert ("sync.number" in kinds(source)) is reported
