"""What each form of a finding does on each torch: the linter's table, and what it makes of it."""

from __future__ import annotations

import json

import pytest

from benchmarks.break_forms import TABLE, table
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.syntax.spans import Span
from pygraph_lint.rules import catalogue
from pygraph_lint.rules.break_forms import form_of, keys, rules_of
from pygraph_lint.rules.reporter import Options
from tests.rules.conftest import lint_text

SPAN = Span(1, 0, 1, 1)
RULES = catalogue.load()


def test_the_table_is_what_the_recorded_runs_say() -> None:
    assert json.loads(TABLE.read_text()) == table()


def test_forms_are_by_what_is_called_not_by_the_users_words() -> None:
    assert keys("PG501", Event("call", SPAN, "print")) == ("PG501 call print", "PG501 call")
    assert keys("PG301", Event("branch.if", SPAN, "mask.all()")) == ("PG301 branch.if",)
    assert keys("PG202", Event("sync.number", SPAN, "float()"))[0] == "PG202 sync.number float()"


def test_forms_without_an_example_break_like_another() -> None:
    source = """
import torch
from loguru import logger
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logger.info("a")
        order = x.argsort().tolist()
        part = x.float().tolist()
        return torch.add(x, x, alpha=x.sum()) + order[0] + part[0]
"""
    found = [(f.code, f.gb_id) for f in lint_text(source) if f.gb_id]
    assert found == [
        ("PG502", "GB0007"),
        ("PG203", "GB0033"),
        ("PG203", "GB0109"),
        ("PG202", "GB0033"),
    ]


@pytest.mark.parametrize(
    ("what", "fullgraph"),
    [("x.argsort()", "ok"), ("sizes", "error"), ("x.float()", "error"), ("(x > 0)", "error")],
)
def test_a_list_of_whole_numbers_stays_in_a_whole_graph(what: str, fullgraph: str) -> None:
    source = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        return x + {what}.tolist()[0]
"""
    (found,) = lint_text(source)
    assert found.consequences["compile"] == "break"
    assert found.consequences["fullgraph"] == fullgraph


@pytest.mark.parametrize(
    ("line", "fullgraph"),
    [
        ("assert x.max().item() < 10", "ok"),
        ("assert x.max().item() < 10, 'large'", "ok"),
        ("assert x.max().item() < 10, f'{len(x)}'", "error"),
        ("assert not x.max().item()", "error"),
        ("assert 0 < x.max().item() < 10", "error"),
        ("if x.max().item() < 10: x = x + 1", "error"),
    ],
)
def test_a_plain_assert_stays_in_a_whole_graph(line: str, fullgraph: str) -> None:
    source = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {line}
        return x
"""
    (found,) = [each for each in lint_text(source) if each.code == "PG201"]
    assert found.consequences["compile"] == "break"
    assert found.consequences["fullgraph"] == fullgraph


def test_assigning_data_breaks_the_graph_for_what_the_graph_made() -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.data = x
        self.weight.data = x
        return y
"""
    found = [(f.code, f.consequences["compile"]) for f in lint_text(source)]
    assert found == [("PG509", "break"), ("PG509", "ok")]


@pytest.mark.parametrize(
    ("torch", "breaks", "gb_id"),
    [("2.11", "break", "GB0175"), ("2.13", "ok", ""), ("2.99", "ok", ""), (None, "ok", "")],
)
def test_a_form_changes_with_torch(torch: str | None, breaks: str, gb_id: str) -> None:
    form = form_of("PG209", Event("sync.format", SPAN, "text"), torch)
    assert form is not None
    assert (form.compile, form.gb_id) == (breaks, gb_id)


def test_what_was_never_run_has_no_form() -> None:
    assert form_of("PG999", Event("call", SPAN, "print"), None) is None


def test_findings_say_what_torch_calls_the_break() -> None:
    source = """
import math
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * max(x.mean(), 3.0)
        return x * math.sqrt(x.mean())
"""
    found = {finding.message.partition("`")[2]: finding for finding in lint_text(source)}
    seen = [(f.consequences["compile"], f.gb_id, f.gb_type) for f in found.values()]
    assert seen == [
        ("break", "GB0170", "Data-dependent branching"),
        ("ok", "", ""),
        ("break", "GB0033", "Data dependent operator"),
    ]


def test_a_claimed_break_has_a_kind() -> None:
    known = json.loads(TABLE.read_text())["gb_types"]
    for outcomes in json.loads(TABLE.read_text())["forms"].values():
        for compile_, gb_id, fullgraph in outcomes.values():
            assert fullgraph in ("ok", "error")
            assert (gb_id in known) == (compile_ == "break"), outcomes


def test_rules_of_a_kind_of_break() -> None:
    assert "PG301" in rules_of("GB0170")
    assert "2.13" in rules_of("GB0170")["PG301"]
    assert rules_of("GB9999") == {}
    assert Options().target_torch is None and set(rules_of("GB0170")) <= set(RULES)


@pytest.mark.parametrize(
    ("line", "compile"),
    [
        ("return x + torch.tensor([x.sum(), x.max()])", "ok"),
        ("return x * np.random.normal(size=(3,))", "ok"),
        ("return x * np.random.randn(3)", "ok"),
        ("return x * np.random.randint(0, 5, (3,))", "ok"),
        ("return x * np.random.randint(0, 5)", "break"),
        ("return x * np.random.beta(1.0, 1.0)", "break"),
    ],
)
def test_forms_that_torch_traces(line: str, compile: str) -> None:
    source = "import numpy as np\nimport torch\nclass Model(torch.nn.Module):\n"
    source += f"    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        {line}\n"
    found = [each for each in lint_text(source) if each.code in ("PG202", "PG504")]
    assert [each.consequences["compile"] for each in found] == [compile]


@pytest.mark.parametrize(
    ("line", "fullgraph"),
    [
        ("x = x + float(np.sum(x.numpy()))", "ok"),
        ("x = x[: np.cumsum([0, 1, x.shape[0]])[1]]", "ok"),
        ("x = x[: np.prod(x.shape)]", "error"),
        ("x = x + 1 if np.sum(x.numpy()) > 0 else x", "error"),
        ("n = np.bincount(np.array([1, 2]))", "ok"),
        ("n = np.digitize(np.array([1, 2]), np.array([1]))", "error"),
    ],
)
def test_some_breaks_of_numpy_stay_in_a_whole_graph(line: str, fullgraph: str) -> None:
    source = f"""
import numpy as np
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {line}
        return x
"""
    found = [f for f in lint_text(source) if f.consequences["compile"] == "break"]
    assert [f.consequences["fullgraph"] for f in found] == [fullgraph]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("assert flag and (x < 3).all()", ["PG304"]),
        ("assert flag or (x < 3).all(), 'large'", ["PG304"]),
        ("assert (x > 0).all() and (x < 3).all()", ["PG301", "PG304"]),
        ("assert flag and not (x < 3).all()", ["PG301"]),
        ("assert (x > 0).all() and (x < 3).all(), f'{flag}'", ["PG301", "PG301"]),
    ],
)
def test_what_an_assert_asks_last_is_traced(line: str, codes: list[str]) -> None:
    source = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
        {line}
        return x
"""
    assert [finding.code for finding in lint_text(source)] == codes
