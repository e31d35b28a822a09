"""A layer that is dropped at random runs always, and its result is selected."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import edited, marked, offer

MODEL = """
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, p, synced=False):
        super().__init__()
        torch.manual_seed(0)
        self.p = p
        self.synced = synced
        self.first = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])

    def forward(self, x: torch.Tensor):
        x = self.first(x)
        keep = torch.rand(len(self.layers))
        for number, layer in enumerate(self.layers):
BODY
        return x.exp()
"""
# As three unrelated projects write it: under a flag, with the comparison's result, with a table of
# draws.
FLAG = """
            drop = False
            if self.training and self.p > 0.0:
                draw = torch.rand([])
                if «draw < self.p»:  # skip the layer
                    drop = True

            if not drop:
                # the residual is inside
                x = layer(x)
"""
RESULT = """
            drop = False
            if self.training and self.p > 0.0:
                draw = torch.rand([])
                drop = draw < self.p
            if not «drop» or self.synced:
                x = layer(x)
"""
TABLE = """
            if not self.training or self.p == 0.0 or «keep[number] > self.p»:
                x = layer(x)
"""
FORMS = {"a flag": FLAG, "a result": RESULT, "a table": TABLE}


def _model(form: str) -> str:
    return MODEL.replace("BODY\n", form.removeprefix("\n"))


@pytest.mark.parametrize("name", FORMS)
def test_a_dropped_layer_is_selected_without_a_break(name: str) -> None:
    before = _model(FORMS[name])
    fix, after = offer(before, "PG306")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("dropped_layer", "unsafe")
    assert "zero gradients" in fix.reason
    x = torch.ones(3, 2)
    for p in (0.0, 0.3, 0.7, 1.0):
        for synced in (False, True):
            old, new = (module_of(text).Encoder(p, synced) for text in (marked(before)[0], after))
            for training in (False, True):
                old.train(training), new.train(training)
                assert_same(run(old, (x,)), run(new, (x,)))
    assert breaks(module_of(marked(before)[0]).Encoder(0.5), (x,)) > 0
    assert breaks(module_of(after).Encoder(0.5), (x,)) == 0


def test_comments_and_the_python_branch_stay() -> None:
    _, after = offer(_model(FLAG), "PG306")
    assert "                drop = draw < self.p  # skip the layer\n" in after
    assert "            elif not drop:\n                # the residual is inside\n" in after


@pytest.mark.parametrize(
    ("form", "old", "new"),
    [
        (FLAG, "            drop = False\n", "            drop = number > 1\n"),
        (FLAG, "x = layer(x)\n", "x = layer(x)\n            print(drop)\n"),
        (FLAG, "drop = True\n", "drop = True\n                    continue\n"),
        (RESULT, "x = layer(x)\n", "x = layer(x)\n                x = x * 2\n"),
        (RESULT, "x = layer(x)\n", "x = layer(x)\n            else:\n                x = x * 2\n"),
        (RESULT, "x = layer(x)\n", "last = layer(x)\n"),
        (RESULT, "draw = torch.rand([])", "draw = x.mean()"),
        (RESULT, "if not «drop» or self.synced", "if «drop»"),
        (TABLE, "x = layer(x)\n", "x, _ = layer(x)\n"),
        (TABLE, "x = layer(x)\n", "x = layer(x)\n            x.add_(1)\n"),
        (RESULT, "            drop = False\n", "            x[0] = 0\n            drop = False\n"),
    ],
)
def test_what_is_more_than_a_dropped_layer_stays(form: str, old: str, new: str) -> None:
    fix, _ = offer(edited(_model(form), old, new), "PG306")
    assert fix is None or fix.rewrite != "dropped_layer" or fix.applicability == "declined"


def test_what_is_changed_in_place_before_is_selected_all_the_same() -> None:
    text = edited(
        _model(TABLE), "        keep =", "        x = x.detach()\n        x[0] = 0\n        keep ="
    )
    fix, _ = offer(text, "PG306")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("dropped_layer", "unsafe")
