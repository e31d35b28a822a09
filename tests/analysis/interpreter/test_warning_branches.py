"""Arms that a program is not meant to take on every call: they warn, or look for NaN."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, kinds, project

LOOP = """
import logging
import warnings
import torch

logger = logging.getLogger(__name__)

def train(model, loader, optimizer, limit):
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        {branch}

def helper(name, number):
    return name + str(number.item())
"""


@pytest.mark.parametrize(
    ("arm", "reported"),
    [
        ("logger.warning('%s', x.max().item())", False),
        ("text = f'{x.max().item()}'; logger.warning(text)", False),
        ("logger.warning('large'); y = y * x.max().item()", False),
        ("print(x.max().item())", False),
        ("y = y * x.max().item()", True),
        ("print('large'); y = y * x.max().item()", True),
    ],
)
@pytest.mark.parametrize("test", ["(x < 0).any()", "not (x > 0).all()", "x.max() > 100"])
def test_what_a_warning_about_numbers_reads_is_no_cost_of_each_call(
    test: str, arm: str, reported: bool
) -> None:
    found = forward(f"y = x\nif {test}:\n    {arm}\nreturn y")
    assert "branch.if" in found
    assert ("sync.item" in found) is reported


@pytest.mark.parametrize("arm", ["logger.warning('%s', x.max().item())", "y = x.max().item()"])
def test_a_warning_that_no_tensor_decides_is_reported(arm: str) -> None:
    assert "sync.item" in forward(f"y = x\nif x.ndim == 3:\n    {arm}\nreturn y")


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("torch.isnan(x).any()", False),
        ("not torch.isfinite(x).all()", False),
        ("torch.isinf(x).any() or torch.isnan(x).any()", False),
        ("torch.isfinite(x).all()", True),
    ],
)
def test_what_takes_the_place_of_broken_numbers_is_not_reported(test: str, reported: bool) -> None:
    found = forward(f"y = x\nif {test}:\n    y = torch.eye(3).to(x.device)\nreturn y")
    assert "branch.finite-guard" in found
    assert ("host.factory-moved" in found) is reported


@pytest.mark.parametrize(
    ("made", "test", "reported"),
    [
        ("[each for each in parts if each is not None]", "len(held) == 0", False),
        ("[]\nfor each in parts:\n    held.append(each)", "not held", False),
        ("[]\nfor each in parts:\n    held.append(each)", "not len(held) > 0", False),
        ("[]\nfor each in parts:\n    held.append(each)", "len(held) == 1", True),
        ("[]\nfor each in parts:\n    held.append(each)", "held", True),
    ],
)
def test_what_stands_for_no_parts_is_not_reported(made: str, test: str, reported: bool) -> None:
    body = f"held = {made}\nif {test}:\n    return torch.zeros(1).to(x.device)\nreturn x"
    found = forward(body, "x: torch.Tensor, parts: list[torch.Tensor]")
    assert ("host.factory-moved" in found) is reported


LINE = "\n        "


@pytest.mark.parametrize(
    ("branch", "reported"),
    [
        ("if abs(loss) > limit: logger.warning(helper('loss', loss))", False),
        ("if limit: warnings.warn(f'{loss.item()}')", False),
        (f"if limit: pass{LINE}else: warnings.warn(f'{{loss.item()}}')", False),
        ("if abs(loss) > limit: logger.warning('big'); limit = loss.item()", False),
        ("if limit: logger.info(loss.item())", True),
        ("if limit: print(loss.item())", True),
        ("logger.warning(loss.item())", True),
        ("if limit: limit = loss.item(); logger.warning('big')", True),
    ],
)
def test_a_warning_of_a_training_loop_is_not_given_on_every_step(
    branch: str, reported: bool
) -> None:
    assert ("loop.read" in loop_kinds(LOOP.format(branch=branch))) is reported


def loop_kinds(source: str) -> list[str]:
    linked, facts = project(m=source)
    return [event.kind for _, event in linked.loop_events(facts["m"])]


@pytest.mark.parametrize(
    ("test", "reported"),
    [("torch.isnan(x).any()", False), ("x.ndim > 2", True)],
)
def test_what_an_arm_for_tensors_of_the_host_calls_is_no_cost(test: str, reported: bool) -> None:
    source = "import torch\ndef read(x):\n    return x.sum().item()\n"
    source += "class M(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += f"        if {test}:\n            return read(x)\n        return x\n"
    assert ("sync.item" in kinds(source)) is reported


@pytest.mark.parametrize(
    ("head", "reported"),
    [
        (
            "if self.table is not None and len(x) <= self.table.shape[0]:\n    return self.table",
            False,
        ),
        ("if self.table is not None and self.ready:\n    return self.table", True),
        ("if self.table is None or len(x) > len(self.table):\n    {}\n    return x", False),
        ("if self.other is None or len(x) > len(self.other):\n    {}\n    return x", True),
    ],
)
def test_a_table_that_is_kept_is_not_made_on_each_call(head: str, reported: bool) -> None:
    making = "self.table = torch.arange(len(x)).to(x.device)"
    body = head.format(making) if "{}" in head else f"{head}\n{making}\nreturn self.table"
    source = (
        "import torch\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.table = None\n        self.other = None\n"
        "    def forward(self, x: torch.Tensor):\n        "
    ) + body.replace("\n", "\n        ")
    assert ("host.factory-moved" in kinds(source)) is reported


@pytest.mark.parametrize(("first", "reported"), [("time.time()", True)])
def test_what_sleeps_in_between_is_not_compiled(first: str, reported: bool) -> None:
    source = "import time\nimport torch\nclass M(torch.nn.Module):\n"
    source += "    def forward(self, x: torch.Tensor):\n        return self.answer(x)\n"
    source += f"    def answer(self, x):\n        {first}\n        return x.tolist()\n"
    assert ("sync.tolist" in kinds(source)) is reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert "sync.tolist" in [each.kind for each in confirmed(linked, facts["m"])]
