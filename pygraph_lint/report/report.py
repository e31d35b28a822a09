"""What a format is given, and what several of them share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pygraph_lint.findings import Finding
from pygraph_lint.rules.catalogue import Rule

_SAID = {
    ("compile", "break"): "graph break under torch.compile",
    ("compile", "skipped"): "torch.compile skips the whole frame",
    ("fullgraph", "error"): "error under fullgraph=True",
    ("cudagraph", "not capturable"): "cannot be captured in a CUDA graph",
    ("cudagraph", "stale"): "a replayed CUDA graph uses stale values",
    ("cudagraph", "slow"): "slows a CUDA graph down",
    ("sync", "yes"): "the host waits for the device",
}


@dataclass(frozen=True)
class Report:
    """The findings to show, in order; their rules; and how to get the text of a file."""

    findings: Sequence[Finding]
    rules: Mapping[str, Rule]
    text: Callable[[Path], str]


def shown_path(filename: str) -> str:
    """The path as a user would type it: relative where the file lies below the current folder."""
    folder = f"{Path.cwd()}{os.sep}"
    return filename.removeprefix(folder)


def consequences_in_words(consequences: Mapping[str, str]) -> list[str]:
    """What follows from a finding, as sentence fragments; nothing for what stays all right."""
    return [_SAID[key, value] for key, value in consequences.items() if (key, value) in _SAID]


def url(finding: Finding, rules: Mapping[str, Rule]) -> str | None:
    """Where the finding's rule is explained."""
    rule = rules.get(finding.code)
    return rule.url if rule is not None else None
