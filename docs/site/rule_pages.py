"""One page a rule, and the index of all rules, from the catalogue and the recorded runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from html import escape
from pathlib import Path
from typing import Any

from pygraph_lint.report import consequences_in_words
from pygraph_lint.rules import examples
from pygraph_lint.rules.break_forms import SITE, name_of, rules_of
from pygraph_lint.rules.catalogue import Rule, load
from pygraph_lint.rules.examples import Example

ROOT = Path(__file__).resolve().parents[2]
SLEEP_MS = 40  # of benchmarks/rule_consequences_gpu.py: how long the device is kept busy
_GROUPS = {
    "PG0": "Files and comments",
    "PG1": "Host tensors and copies between devices",
    "PG2": "Host-device syncs",
    "PG3": "Branches, loops and sizes that need a tensor's value",
    "PG4": "Shapes that depend on data",
    "PG5": "Side effects and unsupported calls",
    "PG6": "CUDA graph capture and replay",
    "PG7": "Training loops",
}
_FIX = {
    "none": "by hand",
    "safe": "`--fix`",
    "unsafe": "`--fix --unsafe-fixes`",
    "sometimes": "`--fix` where that is provably safe, else `--unsafe-fixes`",
}


def pages() -> dict[str, Callable[[], str]]:
    """Each page by its place in the site."""
    made: dict[str, Callable[[], str]] = {"reference/rules/index.md": index}
    for code, rule in load().items():
        made[f"reference/rules/{code}.md"] = partial(page, rule)
    return made


def navigation() -> list[dict[str, list[str]]]:
    """The rules in their groups, for the navigation."""
    codes = {
        prefix: [f"reference/rules/{code}.md" for code in load() if code.startswith(prefix)]
        for prefix in _GROUPS
    }
    return [{f"{prefix}: {_GROUPS[prefix]}": pages} for prefix, pages in codes.items() if pages]


@lru_cache(maxsize=1)
def gb_ids() -> dict[str, dict[str, list[str]]]:
    """torch's numbers of graph breaks by rule code, each with the torch versions where it was seen.

    From the recorded runs of the rules' bad examples (``pygraph_lint/rules/break_forms.json``).
    """
    text = (ROOT / "pygraph_lint" / "rules" / "break_forms.json").read_text("utf-8")
    found: dict[str, dict[str, list[str]]] = {}
    for gb_id in sorted(json.loads(text)["gb_types"]):
        for code, versions in rules_of(gb_id).items():
            found.setdefault(code, {})[gb_id] = versions
    return found


def page(rule: Rule) -> str:
    """The page of a rule: what is known of it as a table, then its prose and examples."""
    words = consequences_in_words(rule.consequences)
    status = "on by default" if rule.status == "default" else "preview: only with `--preview`"
    rows = [
        ("Message", _message(rule)),
        ("What follows", "; ".join(words) or "nothing at run time"),
        ("Fix", _fix(rule)),
        ("Status", status),
        ("torch", rule.torch),
    ]
    ids = gb_ids().get(rule.code, {})
    if ids:
        links = [f"[{i}]({SITE.format(i.lower())}) {name_of(i)}" for i in ids]
        rows.append(("torch's graph breaks", "<br>".join(links)))
    measured = _measured(rule)
    if measured:
        rows.append(("Measured", measured))
    table = "\n".join(f"| {name} | {text} |" for name, text in rows)
    title = f"{rule.code} {rule.name}{' (sync)' if rule.code.startswith('PG2') else ''}"
    return (
        f"---\ntitle: {title}\ndescription: >-\n  {rule.by_hand}\n"
        "search:\n  boost: 2\n---\n\n"
        f"# {title}\n\n| about | this rule |\n| --- | --- |\n{table}\n\n{rule.prose}\n"
    )


def _fix(rule: Rule) -> str:
    """What fixes a finding. A comment that silences nothing is removed by no rewrite of code."""
    return _FIX["safe" if rule.name == "unused-suppression" else rule.fix]


def _message(rule: Rule) -> str:
    """The message with the place of the user's code left open."""
    if rule.message == "{subject}":
        return "what Python or the system says"
    return escape(rule.message.replace("{subject}", "…"), quote=False).replace("|", "\\|")


