"""What the tests of the rule pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pygraph_lint.analysis.extract import extract, loop_bodies
from pygraph_lint.analysis.link import link
from pygraph_lint.findings import Finding
from pygraph_lint.rules import catalogue, reporter


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The examples are tiny: threads only cost."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def lint_text(
    text: str, target_torch: str | None = None, regions: str = "forward"
) -> list[Finding]:
    """What every rule, preview ones too, says about one module."""
    rules = catalogue.load()
    facts = extract(text, "example.py", "example", False, reporter.sinks(rules))
    options = reporter.Options(target_torch=target_torch, preview=True, regions=regions)
    linked = link(
        [facts], options.asked, bodies_of=lambda module: loop_bodies(text, module.module, False)
    )
    return reporter.Reporter(linked, rules, options).findings(facts)
