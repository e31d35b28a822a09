"""Lines over compiled functions: what breaks the graph in them and in what they call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pygraph_lint.analysis.link import Project
from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.analysis.syntax.nodes import short
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import Runner
from pygraph_lint.report import count
from pygraph_lint.server.messages import Lens

# What so many files say is counted at most; a function that reaches more has no line.
_FILES = 40


def lenses(runner: Runner, path: Path, step: Callable[[], None]) -> tuple[Lens, ...]:
    """The lines over the functions of a file that run in regions and have something to say.

    ``step`` is called between files, and may raise.
    """
    found = runner.linked(path)
    if found is None:
        return ()
    facts, linked, findings_of = found
    chains = linked.reached_through(facts)
    base = runner.root(path)
    files = {base / module.path for module in _modules(linked, chains)}
    if len(files) > _FILES:
        files = {path}
    breaks: list[Finding] = []
    for file in sorted(files):
        step()
        breaks += filter(breaks_graph, findings_of(file))
    return tuple(_over(facts, chains, breaks))


def _modules(linked: Project, functions: Iterable[str]) -> list[ModuleFacts]:
    """The files that functions are in."""
    wanted = set(functions)
    modules = linked.program.modules.values()
    return [module for module in modules if not wanted.isdisjoint(module.functions)]


def breaks_graph(finding: Finding) -> bool:
    """Whether a finding says that the graph breaks, or is an error instead."""
    said = finding.consequences
    return said.get("compile") in ("break", "skipped") or said.get("fullgraph") == "error"


def _over(
    facts: ModuleFacts, chains: Mapping[str, list[str]], breaks: Iterable[Finding]
) -> Iterable[Lens]:
    inside: Counter[str] = Counter()
    through: dict[str, Counter[str]] = {}
    first: dict[str, Finding] = {}
    for finding in breaks:
        chain = chains.get(finding.region.function, []) if finding.region is not None else []
        for number, name in enumerate(chain):
            if name not in facts.functions:
                continue
            first.setdefault(name, finding)
            if number:
                through.setdefault(name, Counter())[chain[number - 1]] += 1
            else:
                inside[name] += 1
    for name, found in first.items():
        where = (found.location.row, found.location.column)
        title = _title(inside[name], through.get(name, Counter()))
        yield Lens(facts.functions[name].line, title, Path(found.filename), where)


def _title(inside: int, through: Counter[str]) -> str:
    total = inside + sum(through.values())
    said = count(total, "graph break")
    parts = [f"{count} through {short(name)}" for name, count in through.most_common(2)]
    if not inside and len(through) == 1:
        return f"{said} through {short(next(iter(through)))}"
    return ", ".join([said, *parts])