@lru_cache(maxsize=1)
def _recorded() -> dict[str, dict[str, Any]]:
    path = ROOT / "benchmarks" / "results" / "rule_consequences_by_torch.json"
    loaded: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))["examples"]
    return loaded


@lru_cache(maxsize=1)
def _on_gpu() -> dict[str, Any]:
    path = ROOT / "benchmarks" / "results" / "rule_consequences_gpu.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


def _measured(rule: Rule) -> str:
    """What was recorded of the page's first bad example: by each torch, and on a GPU."""
    for example in examples.of_rule(rule):
        if example.good:
            continue
        said = [*_by_torch(example), *_by_gpu(example)]
        if said:
            return "Bad example {}: {}".format(example.number, ";<br>".join(said))
    return ""


def _by_torch(example: Example) -> list[str]:
    row = _recorded().get(example.name, {})
    if row.get("digest") != example.digest:
        return []
    outcomes = row["torch"]
    broke = [version for version, seen in outcomes.items() if seen.get("breaks")]
    if not broke:
        return []
    fine = [version for version in outcomes if version not in broke]
    link = "[recorded](../../../benchmarks/results/rule_consequences_by_torch.json)"
    rest = f", not on {', '.join(fine)}" if fine else ""
    return [f"the graph breaks on torch {', '.join(broke)}{rest} ({link})"]


def _by_gpu(example: Example) -> list[str]:
    row = next((r for r in _on_gpu()["examples"] if r["example"] == example.name), None)
    if row is None or row["digest"] != example.digest:
        return []
    seen, machine = row["seen"], _on_gpu()["environment"]
    waited, error = seen["waited_ms"] or 0.0, seen["capture_error"].partition(".")[0]
    said = []
    if waited > SLEEP_MS / 2:
        said.append(f"the host waits {waited:.0f} ms for a device that is busy for {SLEEP_MS} ms")
    if error:
        said.append(f"a capture ends with `{error}`")
    if said:
        link = "[measured](../../../benchmarks/results/rule_consequences_gpu.json)"
        gpu, torch = machine["gpu"], machine["torch"].partition("+")[0]
        said[-1] += f" ({gpu}, torch {torch}, {link})"
    return said


def index() -> str:
    """All rules in one table, with a filter by code, name and GB id."""
    parts = [
        "---\ntitle: Rules\ndescription: Every rule, with a filter by code, name and GB id\n---\n",
        "# Rules\n",
        "Type a code, a name, a word of the message or torch's number of a graph break "
        "(`GB0170`). In a terminal: `pygraph-lint rule PG301`, `pygraph-lint rule GB0170`, "
        "`pygraph-lint rules`.\n",
        '<label for="rule-filter">Filter</label> '
        '<input id="rule-filter" type="search" placeholder="PG301, item, GB0170" '
        'autocomplete="off" aria-describedby="rule-count"> '
        '<span id="rule-count" role="status"></span>\n',
    ]
    rules = load()
    for prefix, title in _GROUPS.items():
        own = [rule for code, rule in rules.items() if code.startswith(prefix)]
        if own:
            parts.append(f"## {prefix}: {title}\n")
            parts.append("| rule | what follows | fix | torch's graph breaks |")
            parts.append("| --- | --- | --- | --- |")
            parts += [_row(rule) for rule in own]
            parts.append("")
    return "\n".join(parts)


def _row(rule: Rule) -> str:
    words = "; ".join(consequences_in_words(rule.consequences))
    preview = " (preview)" if rule.status == "preview" else ""
    ids = ", ".join(gb_ids().get(rule.code, {}))
    link = f"[{rule.code} {rule.name}]({rule.code}.md){preview}<br>{_message(rule)}"
    return f"| {link} | {words} | {_fix(rule)} | {ids} |"
