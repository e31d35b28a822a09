"""What the linter says of the events of a trace, where it is installed beside the runtime."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from pygraph_rt.trace import document as documents
from pygraph_rt.trace.session import Trace

SECONDS = 60  # after that the events are shown without it
_JOIN = ("-m", "pygraph_lint", "trace", "--output-format", "json", "--join")
Key = tuple[str, str, int]


def advice(trace: Trace) -> dict[Key, str]:
    """Findings, and what to write instead, by kind, file and line of an event of an ended trace.

    Empty where the linter is not installed, or cannot read the trace.
    """
    if importlib.util.find_spec("pygraph_lint") is None:
        return {}
    made = trace.to_dict()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        documents.write(made, file)
        command = [sys.executable, *_JOIN, str(file)]
        try:
            done = subprocess.run(
                command,
                cwd=made["directory"],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            joined = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return {}
    keys = {row["id"]: (row["kind"], row["file"], row["line"]) for row in made["events"]}
    found: dict[Key, str] = {}
    for place in (*joined["places"], *joined["elsewhere"]):
        # Where nothing is to be done in general, the test that failed still wants it gone.
        said = place["advice"] or ""
        said = "" if said.startswith("nothing") else said
        text = ": ".join(filter(None, (", ".join(place["codes"]), said)))
        if text:
            found.update({keys[event["id"]]: text for event in place["events"]})
    return found
