"""Tensors that a module keeps as plain attributes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import decline, edited, expect, marked

MOVED = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.mask = torch.tril(
            torch.ones(size, size)
        )  # the past

    def forward(self, x):
        return x * «self.mask.to(x.device)»

model = Model()
def forward(x):
    return model(x)
"""
READ = edited(MOVED, "«self.mask.to(x.device)»", "«self.mask»")
BUFFER = """        self.register_buffer("mask", torch.tril(
            torch.ones(size, size)
        ), persistent=False)  # the past
"""
PLAIN = """        self.mask = torch.tril(
            torch.ones(size, size)
        )  # the past
"""


@pytest.mark.parametrize(("text", "code"), [(MOVED, "PG106"), (READ, "PG105")])
def test_it_becomes_a_buffer(text: str, code: str) -> None:
    after = edited(text, PLAIN, BUFFER).replace("«", "").replace("»", "")
    expect(text, after, code, "unsafe")


@pytest.mark.parametrize("text", [MOVED, READ])
def test_it_computes_the_same_and_moves_along(text: str) -> None:
    before = module_of(marked(text)[0])
    after = module_of(marked(edited(text, PLAIN, BUFFER))[0])
    assert_same(run(before.forward, (torch.ones(4),)), run(after.forward, (torch.ones(4),)))
    models: list[Any] = [before.Model(), after.Model()]
    assert models[0].state_dict() == models[1].state_dict() == {}
    assert [model.to("meta").mask.device.type for model in models] == ["cpu", "meta"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def forward(self, x):\n", "    def forward(self, x):\n        self.mask = x\n"),
        ("    def forward(self, x):\n", "    def forward(self, x):\n        del self.mask\n"),
        (PLAIN, "        if size:\n            self.mask = torch.ones(4)\n"),
        (PLAIN, "        self.mask = self.past = torch.ones(4)\n"),
        ("    def __init__", "    def build"),
    ],
)
def test_what_is_set_otherwise_stays(old: str, new: str) -> None:
    decline(edited(READ, old, new), "PG105", "")
