"""Five programs with real frameworks, from the first trace to a clean one: transcripts and figures.

`make trace-programs` writes docs/how-to/trace-transcripts.md and trace_programs.json among the
results.
Each program is traced, fixed by `pygraph-lint trace --fix --unsafe-fixes`, traced, edited by hand
(its `clean.txt`), traced, and the first trace is compared with the last one. Steps are timed
without a trace, before and after (`--keep-times`: as in the result file).

The order of repair is followed apart from that: the lines of `steps.json` take the place of those
that break, one after the other, and the graphs of a new trace are counted after each.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "fixtures" / "trace" / "real"
RESULT = ROOT / "benchmarks" / "results" / "trace_programs.json"
PAGE = ROOT / "docs" / "how-to" / "trace-transcripts.md"
SHOWN = "/home/user/project"
INSTALLED = "/home/user/venv"
NAMES = ("trainer", "lightning", "plain_loop", "generate", "sampler")
INFERENCE = ("generate", "sampler")
TIMED_STEPS = 40
TIMES = 3
PACKAGES = ("torch", "transformers", "accelerate", "lightning", "diffusers", "tqdm")
HEAD = """\
# From the first trace to a clean one

<!-- all blocks: output of `make trace-programs` -->

Made by `make trace-programs` from the programs in `fixtures/trace/real/`, with `TORCH_LOGS=-dynamo`
and without a GPU: a sync is one that would wait. Everything in the blocks is what the commands
printed; only names of folders are replaced. Versions, figures and times of a step are in
`benchmarks/results/trace_programs.json`.

