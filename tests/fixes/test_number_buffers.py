"""Whole numbers that a module keeps in tensors: kept as numbers, run and compared."""

from __future__ import annotations

import textwrap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked, offer

BEFORE = """
    import torch
    from torch import nn


    class Padded(nn.Module):
        def __init__(self, size: int, stride: int):
            super().__init__()
            self.conv = nn.Conv1d(1, 1, size, stride)
            dilation = self.conv.dilation[0]
            stride = torch.tensor(self.conv.stride[0], dtype=torch.int64)
            # taps with the holes between them
            size = torch.tensor((size - 1) * dilation + 1, dtype=torch.int64)

            self.register_buffer("stride", stride, persistent=False)
            self.register_buffer("size", size, persistent=False)
            self.register_buffer("total", size - stride, persistent=False)
            self.left = self.total // 2

        def extra(self, x: torch.Tensor) -> torch.Tensor:
            length = x.shape[-1]
            frames = (length - self.size + self.total) / self.stride + 1
            frames = torch.ceil(frames).to(torch.int64) - 1
            return frames * self.stride + self.size - self.total - length

        @staticmethod
        def pad(x, paddings: tuple[int, int]):
            left, right = paddings
            longest = «max(left, right)»
            if longest > 2 * x.shape[-1]:
                return x
            return nn.functional.pad(x, paddings)

        def lengths(self, given: torch.Tensor) -> torch.Tensor:
            return torch.ceil(given / self.stride).to(torch.int64) - self.left

        def forward(self, x, given):
            y = self.pad(x, (self.left, self.total - self.left + self.extra(x)))
            return self.conv(y), self.lengths(given)
    """

AFTER = (
    marked(BEFORE)[0]
    .replace("torch.tensor(self.conv.stride[0], dtype=torch.int64)", "self.conv.stride[0]")
    .replace(
        "torch.tensor((size - 1) * dilation + 1, dtype=torch.int64)", "(size - 1) * dilation + 1"
    )
    .replace('self.register_buffer("stride", stride, persistent=False)', "self.stride = stride")
    .replace('self.register_buffer("size", size, persistent=False)', "self.size = size")
    .replace(
        'self.register_buffer("total", size - stride, persistent=False)',
        "self.total = size - stride",
    )
    .replace("x: torch.Tensor) -> torch.Tensor", "x: torch.Tensor) -> int")
    .replace("torch.ceil(frames).to(torch.int64)", "math.ceil(frames)")
    .replace("import torch\nfrom", "import math\n\nimport torch\nfrom")
)


def test_the_number_is_kept() -> None:
    fix = expect(BEFORE, AFTER, "PG206", "unsafe")
    assert "double precision" in fix.reason


@pytest.mark.parametrize("code", ["PG201", "PG202", "PG206", "PG301", "PG407"])
def test_whatever_the_number_is_read_for(code: str) -> None:
    expect(
        BEFORE.replace("«max(left, right)»", "max(left, right)").replace(
            "if longest > 2", "if «longest» > 2"
        ),
        AFTER,
        code,
        "unsafe",
    )


def _models(size: int, stride: int) -> list[torch.nn.Module]:
    models = [module_of(text).Padded(size, stride) for text in (marked(BEFORE)[0], AFTER)]
    models[1].load_state_dict(models[0].state_dict())
    return models


def _arguments(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 1, length, requires_grad=True), torch.tensor([length, 1])


@FEW
@given(size=st.integers(1, 5), stride=st.integers(1, 5), length=st.integers(1, 40))
def test_they_compute_the_same(size: int, stride: int, length: int) -> None:
    before, after = _models(size, stride)
    arguments = _arguments(length)
    assert_same(run(before, arguments), run(after, arguments))


@pytest.mark.parametrize("dynamic", [None, True])
def test_no_break_is_left(dynamic: bool | None) -> None:
    before, after = _models(4, 2)
    assert breaks(before, _arguments(7)) > 0
    torch._dynamo.reset()
    whole = torch.compile(after, backend="eager", fullgraph=True, dynamic=dynamic)
    for length in (7, 12, 31):
        arguments = _arguments(length)
        assert_same(run(before, arguments), run(whole, arguments))


def test_compiled_as_eager() -> None:
    before, after = _models(3, 2)
    arguments = _arguments(8)
    assert_same(run(before, arguments), run(compiled(after), arguments))


def test_the_number_is_known_on_the_meta_device() -> None:
    with torch.device("meta"):
        before, after = _models(4, 2)
    assert before.total.is_meta
    assert (after.stride, after.size, after.total, after.left) == (2, 4, 2, 1)


