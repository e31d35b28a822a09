"""Conditions that come out one way on most calls."""

from __future__ import annotations

import ast

import pytest

from pygraph_lint.analysis.control_flow.rare_branches import is_rare_outcome, is_without_gpu
from tests.analysis.loops.test_costs import kinds as in_loops
from tests.analysis.programs import kinds


@pytest.mark.parametrize(
    ("test", "if_true", "if_false"),
    [
        ("step % 100 == 0", True, False),
        ("(trainer.global_step - 1) % self.every != 0", False, True),
        ("not step % 100 == 0", False, True),
        ("batch_idx % 10", False, True),
        ("self.on and self.iter % n == 0", True, False),
        ("loop is None or loop.global_step % 100 != 0", False, True),
        ("self.on or step % 100 == 0", False, False),
        ("x.shape[0] % 2 == 0", False, False),
        ("x.device != device", True, False),
        ("self.table.device == x.device", False, True),
        ("x.device != torch.device('cpu')", False, False),
        ("x.dtype != y.dtype", False, False),
        ("False and hasattr(self, 'table')", True, False),
        ("True", False, True),
    ],
)
def test_how_a_condition_seldom_comes_out(test: str, if_true: bool, if_false: bool) -> None:
    tree = ast.parse(test, mode="eval").body
    assert (is_rare_outcome(tree, True), is_rare_outcome(tree, False)) == (if_true, if_false)


@pytest.mark.parametrize(
    ("test", "if_true", "if_false"),
    [
        ("device.type == 'cuda'", False, True),
        ("self.device.type != 'cuda'", True, False),
        ("str(x.device) == 'cpu'", True, False),
        ("not torch.cuda.is_available()", True, False),
        ("torch.cuda.is_available() and pinned", False, False),
        ("x.is_cuda", False, True),
        ("x.is_cpu", True, False),
        ("x.is_cuda or fast", False, True),
        ("device == other", False, False),
        ("name == 'cuda'", False, False),
        ("device.type == 'mps'", False, False),
    ],
)
def test_how_a_condition_comes_out_without_a_gpu(test: str, if_true: bool, if_false: bool) -> None:
    tree = ast.parse(test, mode="eval").body
    assert (is_without_gpu(tree, True), is_without_gpu(tree, False)) == (if_true, if_false)


@pytest.mark.parametrize(("place", "found"), [("cuda", []), ("mps", ["loop.copy"])])
def test_the_arm_of_a_step_that_runs_without_a_gpu(place: str, found: list[str]) -> None:
    source = f"""
    def train(net, loader, device):
        for x in loader:
            if device.type == "{place}":
                x = x.pin_memory().to(device, non_blocking=True)
            else:
                x = x.to(device)
            net(x).sum().backward()
    """
    assert in_loops(source) == found


MODULE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        {line}
        return x * 2

    def shows(self, x):
        loop = self.loop
        if loop is None or loop.global_step % 100 != 0:
            return
        print(x.sum().item())
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("if self.global_step % 100 == 0: x = x * x.sum().item()", False),
        ("self.shows(x)", False),
        ("if self.table.device != x.device: x = x * x.sum().item()", False),
        ("if x.shape[0] % 2 == 0: x = x * x.sum().item()", True),
        ("if x.device.type == 'cpu': x = x * x.sum().item()", False),
        ("if x.is_cuda: x = x * x.sum().item()", True),
    ],
)
def test_what_runs_on_few_calls_is_not_reported(line: str, found: bool) -> None:
    assert ("sync.item" in kinds(MODULE.format(line=line))) is found


HOOK = """
import pytorch_lightning as pl

class Show(pl.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        {early}
        loss = module(next(self.batches).to(module.device)).sum()
        loss.backward()
        print(loss.item())
"""


@pytest.mark.parametrize(
    ("early", "found"),
    [("if trainer.global_step % self.n != 0: return", False), ("trainer.global_step", True)],
)
def test_a_hook_of_every_n_steps_is_no_step(early: str, found: bool) -> None:
    assert bool(in_loops(HOOK.format(early=early))) is found


def test_a_copy_for_another_device_is_not_one_of_each_step() -> None:
    source = """
    def train(net, loader, device):
        for x in loader:
            if x.device != device:
                x = x.to(device)
            net(x).sum().backward()
    """
    assert in_loops(source) == []


def test_what_numba_compiles_is_no_region() -> None:
    walk = (
        "def walk(edges):\n    for each in edges:\n        if each != edges[0]:\n            return"
    )
    text = f"""
import torch
from numba import njit

@njit(cache=True)
{walk}

class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return walk(x)
"""
    assert kinds(text) == []
    assert kinds(text.replace("@njit(cache=True)\n", "")) == ["branch.if"]


@pytest.mark.parametrize(
    ("default", "line", "found"),
    [
        (" | None = None", "mask = mask or x", []),
        (" | None = None", "mask = mask.any() or x", ["branch.ternary"]),
        ("", "mask = mask or x", ["branch.ternary"]),
    ],
)
def test_a_tensor_that_may_be_left_out_is_asked_for_and_not_for_its_truth(
    default: str, line: str, found: list[str]
) -> None:
    source = f"""
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor, mask: torch.Tensor{default}):
                {line}
                return x * mask
    """
    assert kinds(source) == found
