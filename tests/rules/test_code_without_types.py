"""What rules say of values that nothing explains but what is done with them."""

from __future__ import annotations

import pytest

from tests.rules.conftest import lint_text

HEAD = "import torch\nfrom loguru import logger\n"


def codes(body: str, parameters: str = "x: torch.Tensor, states") -> list[str]:
    """The codes of the findings in a function, where every region is asked for."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{HEAD}def f({parameters}):\n{lines}"
    return [finding.code for finding in lint_text(text, regions="all")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = states[0]\ny.requires_grad_()\nreturn y", ["PG508"]),
        ("return states['y'].requires_grad_(True)", ["PG508"]),
        ("y = states[0]\ny.requires_other_()\nreturn y", []),
        ("return states.made.requires_grad_", []),
    ],
)
def test_what_autograd_records_of_an_argument(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("logger.opt(lazy=True).debug('a')", ["PG502"]),
        ("logger.bind(n=1).opt(raw=True).info('a')", ["PG502"]),
        ("states.opt(lazy=True).debug('a')", []),
        ("logger.remove(0)", []),
    ],
)
def test_a_logger_with_other_options(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("torch.tensor([1.0, 0.0])", ["PG304"]),
        ("torch.linspace(0, 1, 3)", ["PG304"]),
        ("(1.0, 0.0)", []),
        ("torch.device('cpu')", []),
    ],
)
def test_a_tensor_as_default(default: str, expected: list[str]) -> None:
    body = "assert times[0] == 1.0\nreturn x"
    assert codes(body, f"x: torch.Tensor, times={default}") == expected
