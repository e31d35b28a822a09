"""What the report formats of other tools allow, as JSON schemas written from their documentation.

Only the parts that reports of this package use: any other key is an error.

`make test-long` checks reports against originals that come with packages: the schema of SARIF, the
XSD of Jenkins, a validator of the rdjson format (``tests/long/test_report_schemas.py``). Checked by
hand on 2026-11-23: ``proto/rdf/jsonschema/DiagnosticResult.json`` of reviewdog, SARIF 2.1.0 with
errata 01, and what the server of GitLab asks of a report: ``description``, ``fingerprint``,
``severity`` and ``location`` (``app/validators/json_schemas/codeclimate.json``).
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
PLACE: Schema = {"type": "integer", "minimum": 1}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


# OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0": 3.13 sarifLog,
# 3.14 run, 3.18 tool, 3.49 reportingDescriptor, 3.27 result, 3.30 region, 3.55 fix,
# 3.57 replacement.
_MESSAGE = _object({"text": TEXT}, {"markdown": TEXT})
_REGION = _object(
    {"startLine": PLACE}, {"startColumn": PLACE, "endLine": PLACE, "endColumn": PLACE}
)
_ARTIFACT = _object({"uri": {"type": "string", "pattern": r"^(file:///|[^/:]+(/|$))[^ \\]*$"}})
_REPLACEMENT = _object(
    {"deletedRegion": _REGION}, {"insertedContent": _object({"text": {"type": "string"}})}
)
_CHANGE = _object({"artifactLocation": _ARTIFACT, "replacements": _list(_REPLACEMENT, 1)})
_LOCATION = _object(
    {"physicalLocation": _object({"artifactLocation": _ARTIFACT}, {"region": _REGION})},
    {"logicalLocations": _list(_object({"fullyQualifiedName": TEXT}))},
)
_RESULT = _object(
    {"message": _MESSAGE},
    {
        "ruleId": TEXT,
        "ruleIndex": COUNT,
        "level": {"enum": ["none", "note", "warning", "error"]},
        "locations": _list(_LOCATION),
        "fixes": _list(_object({"artifactChanges": _list(_CHANGE, 1)}, {"description": _MESSAGE})),
        "properties": {"type": "object"},
    },
)
_RULE = _object(
    {"id": TEXT},
    {
        "name": TEXT,
        "shortDescription": _MESSAGE,
        "fullDescription": _MESSAGE,
        "help": _MESSAGE,
        "helpUri": TEXT,
    },
)
_DRIVER = _object(
    {"name": TEXT},
    {
        "version": TEXT,
        "semanticVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
        "informationUri": TEXT,
        "rules": {**_list(_RULE), "uniqueItems": True},
    },
)
_RUN = _object(
    {"tool": _object({"driver": _DRIVER})},
    {"results": _list(_RESULT), "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]}},
)
SARIF = _object({"version": {"const": "2.1.0"}, "runs": _list(_RUN)}, {"$schema": TEXT})

# reviewdog, "Reviewdog Diagnostic Format (RDFormat)": messages DiagnosticResult, Diagnostic,
# Location, Range, Position, Suggestion, Source and Code.
_POSITION = _object({"line": PLACE}, {"column": PLACE})
_RANGE = _object({"start": _POSITION}, {"end": _POSITION})
_SEVERITY: Schema = {"enum": ["UNKNOWN_SEVERITY", "ERROR", "WARNING", "INFO"]}
_SOURCE = _object({"name": TEXT}, {"url": TEXT})
_DIAGNOSTIC = _object(
    {"message": TEXT, "location": _object({"path": TEXT}, {"range": _RANGE})},
    {
        "severity": _SEVERITY,
        "source": _SOURCE,
        "code": _object({"value": TEXT}, {"url": {"type": "string", "pattern": "^https?://."}}),
        "suggestions": _list(_object({"range": _RANGE, "text": {"type": "string"}})),
    },
)
RDJSON = _object({"diagnostics": _list(_DIAGNOSTIC)}, {"source": _SOURCE, "severity": _SEVERITY})

# GitLab, "Code Quality", section "Code Quality report format". Paths are relative to the
# repository, without "./". A position has a line and a column.
_GITLAB_POSITION = _object({"line": PLACE}, {"column": PLACE})
GITLAB = _list(
    _object(
        {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": TEXT,
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": _object(
                {
                    "path": {"type": "string", "pattern": r"^(?!/|\./)."},
                    "positions": _object({"begin": _GITLAB_POSITION}, {"end": _GITLAB_POSITION}),
                }
            ),
        }
    )
)


def _element(tag: str, required: list[str], optional: list[str], inside: Schema) -> Schema:
    attributes = _object(
        {name: {"type": "string"} for name in required},
        {name: {"type": "string"} for name in optional},
    )
    for name in ("tests", "failures", "errors", "skipped"):
        if name in attributes["properties"]:
            attributes["properties"][name] = {"type": "string", "pattern": r"^\d+$"}
    return _object(
        {"tag": {"const": tag}, "attributes": attributes, "children": inside},
        {"text": {"type": "string"}},
    )


# Jenkins, ``junit-10.xsd``, with each element as an object: its tag, attributes, children and text.
_OUTCOME: Schema = {
    "anyOf": [
        _element(tag, [], ["message", "type"], _list({"not": {}}) | {"maxItems": 0})
        for tag in ("failure", "error", "skipped")
    ]
}
_CASE = _element("testcase", ["name", "classname"], ["time"], _list(_OUTCOME))
_TOTALS = ["tests", "failures", "errors"]
_SUITE = _element("testsuite", ["name", *_TOTALS], ["skipped", "time"], _list(_CASE))
JUNIT = _element("testsuites", [], ["name", *_TOTALS, "time"], _list(_SUITE))
