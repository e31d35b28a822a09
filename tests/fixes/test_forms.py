"""Checks and masks in the spellings that other people's code uses."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.fixes.equivalence import assert_near, assert_same, breaks, module_of, run
from tests.fixes.support import marked, offer

CHECKS = {
    "torchdiffeq": ("PG301", "assert «(x[1:] > x[:-1]).all()», '{} must grow'.format(k)"),
    "e3nn": ("PG207", "assert «torch.allclose(x, x)»"),
    "torchcde": ("PG307", "assert not «torch.isnan(x).any()», f'nan in {k}'"),
    "chained": ("PG301", "assert «x[0] <= x[1] <= x[2]», f'{x}'"),
    "raise": ("PG207", "if not «torch.allclose(x, x)»:\n        raise ValueError('no')"),
    "says, raises": (
        "PG307",
        "if «torch.isnan(x).any()»:\n        print('nan')\n        raise ValueError(f'{x}')",
    ),
    "text, raises": (
        "PG201",
        "if «x.min().item()» < -1:\n        text = f'{x}'\n        raise ValueError(text)",
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_checks_are_left_to_eager_code(name: str) -> None:
    code, body = CHECKS[name]
    before = f"import torch\n\ndef forward(x: torch.Tensor, k):\n    {body}\n    return x * 2\n"
    fix, after = offer(before, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    for values in ([0.0, 1.0, 2.0], [float("nan"), 0.0, -3.0]):
        arguments = (torch.tensor(values), "k")
        assert_same(run(old, arguments), run(new, arguments))
    arguments = (torch.tensor([0.0, 1.0, 2.0]), "k")
    assert breaks(old, arguments) > breaks(new, arguments) == 0


def _same_and_whole(before: str, code: str, arguments: tuple[object, ...]) -> None:
    """The fixed source of a ``forward``: it computes the same, and is one graph."""
    plain = marked(before)[0]
    fix, after = offer(before, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (plain, after))
    assert_near(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 0


WRITES = {
    "pypose": """
        real = torch.zeros_like(x)
        idx = x > 0.1
        «real[idx] = torch.sin(x[idx]) / x[idx]»
        return real
    """,
    "other half": """
        real = torch.zeros_like(x)
        idx = x > 0.1
        «real[~idx] = 1.0 - (1.0 / 8.0) * x[~idx] ** 2»
        return real
    """,
    "torchmin": """
        new = x.clone()
        lower = x < 0
        «new[lower] = y[lower].add(x[lower].abs().clamp(1, None), alpha=2.0)»
        return new
    """,
    "roma": """
        low = x * 1
        «low[low < -0.5] += 2 * math.pi»
        return low
    """,
    "rows": """
        low = x * 1
        «low[x[:, 0] < 0, :] *= -1»
        return low
    """,
    "kornia": """
        chosen = x.mean(1) > 0
        out = x.clone()
        «out[chosen] = y[chosen]»
        return out
    """,
    "log": """
        out = torch.zeros_like(x)
        kept = x > 0
        «out[kept] = x[kept].log()»
        return out
    """,
}


def _module(body: str) -> str:
    lines = textwrap.dedent(body).strip("\n").splitlines()
    head = "import math\nimport torch\n\ndef forward(x: torch.Tensor, y: torch.Tensor):\n"
    return head + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_a_mask_become_a_selection(name: str) -> None:
    x = torch.tensor([[-1.0, 0.0], [0.5, -0.25], [2.0, 0.01]], requires_grad=True)
    y = torch.arange(6.0).reshape(3, 2).requires_grad_()
    code = "PG402" if name in ("roma", "rows") else "PG406"
    _same_and_whole(_module(WRITES[name]), code, (x, y))


@pytest.mark.parametrize(
    "mask", ["y < near", "(y < near) & ~(near > 5)", "torch.isnan(y) | (near == y)"]
)
def test_a_mask_that_compares_what_it_selects_from_has_its_dimensions(mask: str) -> None:
    text = _module(
        f"""
        near = torch.empty(y.shape).fill_(1.0)
        closer = {mask}
        «near[closer] = y[closer]»
        return near
        """
    )
    _, changed = offer(text, "PG406")
    assert "torch.where(closer, y, near)" in changed
    _same_and_whole(text, "PG406", (torch.zeros(3, 2), torch.arange(6.0).reshape(3, 2)))


SCALED = [
    ("«torch.add(x, y.abs() + 1, alpha=x.max())»", "torch.add(x, (y.abs() + 1) * x.max())"),
    ("«torch.add(x, y, alpha=-x.max())»", "torch.add(x, y * (-x.max()))"),
    ("«x.sub(y, alpha=x.max())»", "x.sub(y * x.max())"),
    ("«torch.add(\n    x, y, alpha=x.max()\n)»", "torch.add(\n        x, y * x.max()\n    )"),
    ("«torch.addcmul(x, y, y, value=x.max())»", "torch.addcmul(x, y * x.max(), y)"),
    (
        "«torch.addr(x, y[:, 0], y[0], alpha=x.max())»",
        "torch.addr(x, y[:, 0] * x.max(), y[0])",
    ),
    ("x[«x[:, 0].argmax()»]", "x[x[:, 0].argmax().reshape(1)].squeeze(0)"),
    ("x.T[«-x[0].argmax()»] * 2", "x.T[(-x[0].argmax()).reshape(1)].squeeze(0) * 2"),
]


@pytest.mark.parametrize(("before", "after"), SCALED)
def test_factors_and_indices_stay_on_the_device(before: str, after: str) -> None:
    code = "PG407" if "arg" in before else "PG202"
    x = torch.tensor([[-1.0, 0.0], [0.5, -0.25]])
    text = _module(f"return {before}")
    assert after in offer(text, code)[1]
    _same_and_whole(text, code, (x, torch.arange(4.0).reshape(2, 2)))


CHOICES = {
    "one element": "if «y[:1, 0] <= 0»:\n    x = x * 2\nreturn x.sum()",
    "no dimensions": "z = x.sum()\nif «y[:1, 0] <= 0»:\n    z = z * 2\nreturn z",
    "ternary": "return x * 2 if «y.sum() > 0» else x",
    "ternary of one element": "return x * 2 if «y[:1, :1] > 0» else -x",
    "or": "if «y.sum() > 0 or x.sum() > 0»:\n    x = x.relu()\nreturn x",
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_by_a_tensor_are_selections(name: str) -> None:
    x, y = torch.randn(3, 2, requires_grad=True), torch.arange(6.0).reshape(3, 2)
    _same_and_whole(_module(CHOICES[name]), "PG301", (x, y))


def test_what_a_step_says_is_said_every_fifty(capsys: pytest.CaptureFixture[str]) -> None:
    source = _module("for step, row in enumerate(x):\n    print(«row.sum().item()»)\nreturn x")
    fix, after = offer(source, "PG701")
    assert fix is not None and fix.applicability == "unsafe", fix
    module_of(after).forward(torch.ones(120, 2), None)
    assert capsys.readouterr().out.count("2.0") == 3


SEGMENT_ANYTHING = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.ModuleList(nn.Embedding(1, 4) for _ in range(2))

    def forward(self, embedding: torch.Tensor, labels: torch.Tensor):
        embedding = embedding * 2
        «embedding[labels == 1] += self.points[1].weight»
        return embedding
"""


