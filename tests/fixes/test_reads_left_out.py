"""Functions that only read, and comprehensions, are left out of compiled code."""

from __future__ import annotations

import pytest

from tests.fixes.support import offer

READERS = {
    "an early return": """
        if self.steps is None:
            return None
        differences = (self.steps.float() - step).abs()
        index = int(«differences.argmin().item()»)
        return index""",
    "an arm of the object": """
        if self.custom:
            index = «(self.steps == step).nonzero(as_tuple=True)»[0][0]
            found = self.steps[index + 1]
        else:
            found = 0
        return found""",
    "looked up again and again": """
        index = int(«self.steps.argmax().item()»)
        while index > 3:
            index = index - 1
        found = self.steps
        for _ in range(3):
            found = found[index]
        return found, index""",
    "kept": """
        if self.custom:
            self.index = «self.steps.argmax().item()»""",
}


def _sampler(body: str) -> str:
    return f"""
import torch


class Sampler:
    def step(self, x: torch.Tensor, step: torch.Tensor):
        index = self._index_of(step)
        return x * 2, index

    def _index_of(self, step: torch.Tensor):
{body.strip(chr(10))}
"""


@pytest.mark.parametrize("name", READERS)
def test_what_only_reads_is_left_out_whatever_its_object_says(name: str) -> None:
    code = "PG401" if "nonzero" in READERS[name] else "PG201"
    fix, after = offer(_sampler(READERS[name]), code)
    assert fix is not None and fix.rewrite == "breaking_function", fix
    assert "@torch.compiler.disable(recursive=False)\n    def _index_of" in after


def test_what_computes_stays_where_its_object_may_keep_it_from_reading() -> None:
    body = """
        if self.custom:
            return step * «self.steps.max().item()»
        return step * 2"""
    fix, _ = offer(_sampler(body), "PG201")
    assert fix is None or fix.applicability == "declined", fix


def test_a_comprehension_that_ends_the_graph_moves() -> None:
    text = """
import torch


def forward(rows: torch.Tensor, other: torch.Tensor):
    found = [«row.sum().item()» for row in rows]
    return found, other * 2
"""
    fix, after = offer(text, "PG201", closed=True)
    assert fix is not None and (fix.rewrite, fix.applicability) == ("breaking_statements", "unsafe")
    assert "found = _read_found(rows)" in after


@pytest.mark.parametrize(
    "text",
    (
        "def forward(x):\n    rows = [«row.sum().item()» for row in x]\n    return rows\n\n\n"
        "import torch\n",
        "import torch\n\n_Model__scale = 3\n\n\nclass Model:\n"
        "    def forward(self, x: torch.Tensor):\n"
        "        rows = [«row.sum().item()» * __scale for row in x]\n        return rows\n",
    ),
)
def test_a_comprehension_stays_where_it_would_mean_something_else(text: str) -> None:
    fix, after = offer(text, "PG201", closed=True)
    assert fix is None or fix.rewrite != "breaking_statements" or fix.applicability == "declined"
    assert "_read_rows" not in after


def test_values_that_are_made_of_each_other_are_followed_once() -> None:
    lines = ["index = «self.steps.nonzero()»[:, 0]", "a0 = self.steps[index]"]
    lines += [f"a{n} = a{n - 1} + a{n - 1} * 2" for n in range(1, 40)]
    body = "\n".join(f"        {line}" for line in [*lines, "return a39"])
    fix, _ = offer(_sampler(body), "PG401")  # exponential otherwise
    assert fix is not None
