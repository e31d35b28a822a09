"""The pages' claims about waiting and capture, against what was measured on a CUDA device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.rule_consequences_gpu import Seen, chosen, judge
from tests.rules.examples import Example

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "rule_consequences_gpu.json"
ROWS = {row["digest"]: row["seen"] for row in json.loads(RESULTS.read_text())["examples"]}
EXAMPLES = chosen([])
# Measured with torch 2.11; the pages speak of 2.13, where an f-string no longer breaks.
OTHER_VERSION = {"PG209-bad-1": {"compile", "fullgraph"}}


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.digest in ROWS], ids=lambda example: example.name
)
def test_claims_agree_with_the_device(example: Example) -> None:
    verdict = judge(example, Seen(**ROWS[example.digest]))
    wrong = {claim for claim, agrees in verdict.items() if not agrees}
    assert wrong == OTHER_VERSION.get(example.name, set())


def test_nearly_every_example_was_measured() -> None:
    """A page that is new may have none: not everybody who writes one has a GPU."""
    missing = [example.name for example in EXAMPLES if example.digest not in ROWS]
    assert len(missing) <= len(EXAMPLES) // 6, missing