def test_a_parameter_added_under_a_mask() -> None:
    fix, after = offer(SEGMENT_ANYTHING, "PG402")
    assert fix is not None and fix.applicability == "unsafe", fix
    torch.manual_seed(0)
    old, new = (module_of(text).Model() for text in (marked(SEGMENT_ANYTHING)[0], after))
    new.load_state_dict(old.state_dict())
    arguments = (torch.randn(2, 3, 4, requires_grad=True), torch.tensor([[0, 1, 1], [-1, 1, 0]]))
    assert_near(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 0


def test_an_assert_whose_message_reads_a_tensor() -> None:
    source = _module("assert x.shape[0] < 9, f'{«x.sum().item()»}'\nreturn x * 2")
    fix, after = offer(source, "PG201")
    assert fix is not None and fix.applicability == "unsafe", fix
    assert "assert torch.compiler.is_compiling() or x.shape[0] < 9" in after


INDEX = """
import torch


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.arange(9.0))

    def index_of(self, step):
        found = (self.steps == step).nonzero()
        position = 1 if len(found) > 1 else 0
        return «found[position].item()»

    def forward(self, x, step):
        return x * 2 + self.index_of(step)
"""


def test_a_function_that_reads_is_one_break() -> None:
    fix, after = offer(INDEX, "PG201")
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).Steps() for text in (marked(INDEX)[0], after))
    arguments = (torch.ones(2), torch.tensor(3.0))
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 1


SINGLE_ELEMENTS = {
    "a limit that is a number": ("x: torch.Tensor", "if «x > 2.0»:\n        x = 2.0\n    return x"),
    "what the condition shows": (
        "x: torch.Tensor, y: torch.Tensor",
        "if «x < 0.1» or y < 0.1:\n        z = torch.tensor(0.5)\n    else:\n        z = x / y"
        "\n    return z",
    ),
    "through a name": (
        "x: torch.Tensor",
        "y = x.exp() + 1\n    if «x > 1»:\n        y = x * 2\n    return y",
    ),
}


