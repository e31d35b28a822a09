"""Reports for other tools, checked against what those tools' documentation allows."""

from __future__ import annotations

import copy
import json
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.lint.output_schemas import GITLAB, JUNIT, RDJSON, SARIF, Schema
from tests.lint.support import BOTH, CLEAN, Lint
from tests.lint.test_notebooks import code, notebook

SCHEMAS = {"sarif": SARIF, "rdjson": RDJSON, "gitlab": GITLAB, "junit": JUNIT}

# Findings with and without a fix, in a notebook, on a line with more than ASCII, and a file that
# does not parse.
FILES: dict[str, str | bytes] = {
    "pkg/both.py": BOTH,
    "pkg/clean.py": CLEAN,
    "pkg/a b.py": BOTH.replace(" / (peak + 1.0)", " / (peak + 1.0)  # \u00e4\U0001f600"),
    "book.ipynb": notebook(code("%time\nimport torch\n"), code(BOTH)),
    "broken.py": "def f(:\n",
    "broken.ipynb": b"{",
}


def tree(element: ElementTree.Element) -> dict[str, Any]:
    return {
        "tag": element.tag,
        "attributes": dict(element.attrib),
        "children": [tree(child) for child in element],
        "text": element.text or "",
    }


def _parsed(form: str, text: str) -> Any:
    return tree(ElementTree.fromstring(text)) if form == "junit" else json.loads(text)


def _validate(document: Any, schema: Schema) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("form", SCHEMAS)
def test_a_report_is_valid(lint: Lint, form: str) -> None:
    lint.write(FILES)
    result = lint("--output-format", form, ".")
    assert result.code == 1
    for code_ in ("PG001", "PG002", "PG101", "PG201"):
        assert code_ in result.out
    _validate(_parsed(form, result.out), SCHEMAS[form])


@pytest.mark.parametrize("form", SCHEMAS)
def test_an_empty_report_is_valid(lint: Lint, form: str) -> None:
    lint.write({"clean.py": CLEAN})
    result = lint("--output-format", form, "clean.py")
    assert result.code == 0
    _validate(_parsed(form, result.out), SCHEMAS[form])


def damaged(document: Any) -> list[Any]:
    """The document with each key, at any depth, left out or renamed once."""
    made = []
    for at, key in _keys(document, ()):
        for renamed in (False, True):
            changed = copy.deepcopy(document)
            inner = changed
            for step in at:
                inner = inner[step]
            value = inner.pop(key)
            if renamed:
                inner[f"{key}x"] = value
            made.append(changed)
    return made


def _keys(value: Any, at: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], str]]:
    if isinstance(value, dict):
        inside = [found for key in value for found in _keys(value[key], (*at, key))]
        return [(at, key) for key in value] + inside
    if isinstance(value, list):
        return [found for place, item in enumerate(value) for found in _keys(item, (*at, place))]
    return []


@pytest.mark.parametrize("form", ["gitlab", "junit", "rdjson"])
def test_the_schemas_refuse_what_is_wrong(lint: Lint, form: str) -> None:
    lint.write({"both.py": BOTH})
    document = _parsed(form, lint("--output-format", form, "both.py").out)
    valid = jsonschema.Draft202012Validator(SCHEMAS[form]).is_valid
    refused = [not valid(one) for one in damaged(document)]
    # Every renamed key, and those of the missing ones that the format asks for.
    assert all(refused[1::2])
    assert any(refused[0::2])
