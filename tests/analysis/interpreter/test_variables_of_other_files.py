"""Tests for None of variables that another file of the package holds."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, project

SETTINGS = """
    LIMIT = None
"""


@pytest.mark.parametrize(
    ("head", "test", "expected"),
    [
        ("from pkg.settings import LIMIT", "LIMIT is None", ["sync.item"]),
        ("from pkg.settings import LIMIT", "LIMIT is not None", ["sync.item"]),
        ("from pkg import settings", "settings.LIMIT is None", ["sync.item"]),
        ("import pkg.settings", "pkg.settings.LIMIT == None", ["sync.item"]),
        # what is imported from elsewhere is there
        ("from other import fast", "fast is None", []),
        ("from other import fast", "fast is not None", ["sync.item"]),
    ],
)
def test_a_variable_of_another_file_may_be_none(head: str, test: str, expected: list[str]) -> None:
    source = f"""
        import torch
        {head}
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                if {test}:
                    return x.sum().item()
                return x
    """
    linked, facts = project(pkg__settings=SETTINGS, pkg__m=source)
    assert [event.kind for event in confirmed(linked, facts["pkg.m"])] == expected