@pytest.mark.parametrize("name", SINGLE_ELEMENTS)
def test_choices_between_single_elements(name: str) -> None:
    head, body = SINGLE_ELEMENTS[name]
    before = f"import torch\n\ndef forward({head}):\n    {body}\n"
    fix, after = offer(before, "PG301")
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    for one, two in ((0.05, 3.0), (4.0, 0.05), (1.5, 2.0)):
        for shape in ((), (1,)):
            arguments = (torch.full(shape, one), torch.full(shape, two))[: head.count(":")]
            results = [run(each, arguments).outputs[0] for each in (old, new)]
            torch.testing.assert_close(
                torch.as_tensor(results[0]).sum(), torch.as_tensor(results[1]).sum()
            )
    assert breaks(old, arguments) > breaks(new, arguments) == 0


LOOPS = {
    "PG703": ("if «torch.isnan(loss)»:", "if step % 50 == 0 and torch.isnan(loss):"),
    "PG704": ("x = «x.to(device)»", "x = x.to(device, non_blocking=True)"),
    "PG706": ("«torch.cuda.synchronize()»", "if step % 50 == 0:"),
    "PG705": ("«torch.cuda.empty_cache()»", "if step % 50 == 0:"),
}


@pytest.mark.parametrize("code", LOOPS)
def test_training_loops_wait_less_often(code: str) -> None:
    line, expected = LOOPS[code]
    body = "            raise ValueError('nan')\n" if line.startswith("if") else ""
    source = (
        "import torch\n\ndef train(loader, device, model):\n"
        "    for step, x in enumerate(loader):\n        loss = model(x)\n"
        f"        loss.backward()\n        {line}\n{body}"
    )
    fix, after = offer(source, code)
    assert fix is not None and fix.applicability == "unsafe", fix
    assert f"        {expected}\n" in after


COUNTED = {
    "a progress bar with a name": ("bar = tqdm(range(9))\n    for step in bar:", ""),
    "a range that is shown": ("for step in trange(9):", ""),
    "a counter of its own": ("step = 0\n    for x in loader:", "step += 1"),
    "a range of other steps": ("for step in range(1, 9, 2):", ""),
    "a number that changes": ("for step in range(9):", "step *= 2"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_loops_that_count_their_steps(name: str) -> None:
    head, count = COUNTED[name]
    source = (
        "import torch\nfrom tqdm import tqdm, trange\n\n"
        f"def train(loader, x, model):\n    {head}\n        loss = model(x)\n"
        f"        loss.backward()\n        print(«loss.item()»)\n        {count or 'pass'}\n"
    )
    fix, after = offer(source, "PG702")
    made = fix is not None and fix.applicability == "unsafe"
    assert made == (list(COUNTED).index(name) < 2), fix
    assert ("        if step % 50 == 0:\n            print(loss.item())\n" in after) == made


def test_what_stands_beside_each_other_is_shown_together() -> None:
    source = (
        "import torch\n\ndef train(loader, model, writer):\n"
        "    for step, x in enumerate(loader):\n        loss = model(x)\n        loss.backward()\n"
        "        print(«loss.item()»)\n        # for the curve\n"
        "        writer.add_scalar('loss', «loss.item()», step)\n        print('no wait')\n"
    )
    _, after = offer(source, "PG702")
    assert after.endswith(
        "        if step % 50 == 0:\n            print(loss.item())\n            # for the curve\n"
        "            writer.add_scalar('loss', loss.item(), step)\n        print('no wait')\n"
    )


KEEPS = """
import torch


class Scheduler:
    def __init__(self):
        self.steps = torch.tensor([3, 2, 1])
        self.index = self.first = None

    def index_of(self, step):
        return «(self.steps == step).nonzero()»[0].item()

    def start(self, step):
        if self.first is None:
            step = step.to(self.steps.device)
            self.index = self.index_of(step)
        else:
            self.index = self.first

    def also(self, step):
        self.index = self.index_of(step)
        return self.index


owner = Scheduler()


def forward(x: torch.Tensor, step):
    owner.start(step)
    return x * owner.index
"""


def test_a_method_that_only_keeps_what_was_read_is_left_out_too() -> None:
    fix, after = offer(KEEPS, "PG401")
    assert fix is not None and fix.applicability == "unsafe", fix
    out = "    @torch.compiler.disable(recursive=False)\n    def {}(self, step)"
    assert out.format("index_of") in after and out.format("start") in after
    old, new = (module_of(each).forward for each in (marked(KEEPS)[0], after))
    arguments = (torch.ones(2), torch.tensor(2))
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments)
