"""Losses of the rows that a mask selects, which ignore the other rows instead."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.fixes.equivalence import assert_near, breaks, module_of, run
from tests.fixes.support import marked, offer

# As supar, vit-pytorch, unilm, mmf, ogb and trl write them.
LOSSES = {
    "function": "loss = F.cross_entropy(«scores[keep]», labels[keep])",
    "scores of words": "loss = F.cross_entropy(«words[both]», more[both], label_smoothing=0.1)",
    "without a name": "loss = F.cross_entropy(«scores[labels >= 0]», labels[labels >= 0])",
    "left out": "loss = F.nll_loss(«scores[~keep]», labels[~keep], reduction='sum')",
    "converted": "loss = F.cross_entropy(«scores[keep]», labels.float()[keep].long())",
    "an attribute": "loss = self.criterion(«scores[keep]», labels[keep])",
    "a local name": "loss_fct = nn.CrossEntropyLoss(ignore_index=1)\n"
    "loss = loss_fct(«scores[keep]», labels[keep])",
    "made on the spot": "loss = nn.NLLLoss(self.weight)(«scores[keep]», labels[keep])",
    "summed": "loss = F.cross_entropy(«scores[keep]», labels[keep], reduction='none').sum() / 2",
    "weighted": "loss = F.cross_entropy(«scores[keep]», labels[keep], weight=self.weight)",
    "nothing is kept": "keep = labels > 99\nloss = F.cross_entropy(«scores[keep]», labels[keep])",
}


def _module(body: str) -> str:
    start = """
        import torch
        import torch.nn.functional as F
        from torch import nn


        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.criterion = nn.CrossEntropyLoss()
                self.register_buffer("weight", torch.tensor([0.5, 2.0, 1.0]))

            def forward(self, scores, labels, words, more):
                keep = labels >= 0
                both = more != 2
        """
    lines = [*body.splitlines(), "return loss"]
    return textwrap.dedent(start).lstrip() + textwrap.indent("\n".join(lines), " " * 8) + "\n"


def _arguments() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6, 3, generator=generator, requires_grad=True)
    words = torch.randn(2, 4, 5, generator=generator, requires_grad=True)
    more = torch.tensor([[0, 1, 2, 2], [4, 3, 2, 0]])
    return scores, torch.tensor([0, -7, 2, 1, -7, 2]), words, more


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_ignores_what_a_mask_leaves_out(name: str) -> None:
    body = LOSSES[name]
    if name == "left out":
        body = "keep = labels < 0\n" + body
    before = _module(body)
    fix, after = offer(before, "PG402")
    assert fix is not None and fix.applicability == "unsafe", fix
    old, new = (module_of(text).Model() for text in (marked(before)[0], after))
    assert_near(run(old, _arguments()), run(new, _arguments()))
    assert breaks(old, _arguments()) > breaks(new, _arguments()) == 0


@pytest.mark.parametrize(
    "line",
    (
        "loss = F.cross_entropy(«scores[keep]», labels[keep], reduction='none')",
        "loss = F.cross_entropy(«scores[keep]», labels[keep], reduction='none').sum(0)",
        "loss = F.cross_entropy(«scores[keep]», labels[both])",
        "loss = F.cross_entropy(«scores[keep]», labels[keep], ignore_index=self.ignored)",
        "loss = F.mse_loss(«scores[keep]», labels[keep])",
        "loss = F.cross_entropy(«scores[keep]», labels[keep].float())",
        "loss = self.other(«scores[keep]», labels[keep])",
        "loss = nn.CrossEntropyLoss(None, None, 1)(«scores[keep]», labels[keep])",
        "loss = max(«scores[keep]», labels[keep])",
        "keep = ~torch.isnan(scores[:, 0])\nloss = F.cross_entropy(«scores[keep]», labels[keep])",
        "keep = torch.zeros(6) == 0\nloss = F.cross_entropy(«scores[keep]», labels[keep])",
    ),
)
def test_another_loss_stays(line: str) -> None:
    fix, after = offer(_module(line), "PG402")
    assert fix is None or fix.applicability == "declined"
    assert after == marked(_module(line))[0]


OTHERS = {
    "a subclass": """

class Focal(Model):
    def __init__(self):
        super().__init__()
        self.criterion = None
""",
    "from outside": """

def use(model, criterion):
    model.criterion = criterion
""",
    "by its name": """

def use(model, criterion):
    setattr(model, "criterion", criterion)
""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_loss_that_something_else_sets_stays(name: str) -> None:
    text = _module("loss = self.criterion(«scores[keep]», labels[keep])") + OTHERS[name]
    fix, after = offer(text, "PG402")
    assert fix is None or fix.applicability == "declined"
    assert after == marked(text)[0]


def test_labels_of_eight_bits_hold_no_ignored_label() -> None:
    before = _module(
        "keep = labels != 255\nloss = F.cross_entropy(«scores[keep]», labels[keep].long())"
    )
    _, after = offer(before, "PG402")
    old, new = (module_of(text).Model() for text in (marked(before)[0], after))
    scores, _, *others = _arguments()
    labels = torch.tensor([0, 255, 2, 1, 255, 2], dtype=torch.uint8)
    assert_near(run(old, (scores, labels, *others)), run(new, (scores, labels, *others)))


def test_a_loss_that_the_class_sets_twice_stays() -> None:
    text = _module("loss = self.criterion(«scores[keep]», labels[keep])")
    text += "\n    def use(self, criterion):\n        self.criterion = criterion\n"
    fix, after = offer(text, "PG402")
    assert fix is None or fix.applicability == "declined"
    assert after == marked(text)[0]