"""


@dataclass
class Session:
    """A program in a folder of its own, and what was said while it was fixed."""

    folder: Path
    program: Path
    said: list[str] = field(default_factory=list)

    def lint(self, *arguments: str) -> str:
        """Run `pygraph-lint trace`; what it printed, which is also kept."""
        environment = {**os.environ, "TORCH_LOGS": "-dynamo", "COLUMNS": "100"}
        path = [str(ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        done = subprocess.run(
            [sys.executable, "-m", "pygraph_lint", "trace", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed = done.stdout.replace(str(self.folder), SHOWN).replace(sys.prefix, INSTALLED)
        command = " ".join(["pygraph-lint", "trace", *arguments])
        self.said.append(f"```console\n$ {command}\n{printed.rstrip()}\n```\n")
        return printed

    def trace(self, name: str) -> dict[str, Any]:
        """Run and trace the program; figures of the trace, and the steps that are left."""
        self.lint("--trace-file", name, self.program.name)
        trace = json.loads((self.folder / name).read_text("utf-8"))
        kept = self.said.copy()
        joined = json.loads(self.lint("--join", name, "--output-format", "json"))
        self.said = kept
        count = lambda kind: sum(e["count"] for e in trace["events"] if e["kind"] == kind)  # noqa: E731
        return {
            "graphs": len(trace["regions"]),
            "graph_breaks": count("graph_break"),
            "recompiles": count("recompile"),
            "syncs": count("sync"),
            "totals": joined["totals"],
            "fix_order": [
                {key: step[key] for key in ("line", "graphs", "known", "uncovers")}
                for step in joined["fix_order"]
            ],
        }


def step_ms(name: str, program: Path) -> float:
    """Milliseconds a step: the median of several processes."""
    command = [sys.executable, str(ROOT / "benchmarks" / "trace_step_time.py"), str(program)]
    command += [str(TIMED_STEPS), *(["--calls"] if name in INFERENCE else [])]
    environment = {**os.environ, "TORCH_LOGS": "-dynamo"}
    found = []
    for _ in range(TIMES):
        done = subprocess.run(
            command, cwd=program.parent, env=environment, capture_output=True, text=True, check=True
        )
        found.append(float(done.stdout.rpartition("ms a step: ")[2]))
    return statistics.median(found)


def followed(name: str, program: Path, order: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps of the first trace, each with the graphs that were left after it."""
    edits = json.loads((PROGRAMS / name / "steps.json").read_text("utf-8"))
    lines = program.read_text("utf-8").splitlines()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        session = Session(Path(os.path.realpath(temporary)), Path(temporary) / program.name)
        (session.folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n", "utf-8")
        for step in order:
            line = lines[step["line"] - 1]
            indent = line[: len(line) - len(line.lstrip())]
            lines[step["line"] - 1] = indent + edits[str(step["line"])]
            session.program.write_text("\n".join(lines) + "\n", "utf-8")
            rows.append({**step, "after": session.trace("step.json")["graphs"]})
    return rows


def totals(results: dict[str, dict[str, Any]]) -> dict[str, int]:
    """How many of the numbers of graphs came true."""
    steps = [step for figures in results.values() for step in figures["steps"]]
    marked = [step for step in steps if step["known"] != "exactly" or step["uncovers"]]
    return {
        "steps": len(steps),
        "exact": sum(step["graphs"] == step["after"] for step in steps),
        "said to be certain": len(steps) - len(marked),
        "too low and not marked": sum(
            step["graphs"] < step["after"] for step in steps if step not in marked
        ),
    }


def fix(name: str, old: Mapping[str, float | None]) -> tuple[str, dict[str, Any]]:
    """Fix one program: its chapter of the page, and its figures. old: times that are kept."""
    original = next((PROGRAMS / name).glob("*.py"))
    print(name, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.path.realpath(temporary))
        session = Session(folder, folder / original.name)
        shutil.copy(original, session.program)
        (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n", "utf-8")
        said = session.said
        about = original.read_text("utf-8").partition('"""')[2].partition('"""')[0]
        session.said += [f"## {name}\n\n{about}\n\n"]
        figures = {"before": session.trace("before.json")}
        figures["before"]["step_ms"] = old["before"] or step_ms(name, session.program)
        figures["steps"] = followed(name, session.program, figures["before"]["fix_order"])
        report = ("--output-file", "before.txt")
        session.lint("--join", "before.json", "--fix", "--unsafe-fixes", *report)
        fixed = session.program.read_text("utf-8")
        clean = (PROGRAMS / name / "clean.txt").read_text("utf-8")
        if fixed != original.read_text("utf-8"):
            figures["after_fix"] = session.trace("fixed.json")
        if fixed != clean:
            changed = difflib.unified_diff(
                fixed.splitlines(), clean.splitlines(), original.name, original.name, "", "", 1, ""
            )
            session.said.append("By hand:\n\n```diff\n" + "\n".join(changed) + "\n```\n")
            session.program.write_text(clean, "utf-8")
        figures["after"] = session.trace("after.json")
        figures["after"]["step_ms"] = old["after"] or step_ms(name, session.program)
        session.lint("--compare", "before.json", "after.json")
        said = session.said
    return "\n".join(said), figures


def times(name: str) -> dict[str, float | None]:
    """Milliseconds a step, before and after, in the result file."""
    old = json.loads(RESULT.read_text("utf-8"))["programs"][name]
    return {when: old[when]["step_ms"] for when in ("before", "after")}


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--keep-times", action="store_true")
    made.add_argument("names", nargs="*", help="some of the programs; nothing is written")
    given = made.parse_args()
    pages, results = [], {}
    for name in given.names or NAMES:
        old = times(name) if given.keep_times else {"before": None, "after": None}
        page, results[name] = fix(name, old)
        pages.append(page)
        print(json.dumps(results[name]["steps"]), flush=True)
    print(json.dumps(totals(results), indent=1))
    if not given.names:
        PAGE.write_text(HEAD + "\n".join(pages), "utf-8")
        versions = {name: metadata.version(name) for name in PACKAGES}
        result = {"versions": versions, "step_totals": totals(results), "programs": results}
        RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
