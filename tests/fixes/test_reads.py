"""Reads in lists, draws on the host, positions from sizes, branches that set a truth value."""

from __future__ import annotations

import textwrap

import pytest
import torch

from pygraph_lint.analysis.domain.region import Region, RegionKind
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import marked, offer


def _texts(before: str, code: str, region: Region | None = None) -> tuple[str, str]:
    fix, after = offer(before, code, region=region)
    assert fix is not None and fix.applicability != "declined", fix
    return marked(before)[0], after


DRAWS = {
    "a seed of the function's own": (
        "def noise(seed):\n"
        "    generator = «torch.Generator()».manual_seed(int(seed))\n"
        "    return torch.rand(3, generator=generator)\n",
        "noise(3)",
    ),
    "a constructor": (
        "class Noise:\n"
        "    def __init__(self, seed):\n"
        "        source = np.random.SeedSequence(seed)\n"
        "        a, b = source.generate_state(2)\n"
        "        generator = «torch.Generator()».manual_seed(int(a) + int(b))\n"
        "        self.values = torch.rand(3, generator=generator)\n",
        "Noise(3).values",
    ),
    "numbers of numpy, for what is read off a tensor": (
        "def noise(lengths):\n"
        "    found = np.zeros(3)\n"
        "    for length in lengths.detach().cumsum(0).tolist():\n"
        "        found = np.add(found, «np.random.RandomState(int(length))».rand(3))\n"
        "    return found\n",
        "torch.as_tensor(noise(x))",
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_draws_on_the_host_is_left_out_whole(name: str) -> None:
    made, used = DRAWS[name]
    before = (
        f"import numpy as np\nimport torch\n\n\n{made}\n\ndef forward(x):\n    return x + {used}\n"
    )
    fix, after = offer(before, "PG513")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("drawing_function", "unsafe")
    assert after.count("@torch.compiler.disable\n") == 1
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    given = (torch.ones(3, requires_grad=True),)
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given)


@pytest.mark.parametrize(
    "line",
    ["layer(torch.rand(3))", "torch.nn.functional.silu(torch.rand(3))", "layer.encode(3)"],
)
def test_what_also_works_for_the_device_is_not_left_out(line: str) -> None:
    text = (
        "import torch\n\ndef noise(layer):\n    generator = «torch.Generator()».manual_seed(1)\n"
        f"    return torch.rand(3, generator=generator) + {line}\n\n"
        "def forward(x, layer):\n    return x + noise(layer)\n"
    )
    fix, _ = offer(text, "PG513")
    assert fix is not None and fix.rewrite != "drawing_function"
    loop = text.replace(
        "    return torch.rand(3, g",
        "    for _ in range(2):\n        x = layer.encode(3)\n    return torch.rand(3, g",
    )
    fix, _ = offer(loop, "PG513")
    assert fix is not None and fix.rewrite != "drawing_function"


POSITIONS = {
    "lengths": (
        "    ends = «torch.repeat_interleave(grid[:, 0] * grid[:, 1], grid[:, 0])»\n"
        "    return torch.nn.functional.pad(ends.cumsum(dim=0), (1, 0), value=0)\n"
    ),
    "loop": (
        "    found = []\n"
        "    for a, b in «grid.tolist()»:\n"
        "        rows, columns = torch.meshgrid(torch.arange(a), torch.arange(b), indexing='ij')\n"
        "        found.append(torch.stack([rows.flatten(), columns.flatten()], dim=-1))\n"
        "    return torch.cat(found, dim=0)\n"
    ),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_what_works_out_positions_is_left_out_whole(name: str) -> None:
    before = (
        f"import torch\n\n\ndef positions(grid: torch.Tensor):\n{POSITIONS[name]}\n\n"
        "def forward(x: torch.Tensor, grid: torch.Tensor):\n    return x * 2, positions(grid)\n"
    )
    code = "PG203" if "tolist" in before else "PG404"
    old, new = (module_of(text).forward for text in _texts(before, code))
    given = (torch.ones(3), torch.tensor([[2, 3], [1, 2]]))
    assert_same(run(old, given), run(new, given))
    assert breaks(old, given) >= breaks(new, given) == 1


READ = {
    "whatever is chosen": (
        "if size is None:\n    size = «lengths.max()».item()\n"
        "else:\n    size = size + 0 * «lengths.min()».item()"
    ),
    "once more behind": (
        "low = «lengths.min()».item()\nif size is None:\n    size = «lengths.max()».item()"
    ),
    "as condition": "if «lengths.max().item()» > 0:\n    size = «lengths.max()».item()",
}
MASK = """
import torch


def mask_of(lengths: torch.Tensor, size=None):
BODY
    return torch.arange(size) < lengths[:, None]


def forward(x: torch.Tensor, lengths: torch.Tensor):
    return x * mask_of(lengths, 3), mask_of(lengths)
"""


@pytest.mark.parametrize("name", READ)
def test_a_read_that_callers_cannot_avoid_is_left_out(name: str) -> None:
    body = textwrap.indent(READ[name], "    ")
    fix, after = offer(MASK.replace("BODY", body), "PG201")
    assert fix is not None
    assert (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe"), fix
    old, new = (module_of(text).forward for text in (marked(MASK.replace("BODY", body))[0], after))
    arguments = (torch.ones(2, 3), torch.tensor([1, 3]))
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) >= breaks(new, arguments)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("step = x.sum()\n    if «not torch.isfinite(step)»:\n        step = step * 0.5", "step"),
    ],
)
def test_a_step_is_selected(body: str, result: str) -> None:
    before = (
        f"import torch\n\ndef forward(x: torch.Tensor):\n    {body}\n    return x * 2, {result}\n"
    )
    old, new = (module_of(text).forward for text in _texts(before, "PG301"))
    for values in ([0.0, 1.0], [7.0, -9.0], [float("inf"), 1.0]):
        given = (torch.tensor(values),)
        assert_same(run(old, given), run(new, given))
    assert breaks(old, given) > breaks(new, given) == 0


