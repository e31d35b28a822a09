"""What may be an array of NumPy as well as a tensor: which of the two NumPy gets."""

from __future__ import annotations

import pytest

from tests.analysis.programs import kinds

SOURCE = """
import numpy as np
import torch
class M(torch.nn.Module):
    def __init__(self, kept):
        super().__init__()
        self.kept = kept
    def helper(self, t{hint}):
        return np.interp({given}, np.arange(9), np.arange(9))
    def outer(self, t):
        return self.helper(t[:, 0])
    def forward(self, x: torch.Tensor, names):
        h, w = names
        {body}
"""
GRID = "self.helper(np.linspace(0, h, w))"


@pytest.mark.parametrize(
    ("hint", "given", "body", "copies"),
    [
        ("", "t.flatten() * t.shape[0]", f"return x, {GRID}", False),
        ("", "t[:, 0]", f"return x, {GRID}", False),
        ("", "t[:, 0]", "return x, self.other(self.helper)", False),
        ("", "t[:, 0]", "return x, self.outer(np.zeros((3, 3)))", False),
        (": torch.Tensor", "t[:, 0]", f"return x, {GRID}", True),
        ("", "t.unsqueeze(0)", f"return x, {GRID}", True),
    ],
)
def test_a_helper_copies_what_a_call_passes_as_a_tensor(
    hint: str, given: str, body: str, copies: bool
) -> None:
    found = kinds(SOURCE.format(hint=hint, given=given, body=body))
    assert ("sync.numpy" in found) is copies


def test_what_forward_gets_is_a_tensor() -> None:
    body = "return np.sum(names[:, 0]) + x"
    assert "sync.numpy" in kinds(SOURCE.format(hint="", given="t", body=body).replace("h, w", "h"))
