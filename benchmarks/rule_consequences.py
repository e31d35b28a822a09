"""What Dynamo does with the rule pages' bad examples, for each version of torch.

Run once in an environment of each version; every run replaces its own version's rows:

    python -m benchmarks.rule_consequences --out benchmarks/results/rule_consequences_by_torch.json

Each example runs in a process of its own. Needs torch and the linter's page reader. Examples that
need a CUDA device or cannot be run at all are listed with their reason.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pygraph_lint.rules import catalogue
from tests.rules import examples
from tests.rules.observe import Observed, observe

TIMEOUT_S = 120.0


def version_of(text: str) -> str:
    """ "2.15.0+cu132" -> "2.15"."""
    return ".".join(text.split(".")[:2])


def row_of(example: examples.Example, seen: Observed) -> dict[str, Any]:
    """What was observed, as plain data.

    ``own`` are the breaks on the lines that the example marks with its own rule; ``breaks`` has
    all of them.
    """
    own = {line for line, codes in example.marks.items() if example.code in codes}
    reached = set(seen.lines_of(example.code))
    return {
        "breaks": bool(own & reached),
        "graphs": seen.graphs,
        "break_lines": list(seen.break_lines),
        "reports": [
            {"line": each.line, "gb_type": each.gb_type, "gb_id": each.gb_id}
            for each in seen.reports
        ],
        "fullgraph": "error" if seen.error else "ok",
        "fullgraph_error": seen.error[:200],
        "fullgraph_gb_type": seen.fullgraph.gb_type if seen.fullgraph else "",
        "fullgraph_gb_id": seen.fullgraph.gb_id if seen.fullgraph else "",
    }


def _observe(example: examples.Example, pipe: Connection) -> None:
    try:
        with tempfile.TemporaryDirectory() as folder:
            row = row_of(example, observe(examples.load(example, Path(folder))))
    except Exception as error:  # the example does not run in this version, also without compile
        row = {"trouble": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    pipe.send(row)


def in_process(example: examples.Example) -> dict[str, Any]:
    """One example's row, from a forked process that cannot take this one down."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_observe, args=(example, theirs))
    process.start()
    theirs.close()
    try:
        row: dict[str, Any] = (
            ours.recv() if ours.poll(TIMEOUT_S) else {"trouble": "ran out of time"}
        )
    except EOFError:
        row = {"trouble": "the process ended"}
    process.kill()
    process.join()
    return row


def merged(old: dict[str, Any], version: str, environment: dict[str, str], rows: Any) -> Any:
    """`old` results with one version's rows replaced.

    ``examples`` maps an example to what does not depend on torch and, under ``torch``, to one row
    a version. Examples that are no longer in the pages, or were changed since, are dropped.
    """
    result: dict[str, Any] = {"environments": dict(old.get("environments", {})), "examples": {}}
    result["environments"][version] = environment
    for name, (facts, row) in rows.items():
        known = old.get("examples", {}).get(name, {})
        same = known.get("digest") == facts["digest"]
        by_version = dict(known.get("torch", {})) if same else {}
        if row is not None:
            by_version[version] = row
        result["examples"][name] = {**facts, "torch": dict(sorted(by_version.items()))}
    result["environments"] = dict(sorted(result["environments"].items()))
    return result


def _facts(example: examples.Example) -> dict[str, Any]:
    return {
        "code": example.code,
        "digest": example.digest,
        "claims": {key: example.claims[key] for key in ("compile", "fullgraph")},
        "marked": sorted(line for line, codes in example.marks.items() if example.code in codes),
        **({"not_run": example.not_run} if example.not_run else {}),
    }


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="codes; other rows stay")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    bad = [
        example
        for rule in catalogue.load().values()
        for example in examples.of_rule(rule)
        if not example.good
    ]
    rows = {}
    for example in bad:
        asked = not arguments.only or example.code in arguments.only
        row = in_process(example) if asked and not example.not_run else None
        rows[example.name] = (_facts(example), row)
        if asked:
            print(example.name, example.not_run or json.dumps(row), flush=True)
    out: Path = arguments.out
    old = json.loads(out.read_text()) if out.exists() else {}
    environment = {"torch": torch.__version__, "python": platform.python_version()}
    result = merged(old, version_of(torch.__version__), environment, rows)
    out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
