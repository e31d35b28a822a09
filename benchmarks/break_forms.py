"""Write the linter's table of what each form of a finding does on each torch.

The bad examples of the rule pages were traced on every supported torch
(`benchmarks/results/rule_consequences_by_torch.json`). The linter's finding on an example's marked
line says which form the line has: the kind of event, and for calls and methods what is called.
Joined, that gives for each form and version whether the graph breaks there, and torch's id for it.

    python -m benchmarks.break_forms     # writes pygraph_lint/rules/break_forms.json
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pygraph_lint.rules import catalogue
from pygraph_lint.rules.break_forms import keys
from tests.rules import examples
from tests.rules.conftest import lint_text

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "benchmarks" / "results" / "rule_consequences_by_torch.json"
TABLE = ROOT / "pygraph_lint" / "rules" / "break_forms.json"
# Reports that stand for another break on the same lines.
FOLLOWING = ("GB7000", "GB0066")


# Rules about a call: the graph ends in the function that is called, on another line.
CALLING = ("PG522",)


def _outcome(run: dict[str, Any], row: int, code: str) -> dict[str, str]:
    """What one recorded run says about a marked line: the break's id, and fullgraph's."""
    here = [each for each in run["reports"] if each["line"] == row]
    named = [each for each in here if each["gb_id"] and each["gb_id"] not in FOLLOWING]
    broken = bool(here) or (run["breaks"] and (row in run["break_lines"] or code in CALLING))
    first = (named or here or [{"gb_id": ""}])[0]["gb_id"]
    return {
        "compile": "break" if broken else "ok",
        "gb_id": (first or run["fullgraph_gb_id"]) if broken else "",
        "fullgraph": run["fullgraph"],
    }


def table() -> dict[str, Any]:
    """The forms, and the names of the kinds of breaks."""
    recorded = json.loads(RECORDED.read_text())
    votes: dict[str, dict[str, Counter[tuple[str, ...]]]] = {}
    names: dict[str, str] = {}
    for rule in catalogue.load().values():
        for example in examples.of_rule(rule):
            row = recorded["examples"].get(example.name, {})
            if example.good or row.get("digest") != example.digest or not row["torch"]:
                continue
            for finding in lint_text(example.text):
                if finding.event is None or finding.location.row not in example.marks:
                    continue
                for version, run in row["torch"].items():
                    names.update({r["gb_id"]: r["gb_type"] for r in run["reports"] if r["gb_id"]})
                    outcome = _outcome(run, finding.location.row, finding.code)
                    for key in keys(finding.code, finding.event):
                        counts = votes.setdefault(key, {}).setdefault(version, Counter())
                        counts[tuple(outcome.values())] += 1
    forms = {
        key: {
            version: list(counts.most_common(1)[0][0])
            for version, counts in sorted(by_version.items())
        }
        for key, by_version in sorted(votes.items())
    }
    return {"versions": list(recorded["environments"]), "gb_types": names, "forms": _folded(forms)}


def _folded(forms: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    """The forms with versions left out that say the same as the one before."""
    folded: dict[str, dict[str, list[str]]] = {}
    for key, by_version in forms.items():
        last: list[str] | None = None
        folded[key] = {}
        for version, outcome in by_version.items():
            if outcome != last:
                folded[key][version] = outcome
            last = outcome
    return folded


if __name__ == "__main__":
    found = table()
    TABLE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{len(found['forms'])} forms, {len(found['gb_types'])} kinds of breaks: {TABLE}")
