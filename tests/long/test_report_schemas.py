"""Reports for other tools, checked against the originals of their formats.

These are not kept here: they come with packages of the registries. It needs the package index, and
npm for two of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema

from tests.lint.output_schemas import JUNIT, SARIF
from tests.lint.support import CLEAN, REPOSITORY
from tests.lint.test_output_schemas import FILES, damaged, tree

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here")
SARIF_PACKAGE = "@datadog/datadog-ci@2.48.0"
SARIF_FILE = "package/dist/commands/sarif/json-schema/sarif-schema-2.1.0.json"
RDJSON_PACKAGE = "@umbrelladocs/rdformat-validator@1.0.1"
JUNIT_PACKAGE = "pytest==8.4.2"
JUNIT_FILE = "pytest-8.4.2/testing/example_scripts/junit-10.xsd"

Valid = Callable[[str], bool]


def _run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _inside(folder: Path, name: str) -> bytes:
    """A file of the archive that was put into a folder."""
    (archive,) = [*folder.glob("*.tgz"), *folder.glob("*.tar.gz")]
    with tarfile.open(archive) as opened:
        member = opened.extractfile(name)
        assert member is not None
        return member.read()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Reports in a format: of files with all kinds of findings, and of one with none."""
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "clean.py").write_text(CLEAN)

    def made(form: str) -> list[str]:
        command = [sys.executable, "-m", "pygraph_lint", "--isolated", "--no-cache"]
        found = []
        for path, code in ((".", 1), ("clean.py", 0)):
            done = subprocess.run(
                [*command, "--output-format", form, path],
                cwd=folder,
                env={"PYTHONPATH": str(REPOSITORY)},
                capture_output=True,
                text=True,
            )
            assert done.returncode == code, done.stderr
            found.append(done.stdout)
        return found

    return made


@pytest.fixture(scope="module")
def sarif(tmp_path_factory: pytest.TempPathFactory) -> Valid:
    folder = tmp_path_factory.mktemp("sarif")
    _run("npm", "pack", "--silent", SARIF_PACKAGE, cwd=folder)
    schema = json.loads(_inside(folder, SARIF_FILE))
    validator = jsonschema.validators.validator_for(schema)(schema)
    return lambda text: bool(validator.is_valid(json.loads(text)))


@pytest.fixture(scope="module")
def junit(tmp_path_factory: pytest.TempPathFactory) -> Valid:
    folder = tmp_path_factory.mktemp("junit")
    options = ("-q", "--no-deps", "--no-binary", "pytest")
    _run(sys.executable, "-m", "pip", "download", *options, JUNIT_PACKAGE, cwd=folder)
    (folder / "junit.xsd").write_bytes(_inside(folder, JUNIT_FILE))
    schema = xmlschema.XMLSchema(str(folder / "junit.xsd"))
    return lambda text: bool(schema.is_valid(text))


@pytest.fixture(scope="module")
def rdjson(tmp_path_factory: pytest.TempPathFactory) -> Valid:
    folder = tmp_path_factory.mktemp("rdjson")
    _run("npm", "install", "--silent", "--no-audit", "--no-fund", RDJSON_PACKAGE, cwd=folder)
    program = folder / "node_modules" / ".bin" / "rdformat-validator"

    def valid(text: str) -> bool:
        command = [program, "--strict", "--no-extra-fields"]
        return subprocess.run(command, input=text, capture_output=True, text=True).returncode == 0

    return valid


FORMS = [pytest.param("sarif", marks=needs_npm), "junit", pytest.param("rdjson", marks=needs_npm)]


@pytest.mark.parametrize("form", FORMS)
def test_the_original_takes_the_reports(
    form: str, reports: Callable[[str], list[str]], request: pytest.FixtureRequest
) -> None:
    valid: Valid = request.getfixturevalue(form)
    for text in reports(form):
        assert valid(text), text


@pytest.mark.parametrize("form", FORMS)
def test_the_original_refuses_what_is_wrong(
    form: str, reports: Callable[[str], list[str]], request: pytest.FixtureRequest
) -> None:
    valid: Valid = request.getfixturevalue(form)
    wrong = {
        "sarif": ('"startLine": 6', '"startLine": "6"'),
        "junit": ('<testsuite name="pkg/both.py"', "<testsuite"),
        "rdjson": ('"message"', '"massage"'),
    }[form]
    text = reports(form)[0]
    assert wrong[0] in text
    assert not valid(text.replace(*wrong))


@needs_npm
def test_our_schema_of_sarif_is_at_least_as_strict(
    reports: Callable[[str], list[str]], sarif: Valid
) -> None:
    document = json.loads(reports("sarif")[0])
    ours = jsonschema.Draft202012Validator(SARIF)
    without_a_key = damaged(document)[0::2]
    refused = [changed for changed in without_a_key if not sarif(json.dumps(changed))]
    assert len(refused) > 10
    assert not any(ours.is_valid(changed) for changed in refused)


def test_our_schema_of_junit_is_at_least_as_strict(
    reports: Callable[[str], list[str]], junit: Valid
) -> None:
    root = ElementTree.fromstring(reports("junit")[0])
    ours = jsonschema.Draft202012Validator(JUNIT)
    refused = 0
    for element in root.iter():
        for name in list(element.attrib):
            value = element.attrib.pop(name)
            if not junit(ElementTree.tostring(root, encoding="unicode")):
                refused += 1
                assert not ours.is_valid(tree(root)), (element.tag, name)
            element.attrib[name] = value
    assert refused > 10
