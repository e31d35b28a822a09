"""Every page has its data and its prose, and the coverage list and the pages agree."""

from __future__ import annotations

import ast
import json
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

from pygraph_lint.fixes.engine.file_fixes import REWRITES
from pygraph_lint.rules import catalogue
from tests.rules import examples

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES = catalogue.load()
ALL = [example for rule in RULES.values() for example in examples.of_rule(rule)]
KINDS, COVERAGE = (
    tomllib.loads((catalogue.rules_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("events", "coverage")
)
PATTERNS = COVERAGE["pattern"]
HEADINGS = [
    "What happens",
    "Why it costs",
    "How to fix it",
    "What `--fix` does",
    "Bad",
    "Good",
]


@pytest.mark.parametrize("code", RULES)
def test_page_is_whole(code: str) -> None:
    rule = RULES[code]
    parts = examples.sections(rule.prose)
    assert list(parts) == HEADINGS
    assert all(parts.values())
    assert all(line == line.rstrip() for line in rule.prose.splitlines())
    fields = [name for _, name, _, _ in string.Formatter().parse(rule.message) if name is not None]
    assert set(fields) <= {"subject"}
    assert rule.name == rule.name.lower()
    assert (rule.fix == "none") == (rule.fixer == "")


def test_fixers_serve_the_rules_that_name_them() -> None:
    served = {code for rewrite in REWRITES for code in rewrite.codes}
    named = {rule.code for rule in RULES.values() if rule.fixer}
    assert named == served
    by_name = {rewrite.name: rewrite.codes for rewrite in REWRITES}
    for rule in RULES.values():
        assert not rule.fixer or rule.code in by_name[rule.fixer], rule.code


def test_names_are_unique() -> None:
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


def test_each_event_kind_belongs_to_one_rule() -> None:
    claimed = [kind for rule in RULES.values() for kind in rule.events]
    assert sorted(claimed) == sorted(set(KINDS) - {"call", "method"})


def test_no_call_or_method_belongs_to_two_rules() -> None:
    for listed in (
        [call for rule in RULES.values() for call in rule.calls],
        [method for rule in RULES.values() for method in rule.methods],
    ):
        assert sorted(listed) == sorted(set(listed))


@pytest.mark.parametrize("code", RULES)
def test_page_has_marked_bad_and_clean_good_examples(code: str) -> None:
    own = examples.of_rule(RULES[code])
    bad = [example for example in own if not example.good]
    good = [example for example in own if example.good]
    assert bad and good
    assert all(any(code in codes for codes in example.marks.values()) for example in bad)
    assert not any(example.marks for example in good)


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_example_is_python(example: examples.Example) -> None:
    if example.name == "PG001-bad-1":
        with pytest.raises(SyntaxError):
            ast.parse(example.text)
    else:
        ast.parse(example.text)


@pytest.mark.parametrize("entry", PATTERNS, ids=lambda entry: entry["id"])
def test_pattern_has_a_rule_or_a_reason(entry: dict[str, object]) -> None:
    assert entry["pattern"]
    assert ("rules" in entry) != ("reason" in entry)
    for code in entry.get("rules", []):  # type: ignore[attr-defined]
        assert entry["id"] in RULES[code].covers


def test_covers_and_coverage_agree() -> None:
    by_id = {entry["id"]: entry.get("rules", []) for entry in PATTERNS}
    assert len(by_id) == len(PATTERNS)
    for rule in RULES.values():
        for pattern in rule.covers:
            add = f"{rule.code} covers {pattern}: add a row with this id to rules/coverage.toml"
            assert pattern in by_id, add
            assert rule.code in by_id[pattern], f"{rule.code} says it covers {pattern}"


def test_every_rule_about_code_answers_to_a_pattern() -> None:
    assert [rule.code for rule in RULES.values() if not rule.covers] == ["PG001", "PG002", "PG003"]


def test_every_page_says_in_one_sentence_what_to_do_by_hand() -> None:
    for rule in catalogue.load().values():
        assert 10 < len(rule.by_hand) < 260, rule.code
        assert "```" not in rule.by_hand


NOTES = (
    *("bound", "checked", "flag", "index", "inner", "mask"),
    *("constant", "drawn", "element", "number", "position", "raises"),
)


@pytest.mark.parametrize("code", [code for code, rule in RULES.items() if rule.advice])
def test_advice_is_one_sentence_about_something_that_the_rule_reports(code: str) -> None:
    rule = RULES[code]
    reported = {*rule.events, *rule.calls, *NOTES}
    for fact, sentence in rule.advice.items():
        said = fact.startswith(("numpy.random.", "torch.")) or fact.endswith("()")
        assert fact in reported or said, fact
        assert 10 < len(sentence) < 260 and sentence.endswith(".")


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("PG104", "torch.tensor([1.0, -2.0], device=x.device)", "register_buffer"),
        ("PG104", "torch.tensor(n, device=x.device)", "torch.full("),
        ("PG104", "torch.tensor(sizes, device=x.device)", "pass it in as a tensor"),
        ("PG202", "int(x.max())", "t.long()"),
        ("PG202", "float(x.max())", "goes on in arithmetic"),
        ("PG202", "flag = bool(x.max())", "torch.where(t, a, b)"),
        ("PG204", "x.cpu()", "copy it to the host after"),
        ("PG208", "torch.ones(2, 2, device=x.device)[0, 1] = 1.0", "x[0, 2].fill_(value)"),
        ("PG208", "x[x.argmax(0)] = 1.0", "x.new_ones(())"),
        ("PG403", "x.unique()", "before the region"),
        ("PG403", "torch.bincount(x)", "scatter_add_"),
        ("PG407", "x[x.argmax()]", "index_select"),
        ("PG407", "x[: x.argmax()]", "a bound that the host knows"),
        ("PG407", "torch.randint(0, x.argmax(), (1,), device=x.device)", "torch.rand("),
        ("PG407", "torch.linspace(0, x.argmax(), 5, device=x.device)", "a fixed range"),
        ("PG408", "torch.linalg.inv(x)", "torch.linalg.inv_ex"),
        ("PG408", "torch.linalg.eigh(x)", "has no form that does not check"),
        ("PG504", "random.gauss(0, 1)", "torch.randn"),
        ("PG504", "random.shuffle(sizes)", "torch.randperm"),
        ("PG504", "random.random()", "torch.rand("),
        ("PG510", "torch.autograd.grad(x.sum(), x)", "torch.func.grad"),
        ("PG307", "if x.isnan().any(): raise ValueError", "check that only raises"),
        ("PG307", "if x.isnan().any(): x = x.nan_to_num()", "torch.where"),
    ],
)
def test_advice_fits_the_line(code: str, line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    head = "import random\nimport torch\n\n\nclass Model(torch.nn.Module):\n"
    method = "    def forward(self, x: torch.Tensor, n: int, sizes: list[int]):\n"
    path.write_text(f"{head}{method}        {line}\n        return x\n")
    options = ["check", "--no-cache", "--select", code, "--output-format", "json", str(path)]
    command = [sys.executable, "-m", "pygraph_lint", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (found,) = json.loads(done.stdout)
    assert said in found["by_hand"]


@pytest.mark.parametrize("code", RULES)
def test_page_has_150_to_400_words(code: str) -> None:
    """Of prose: code does not count."""
    prose = re.sub(r"^```.*?^```", "", RULES[code].prose, flags=re.DOTALL | re.MULTILINE)
    words = len(re.sub(r"^## ", "", prose, flags=re.MULTILINE).split())
    assert 150 <= words <= 400, f"the prose of {code} has {words} words; write 150 to 400"


@pytest.mark.parametrize("code", RULES)
def test_page_says_what_each_kind_of_fix_does(code: str) -> None:
    rule = RULES[code]
    said = examples.sections(rule.prose)["What `--fix` does"]
    if rule.fix == "none":
        assert "no automatic fix" in said or code.startswith("PG0") or "--unsafe-fixes" in said
    else:
        assert "`--fix`" in said or "`--unsafe-fixes`" in said
    # What the linter offers is on the page; safe fixes only where a rule has them.
    assert rule.fix != "unsafe" or "`--fix` " not in said
