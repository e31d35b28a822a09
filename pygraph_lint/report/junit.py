"""JUnit's XML, one suite a file, one failed test a finding; a clean run has one passed test."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from pygraph_lint.findings import Finding
from pygraph_lint.report import Report, is_error, shown_path


def _case(suite: ElementTree.Element, finding: Finding) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=f"{finding.code} {finding.location}",
        classname=shown_path(finding.filename),
        time="0",
    )
    kind = "error" if is_error(finding) else "failure"
    message = _printable(finding.message)
    inside = ElementTree.SubElement(case, kind, message=message, type=finding.code)
    inside.text = f"{shown_path(finding.filename)}:{finding.location}: {message}"


def _printable(text: str) -> str:
    """The text without the control characters that XML cannot hold."""
    return "".join(
        c if c.isprintable() or c in " \n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def render(report: Report) -> str:
    """The whole report."""
    total = max(len(report.findings), 1)
    errors = sum(is_error(finding) for finding in report.findings)
    root = ElementTree.Element(
        "testsuites",
        name="pygraph-lint",
        tests=str(total),
        failures=str(len(report.findings) - errors),
        errors=str(errors),
    )
    for filename, group in groupby(report.findings, lambda finding: finding.filename):
        findings = list(group)
        broken = sum(is_error(finding) for finding in findings)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=shown_path(filename),
            tests=str(len(findings)),
            failures=str(len(findings) - broken),
            errors=str(broken),
        )
        for finding in findings:
            _case(suite, finding)
    if not report.findings:
        suite = ElementTree.SubElement(
            root, "testsuite", name="pygraph-lint", tests="1", failures="0", errors="0"
        )
        ElementTree.SubElement(
            suite, "testcase", name="no findings", classname="pygraph-lint", time="0"
        )
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'
