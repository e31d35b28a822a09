"""The linter is scored for the torch of the truth, unless another one is asked for."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.lint_truth import __main__ as models
from benchmarks.lint_truth_packages import __main__ as packages


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], ["--target-torch=2.13"]),
        (["regions=all"], ["--regions=all", "--target-torch=2.13"]),
        (["target-torch=2.15"], ["--target-torch=2.15"]),
    ],
)
def test_target_of_models(asked: list[str], expected: list[str]) -> None:
    arguments = argparse.Namespace(lint=asked)
    assert models._options(arguments, "2.13.0+cpu") == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", "--target-torch 2.13"),
        ("--regions all", "--regions all --target-torch 2.13"),
        ("--target-torch 2.15", "--target-torch 2.15"),
    ],
)
def test_target_of_packages(asked: str, expected: str) -> None:
    assert packages._options(asked, "2.13.0+cpu") == expected
