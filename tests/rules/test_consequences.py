"""What the pages say torch.compile does, confirmed by torch.compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from pygraph_lint.rules import catalogue
from tests.rules import examples
from tests.rules.observe import observe

RUN = [
    example
    for rule in catalogue.load().values()
    for example in examples.of_rule(rule)
    if not example.not_run
]
NOT_RUN = {
    "needs a CUDA device",
    "needs several processes, and may hang",
    "aborts the process on torch 2.11",
    "does not parse",
    "no such encoding",
    "nothing to compile",
    "newer versions of Python take no lock",
}


@pytest.mark.parametrize(
    "example", [e for e in RUN if not e.good], ids=lambda example: example.name
)
def test_bad_example(example: examples.Example, tmp_path: Path) -> None:
    seen = observe(examples.load(example, tmp_path))
    if example.claims["compile"] == "ok":
        assert seen.break_lines == ()
    else:
        own = {row for row, codes in example.marks.items() if example.code in codes}
        assert own <= set(seen.lines_of(example.code))
    if example.claims["compile"] == "skipped":
        assert seen.graphs == 0
    assert bool(seen.error) == (example.claims["fullgraph"] == "error"), seen.error


@pytest.mark.parametrize("example", [e for e in RUN if e.good], ids=lambda example: example.name)
def test_good_example_is_one_graph(example: examples.Example, tmp_path: Path) -> None:
    seen = observe(examples.load(example, tmp_path))
    assert seen.break_lines == ()
    assert seen.error == ""


def test_what_is_not_run_needs_what_this_machine_lacks() -> None:
    reasons = {
        example.not_run
        for rule in catalogue.load().values()
        for example in examples.of_rule(rule)
        if example.not_run
    }
    assert reasons == NOT_RUN
