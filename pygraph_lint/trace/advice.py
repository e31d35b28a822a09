"""What to write instead, for one place."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pygraph_lint.findings import Finding
from pygraph_lint.fixes.engine.file_fixes import apply
from pygraph_lint.report import shown_path
from pygraph_lint.rules.break_forms import rules_of
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.trace.join import OBSERVED, Place
from pygraph_lint.trace.sources import Code

_BY_KIND = {
    "recompilation": "pass what changes as a tensor, or mark it dynamic "
    "(`torch._dynamo.mark_dynamic`, `dynamic=True`)",
    "recompilation limit": "remove the recompilations of this function: after the limit it is not "
    "compiled any more",
    "sync": "keep the value on the device; `pygraph-lint rule PG2` lists what makes the host wait",
    "host tensor": "make the tensor on the device; `pygraph-lint rule PG1` lists the forms",
    "compiled before tracing": "begin the trace before the first call of the compiled function",
}

_DYNAMO = "/torch/_dynamo/"  # its own versions of Python's functions

UNSAFE = "--fix --unsafe-fixes"


def fixable(finding: Finding) -> str:
    """The option of the command that fixes a finding; empty where none does."""
    applicability = finding.fix.applicability if finding.fix is not None else ""
    return {"safe": "--fix", "unsafe": UNSAFE}.get(applicability, "")


def advice(place: Place, rules: Mapping[str, Rule]) -> str:
    """One sentence or two; empty where there is nothing to say."""
    for finding in place.findings:
        option = fixable(finding)
        if option and finding.fix is not None:
            fix = finding.fix
            why = f" (unsafe: {fix.reason})" if fix.applicability == "unsafe" else ""
            return f"`{option}`: {fix.message}{why}"
    for finding in place.findings:
        if finding.code in rules and rules[finding.code].by_hand:
            said = rules[finding.code].advice_for(finding.event)
            return f"by hand: {said} (`pygraph-lint rule {finding.code}`)"
    if place.kind == "sync" and place.status == OBSERVED:
        return "nothing, if it happens once: it is outside of compiled code"
    event = place.first
    library = _library(place)
    own_code = event.gb_id and not library
    known = [code for code in rules_of(event.gb_id) if code in rules] if own_code else []
    more = f" (`pygraph-lint rule {event.gb_id}`)" if event.gb_id else ""
    if len(known) == 1 and rules[known[0]].by_hand:
        return f"by hand: {rules[known[0]].by_hand}{more}"
    if event.hints:
        return f"{library}torch says: {event.hints[0]}{more}"
    return library + (_BY_KIND.get(place.kind, "") or more.strip(" ()"))


def _library(place: Place) -> str:
    """Where the break is, if not on the line itself; rules say nothing about code of libraries."""
    inner = next((f for f in reversed(place.first.stack) if _DYNAMO not in f.file), None)
    broke = place.kind in ("graph break", "error while compiling")
    if not broke or inner is None or inner.file == place.file:
        return ""
    where = "/".join(inner.file.rpartition("site-packages/")[2].split("/")[-4:])
    return (
        f"the break is in a library (`{inner.function}`, {where}:{inner.line}): compile code that "
        "does not call it; "
    )


def diff(finding: Finding, code: Code) -> str:
    """The fix of a finding as a unified diff; empty where there is none."""
    if not fixable(finding) or finding.fix is None:
        return ""
    after, _ = apply(code.text, [finding.fix])
    name = shown_path(str(code.path))
    lines = difflib.unified_diff(
        code.text.splitlines(), after.splitlines(), name, name, lineterm="", n=2
    )
    return "\n".join(lines)