def test_long_inputs_are_counted_exactly() -> None:
    """Single precision has 24 bits: what the reason of the fix warns of."""
    before, after = _models(1, 3)
    x = torch.empty(1, device="meta").expand(2**26 + 2)
    frames = -(-x.shape[-1] // 3)
    assert after.extra(x) == 3 * frames - x.shape[-1]
    assert before.extra(x) != after.extra(x)


def test_several_roundings_need_one_import() -> None:
    more = """
        def whole(self, x) -> torch.Tensor:
            return torch.floor(x.shape[0] / self.stride).long() - torch.trunc(self.size / 2).long()

        def up(self, x):
            return x[: self.whole(x)]
    """
    _, changed = offer(
        textwrap.dedent(BEFORE) + textwrap.indent(textwrap.dedent(more), "    "), "PG206"
    )
    assert changed.count("import math") == 1
    assert "def whole(self, x) -> int:" in changed
    assert "return math.floor(x.shape[0] / self.stride) - math.trunc(self.size / 2)\n" in changed


def test_classes_that_are_derived_in_a_circle() -> None:
    circle = (
        "\n\nclass A(B):\n    def f(self):\n        return self.total\n\n\nclass B(A):\n    pass\n"
    )
    expect(textwrap.dedent(BEFORE) + circle, AFTER + circle, "PG206", "unsafe")


SETTER = """
    from torch.nn import init


    def reset(module):
        if isinstance(module, Padded):
            size = torch.tensor(module.conv.kernel_size[0], dtype=torch.int64)
            init.copy_(module.size, size)
            init.constant_(module.stride, module.conv.stride[0])
            module.total.fill_(size - module.conv.stride[0])
    """

SET = """
    from torch.nn import init


    def reset(module):
        if isinstance(module, Padded):
            size = module.conv.kernel_size[0]
            module.size = size
            module.stride = module.conv.stride[0]
            module.total = size - module.conv.stride[0]
    """


def test_functions_that_fill_the_buffers_set_the_numbers() -> None:
    before = textwrap.dedent(BEFORE) + "\n" + textwrap.dedent(SETTER)
    after = AFTER + "\n" + textwrap.dedent(SET)
    expect(before, after, "PG206", "unsafe")
    model = _models(4, 2)[1]
    module_of(after).__dict__["Padded"] = type(model)
    module = module_of(after)
    module.__dict__["Padded"] = type(model)
    model.total = model.size = 0
    module.reset(model)
    assert (model.size, model.stride, model.total) == (4, 2, 2)


BRANCHES = """

    def reset(self, module):
        if isinstance(module, nn.Linear):
            module.bias.zero_()
        elif isinstance(module, Padded):
            # as in the constructor
            dilation = module.conv.dilation[0]
            size = (module.conv.kernel_size[0] - 1) * dilation + 1
            stride = torch.tensor(module.conv.stride[0])
            init.constant_(module.size, size)
            init.copy_(module.stride, stride)
            init.copy_(module.total, size - stride)
        elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
            module.reset()
    """


def _reset(old: str = "", new: str = "") -> tuple[str, str]:
    """A function that fills the buffers as the constructor does, or nearly so, before and after."""
    head = textwrap.dedent(BEFORE).replace(
        "from torch import nn", "from torch import nn\nfrom torch.nn import init"
    )
    head = head.replace("((size - 1)", "((self.conv.kernel_size[0] - 1)")
    given = textwrap.dedent(BRANCHES)
    assert old in given
    text = head + given.replace(old, new) if old else head + given
    _, changed = offer(text, "PG206")
    assert "self.total = size - stride" in changed
    return text, changed[changed.index("def reset") :]


def test_a_branch_that_fills_them_as_the_constructor_does_goes() -> None:
    given = textwrap.dedent(BRANCHES).lstrip("\n")
    start = given.index("    elif isinstance(module, Padded)")
    end = given.index("    elif isinstance(module, (nn")
    assert _reset()[1] == given[:start] + given[end:]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dilation + 1\n", "dilation\n"),
        ("module.conv.kernel_size", "self.conv.kernel_size"),
        ("module.conv.stride[0]", "module.conv.stride[-1]"),
        ("size - stride)", "stride - size)"),
        (
            "    elif isinstance(module, (nn",
            "    else:\n        pass\n    if isinstance(module, (nn",
        ),
        ("(nn.Conv1d, nn.Conv2d)", "(nn.Conv1d, nn.Module)"),
        ("isinstance(module, (nn.Conv1d, nn.Conv2d))", "hasattr(module, 'reset')"),
        ("isinstance(module, (nn.Conv1d", "isinstance(self, (nn.Conv1d"),
        ("isinstance(module, Padded)", "isinstance(module, (Padded, nn.Conv3d))"),
        ("isinstance(module, Padded)", "isinstance(module, Padded) and self.fresh"),
        ("    elif isinstance(module, Padded)", "    if isinstance(module, Padded)"),
        ("        # as", "        module.conv.reset()\n        # as"),
        ("module.reset()", "module.reset()\n    print(dilation)"),
    ],
)
def test_other_branches_set_the_numbers(old: str, new: str) -> None:
    changed = _reset(old, new)[1]
    assert "        module.total = " in changed
    assert "init.co" not in changed
    assert "torch.tensor" not in changed