@pytest.mark.parametrize("value", ["False", "len(x) > 3", "x is None", "k in (1, 2)"])
def test_a_truth_value_of_python_stays(value: str) -> None:
    body = f"    ok = {value}\n    if «x.max() > 5»:\n        ok = True\n    return ok\n"
    text = f"import torch\n\ndef forward(x: torch.Tensor, k: int):\n{body}"
    fix, _ = offer(text, "PG301")
    assert fix is not None and fix.applicability == "declined"


def test_a_message_in_a_region_brings_torch_along() -> None:
    body = "\n\ndef check(n):\n    «logger.debug('n')»\n    return n\n"
    region = Region("check", ("forward", "line 3 calls check"), RegionKind.MODEL)
    for head, place in (
        ("import os\n\nfrom loguru import logger\n", "import os\n\n"),
        ("from loguru import logger\nimport os\n", ""),
        ("from loguru import logger\n\ndef f():\n    import torch\n", ""),
    ):
        fix, after = offer(head + body, "PG502", region=region)
        assert fix is not None and fix.applicability == "unsafe"
        start = f"{place}from loguru import logger\nimport torch\n"
        assert after.startswith(start) and "if not torch.compiler.is_compiling():" in after
        assert "the file imports torch now" in fix.reason
    for head in (
        "import os\ntry:\n    from torch import nn\nexcept ImportError:\n    nn = None\n",
    ):
        fix, _ = offer(head + body, "PG502", region=region)
        assert fix is not None and fix.applicability == "declined"


# The forms of two unrelated projects.
SPLITS = {
    "parts of a batch": (
        "parts = [torch.split_with_sizes(each, split_sizes=«sizes.tolist()», dim=0) for each in x]"
        "\n    return parts[0]"
    ),
    "a trajectory": (
        "component = [each[:, 0] for each in x]\n"
        "    parts = [t.split(«sizes.tolist()», dim=0) for t in component]\n"
        "    return list(zip(*parts))[0]"
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_lists_that_read_in_each_turn_are_moved(name: str) -> None:
    before = f"import torch\n\ndef forward(x, sizes: torch.Tensor):\n    {SPLITS[name]}\n"
    fix, after = offer(before, "PG203")
    assert fix is not None and (fix.rewrite, fix.applicability) == (
        "breaking_statements",
        "unsafe",
    ), fix
    old, new = (module_of(text).forward for text in (marked(before)[0], after))
    arguments = ([torch.rand(3, 2), torch.rand(3, 1)], torch.tensor([1, 2]))
    assert_same(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) >= breaks(new, arguments) == 1
