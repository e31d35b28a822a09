"""Five programs with real frameworks, from the first trace to a clean one: transcripts and figures.

`make trace-programs` writes docs/how-to/trace-transcripts.md and trace_programs.json among the
results.
Each program is traced, fixed by `pygraph-lint trace --fix --unsafe-fixes`, traced, edited by hand
(its `clean.txt`), traced, and the first trace is compared with the last one. Steps are timed
without a trace, before and after.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
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


def fix(name: str) -> tuple[str, dict[str, Any]]:
    """Fix one program: its chapter of the page, and its figures."""
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
        figures["before"]["step_ms"] = step_ms(name, session.program)
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
        figures["after"]["step_ms"] = step_ms(name, session.program)
        session.lint("--compare", "before.json", "after.json")
        said = session.said
    return "\n".join(said), figures


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    pages, results = [], {}
    for name in chosen:
        page, results[name] = fix(name)
        pages.append(page)
    if chosen is NAMES:
        PAGE.write_text(HEAD + "\n".join(pages), "utf-8")
        versions = {name: metadata.version(name) for name in PACKAGES}
        result = {"versions": versions, "programs": results}
        RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