LISTED = """

    class Cache:
        def __init__(self, paddings: list[int]):
            self.paddings = paddings


    def cache(layers):
        totals, names = [], []
        for layer in layers:
            totals.append(layer.total)
            names.append(layer.name)
        return Cache(paddings=totals), names
    """


def test_numbers_may_be_collected_for_a_parameter_of_numbers() -> None:
    expect(
        textwrap.dedent(BEFORE) + textwrap.dedent(LISTED),
        AFTER + textwrap.dedent(LISTED),
        "PG206",
        "unsafe",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.conv(y)", "return self.total, self.conv(y)"),
        ("return self.conv(y)", "return self.conv(y) @ self.total"),
        ("return self.conv(y)", "return helper(y, self.total)"),
        ("return self.conv(y)", "return self.conv(y).to(self.total.device)"),
        ("return self.conv(y)", "return self.conv(y), x if given is self.total else y"),
        ("return self.conv(y)", "return torch.atleast_1d(self.stride), self.conv(y)"),
        ("return self.conv(y)", "return torch.ceil(self.stride / 2), self.conv(y)"),
        ("return self.conv(y)", "return (lambda: self.stride)(), self.conv(y)"),
        ("return self.conv(y)", "return self.stride > self.size, self.conv(y)"),
        ("return self.conv(y)", "return self.conv(y), given == self.stride == self.size"),
        ("y = self.pad", "n = self.size\n        n += 1\n        y = n * self.pad"),
        ("y = self.pad", "n = self.size if given else given\n        y = self.pad"),
        (
            "y = self.pad",
            "n = given\n        if x.ndim:\n            n = self.size\n        y = n * self.pad",
        ),
        ("y = self.pad", "a = b = self.size\n        y = self.pad"),
        ("y = self.pad", "a, b = self.size, 1\n        y = self.pad"),
        (
            "y = self.pad",
            "n = []\n        n.append(self.size)\n        return n\n        y = self.pad",
        ),
        (
            "y = self.pad",
            "n = self.size\n        o = [x[:n] + n for n in given]\n        y = self.pad",
        ),
        (
            "y = self.pad",
            "n = self.size\n        with given as n:\n            x = n * x\n        y = self.pad",
        ),
        (
            "y = self.pad",
            "n = self.size\n        if n := given:\n            x = x * n\n        y = self.pad",
        ),
        ("y = self.pad", "n = self.size\n        o = lambda: n\n        y = self.pad"),
        (
            "y = self.pad",
            "n = self.size\n        for n in x:\n            x = n * x\n        y = self.pad",
        ),
        ("y = self.pad", "n = max(self.size, given)\n        y = n * self.pad"),
        ("paddings: tuple[int, int]", "paddings"),
        ("paddings: tuple[int, int]", "paddings: tuple[int, torch.Tensor]"),
        (
            "    def forward",
            "    def run(self, other, x):\n        return other.extra(x)\n\n    def forward",
        ),
        (
            "    def forward",
            "    def run(self, x):\n        return map(self.extra, x)\n\n    def forward",
        ),
    ],
)
def test_numbers_that_may_be_wanted_as_tensors_stay(old: str, new: str) -> None:
    decline(edited(BEFORE, old, new), "PG206", "may be wanted as a tensor")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("size - stride, persistent=False", "size - stride", "saved with the model"),
        ("size - stride, persistent=False", "size - stride, persistent=True", "saved"),
        ("y = self.pad", "self.total = given\n        y = self.pad", "set elsewhere"),
        ("y = self.pad", "self.stride += 1\n        y = self.pad", "set elsewhere"),
        ("y = self.pad", "del self.total\n        y = self.pad", "set elsewhere"),
        ("y = self.pad", 'n = getattr(self, "total")\n        y = self.pad', "by its name"),
        ("self.conv.stride[0],", "stride / 2,", "not certainly whole"),
        ("size: int", "size", "not certainly whole"),
        ("(size - 1) * dilation", "(size\n        - 1) * dilation", "several lines"),
    ],
)
def test_other_buffers_stay(old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE, old, new), "PG206", reason)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.tensor((size - 1) * dilation + 1, dtype=torch.int64)", "torch.arange(size)"),
        ("paddings: tuple[int, int]", "self, paddings: tuple[int, int]"),
    ],
)
def test_other_findings_are_not_meant(old: str, new: str) -> None:
    before = edited(BEFORE, old, new).replace("self.register", "x.register")
    decline(before, "PG407", "")


def test_subclasses_and_other_classes_are_told_apart() -> None:
    other = """

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.ones(3)

        def forward(self, x):
            return self.total + x


    class Wider(Padded):
        def right(self, x):
            return x[: self.total]
    """
    expect(
        textwrap.dedent(BEFORE) + textwrap.dedent(other),
        AFTER + textwrap.dedent(other),
        "PG206",
        "unsafe",
    )
    wanted = textwrap.dedent(other).replace("x[: self.total]", "torch.stack([self.total, x])")
    decline(textwrap.dedent(BEFORE) + wanted, "PG206", "may be wanted as a tensor")
