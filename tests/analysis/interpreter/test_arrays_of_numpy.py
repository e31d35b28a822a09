"""What may be an array of NumPy as well as a tensor: which of the two NumPy gets."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, kinds, project

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


CHOP = """
def chop(s, eps):
    if TEST:
        return s
    return s * 2

def hand_on(s, limit):
    return chop(s, limit)
"""


@pytest.mark.parametrize(
    ("test", "given", "found"),
    [
        ("eps <= 0.0", "chop(x, torch.linalg.norm(x).cpu().numpy() * 0.1)", True),
        ("eps <= 0.0", "hand_on(x, x.max().cpu().numpy())", True),
        ("0 == eps", "chop(x, np.sqrt(2.0))", True),
        ("eps <= 0.0", "chop(x, 0.1)", False),
        ("eps <= 0.0", "chop(x, float(np.sqrt(2.0)))", False),
        ("eps is None", "chop(x, np.sqrt(2.0))", False),
        ("eps in (1, 2)", "chop(x, 2)", False),
        ("np.cumsum(s)[-1] > eps**2", "chop(x.cpu().numpy(), 0.1)", True),
        ("len(s) > eps**2", "chop(x, 0.1)", False),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_parameter_that_is_compared_may_be_an_array(
    test: str, given: str, found: bool, apart: bool
) -> None:
    head = "import numpy as np\nimport torch\n"
    chop = head + CHOP.replace("TEST", test)
    model = f"""
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return {given}
"""
    if apart:
        linked, facts = project(chop=chop, m=head + "from chop import chop, hand_on\n" + model)
    else:
        linked, facts = project(chop=chop + model)
    seen = [event.kind for event in confirmed(linked, facts["chop"])]
    assert ("host.numpy-number" in seen) is found
