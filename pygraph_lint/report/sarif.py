"""SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pygraph_lint import __version__
from pygraph_lint.findings import Edit, Finding, Location
from pygraph_lint.report import Report, consequences_in_words, is_error, message
from pygraph_lint.rules.catalogue import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _region(start: Location, end: Location) -> dict[str, int]:
    region = {"startLine": start.file_line, "endLine": end.file_line}
    if start.cell is None:
        region |= {"startColumn": start.column, "endColumn": end.column}
    return region


def _artifact(filename: str) -> dict[str, str]:
    return {"uri": Path(filename).as_uri()}


def _replacement(edit: Edit) -> dict[str, Any]:
    return {
        "deletedRegion": _region(edit.location, edit.end_location),
        "insertedContent": {"text": edit.content},
    }


def _result(finding: Finding, order: dict[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(finding.filename),
            "region": _region(finding.location, finding.end_location),
        }
    }
    properties: dict[str, Any] = {
        "evidence": list(finding.evidence),
        "only_if": list(finding.only_if),
        "consequences": finding.consequences,
    }
    if finding.region is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.region.function}]
        properties["call_path"] = list(finding.region.call_path)
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": "error" if is_error(finding) else "warning",
        "message": {"text": message(finding)},
        "locations": [location],
        "properties": properties,
    }
    if finding.code in order:
        result["ruleIndex"] = order[finding.code]
    fix = finding.fix
    if fix is not None and fix.applicability == "safe" and finding.location.cell is None:
        result["fixes"] = [
            {
                "description": {"text": fix.message},
                "artifactChanges": [
                    {
                        "artifactLocation": _artifact(finding.filename),
                        "replacements": [_replacement(edit) for edit in fix.edits],
                    }
                ],
            }
        ]
    return result


def _rule(rule: Rule) -> dict[str, Any]:
    follows = "; ".join(consequences_in_words(rule.consequences))
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": follows or rule.name.replace("-", " ")},
        "help": {"text": rule.prose, "markdown": rule.prose},
    }


def render(report: Report) -> str:
    """The whole report."""
    codes = sorted({finding.code for finding in report.findings} & set(report.rules))
    order = {code: number for number, code in enumerate(codes)}
    driver = {
        "name": "pygraph-lint",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(report.rules[code]) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        # Columns are counted in characters.
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, order) for finding in report.findings],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2) + "\n"
