"""A user's own rules: found through the settings, and tested by ``pygraph-lint rule-test``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from pygraph_lint.commands.output import write
from pygraph_lint.errors import CatalogueError
from pygraph_lint.files.settings import Resolver
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import ALWAYS, Runner
from pygraph_lint.rules.catalogue import Rule, load_with, own_rules
from pygraph_lint.rules.examples import Example, of_rule


def rules_here(config: Path | None = None, isolated: bool = False) -> dict[str, Rule]:
    """The catalogue, and the rules that the settings of the current folder name."""
    settings = Resolver(config=config, isolated=isolated).of(Path.cwd())
    return load_with(settings.folder / name for name in settings.rules)


def rule_test(folders: Sequence[str]) -> int:
    """Check the examples of own rules, from ``folders`` or the settings; the exit code.

    In a bad example exactly the marked lines must be found, in a good one nothing of that rule.
    """
    rules = load_with(Path(name) for name in folders) if folders else rules_here()
    own = own_rules(rules)
    if not own:
        raise CatalogueError("there are no own rules: name a folder, or set `rules`")
    wrong = 0
    for rule in own:
        examples = of_rule(rule)
        if not any(example.marks for example in examples if not example.good):
            raise CatalogueError(f"{rule.code}: there is no bad example with a line marked so")
        for example in examples:
            problems = _problems(example, rules)
            wrong += bool(problems)
            write(f"{example.name}: {'; '.join(problems) or 'ok'}\n")
    return 1 if wrong else 0


def _problems(example: Example, rules: dict[str, Rule]) -> list[str]:
    """Where the findings in an example differ from its marks."""
    found = {finding.location.row for finding in _check(example, rules)}
    marked = {row for row, codes in example.marks.items() if example.code in codes}
    missed = [f"line {row} is marked and not found" for row in sorted(marked - found)]
    return missed + [f"line {row} is found and not marked" for row in sorted(found - marked)]


def _check(example: Example, rules: dict[str, Rule]) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example.py"
        path.write_text(example.text, encoding="utf-8")
        found = Runner(rules, {"preview": True}, isolated=True).check([path])
    broken = next((finding for finding in found if finding.code in ALWAYS), None)
    if broken is not None:
        raise CatalogueError(f"{example.name}, line {broken.location.row}: {broken.message}")
    return [finding for finding in found if finding.code == example.code]
