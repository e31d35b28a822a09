"""How right `pygraph-lint trace` is about the number of graphs after each step, on 20 models.

Breaks are written into a copy of a model's own module, before statements that torch.compile
traces: a call of `graph_break`, a print, a call of a builtin. The model is traced, and the breaks
are taken out again one after the other in the suggested order; after each step it is traced again,
and its graphs are counted. Breaks of the model itself stay. Models are drawn with fixed seeds from
the develop half of `lint_truth`, without those that were looked at while this was built (those at
equal distances by name); places are drawn with a fixed seed for each model. There are two sets of
20 models: one whose wrong numbers were looked at to make the next ones right, and one that was
drawn and scored after that.

    make bench-trace-predictions ARGS="--set unseen --keep FOLDER"

`--keep` leaves each model's first trace in a folder, `--again` predicts from these traces without
tracing: the graphs that are left do not depend on the linter.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.lint_truth import preload
from benchmarks.lint_truth.builders import Entry, build
from benchmarks.lint_truth.catalogue import catalogue
from benchmarks.lint_truth.packages import declare_vision_operators
from benchmarks.lint_truth.truth import half_of
from benchmarks.trace_truth import call, in_child, spread
from pygraph_lint.trace.document import read_all
from pygraph_lint.trace.fix_order import EXACT, number_of_graphs, order
from pygraph_lint.trace.join import join
from pygraph_lint.trace.sources import find
from pygraph_rt.trace.session import Trace

RESULT = Path(__file__).parent / "results" / "trace_predictions.json"
MODELS = {"transformers": 14, "timm": 3, "diffusers": 3}
BREAKS = ("torch._dynamo.graph_break()", "print(end='')", "__import__('gc').isenabled()")
PLACES = 4
SEEDS = {"developed_on": 29, "unseen": 2026}
Row = dict[str, Any]


def chosen(name: str) -> Iterator[Entry]:
    """The models of one of the sets; none is in two."""
    draws = {one: random.Random(seed) for one, seed in SEEDS.items()}
    for package, count in MODELS.items():
        found = [e for e in catalogue() if e.package == package and half_of(e.family) == "tune"]
        found.sort(key=lambda e: e.name)
        seen = {e.name for e in spread(found, count)}
        for one, draw in draws.items():
            drawn = draw.sample([e for e in found if e.name not in seen], count)
            seen |= {e.name for e in drawn}
            if one == name:
                yield from drawn


def statements(text: str, traced: set[int]) -> list[int]:
    """Lines of traced statements in functions before which another statement can be written."""
    found = set()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            body = function.body[ast.get_docstring(function) is not None :]
            inside = (one for part in body for one in ast.walk(part))
            found |= {one.lineno for one in inside if isinstance(one, ast.stmt)}
    lines = text.splitlines()
    first = ("elif", "else", "except", "finally", "@", "def", "class")
    return sorted(n for n in found & traced if not lines[n - 1].lstrip().startswith(first))


def broken(text: str, places: dict[int, str]) -> tuple[str, dict[int, int]]:
    """A module with the breaks in it, and the line of each, by the line that they stand before."""
    lines: list[str] = []
    where = {}
    for number, line in enumerate(text.splitlines(), 1):
        if number in places:
            lines.append(line[: len(line) - len(line.lstrip())] + places[number])
            where[number] = len(lines)
        lines.append(line)
    return "\n".join(lines) + "\n", where


def use(module: str, file: Path) -> None:
    """Define a module anew from a file, under its own name."""
    found = importlib.import_module(module)
    found.__dict__["torch"] = torch
    code = compile(file.read_text("utf-8"), str(file), "exec", dont_inherit=True)
    exec(code, found.__dict__)


def unchanged(entry: Entry) -> Row:
    """The module of a model, and the lines in it that torch.compile traces."""
    with Trace() as trace:
        call(entry)
    module = type(build(entry, "eval")[0]).__module__
    file = sys.modules[module].__file__ or ""
    return {"module": module, "file": file, "lines": sorted(trace.recorder.traced_lines[file])}


def graphs(entry: Entry, module: str, file: Path) -> Callable[[], int]:
    """Counts the graphs of a model in a module that is defined by a file, and writes the trace."""

    def count() -> int:
        use(module, file)
        trace = Trace(file.with_name("trace.json"))
        with trace:
            call(entry)
        return len(trace.to_dict()["regions"])

    return count


def measured(entry: Entry, folder: Path) -> Row:
    """What was predicted for one model, and what came true."""
    found = in_child(lambda: unchanged(entry), folder / "unchanged")
    if found is None:
        return {"failed": "the process ended early"}
    text = Path(found["file"]).read_text("utf-8")
    draw = random.Random(entry.name)
    possible = statements(text, set(found["lines"]))
    places = {n: draw.choice(BREAKS) for n in draw.sample(possible, min(PLACES, len(possible)))}
    text, where = broken(text, places)
    file = folder / "model.py"
    file.write_text(text, "utf-8")
    before = in_child(graphs(entry, found["module"], file), folder / "before")
    if before is None:
        return {"failed": "the process ended early"}
    shutil.copy(file, folder / "first.py")
    shutil.copy(folder / "trace.json", folder / "first.json")
    row: Row = {"package": entry.package, "before": before, "steps": []}
    for step in steps(folder, set(where.values())):
        lines = file.read_text("utf-8").splitlines()
        written = lines[step["line"] - 1]
        lines[step["line"] - 1] = written[: len(written) - len(written.lstrip())] + "pass"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        after = in_child(graphs(entry, found["module"], file), folder / f"after{step['line']}")
        row["steps"].append({**step, "break": written.strip(), "after": after})
    (folder / "row.json").write_text(json.dumps(row) + "\n", "utf-8")
    return row


def predicted_again(folder: Path) -> Row:
    """The row of a model whose first trace was kept, with what is predicted from it now."""
    row: Row = json.loads((folder / "row.json").read_text("utf-8"))
    shutil.copy(folder / "first.py", folder / "model.py")
    shutil.copy(folder / "first.json", folder / "trace.json")
    now = steps(folder, {step["line"] for step in row["steps"]})
    if [step["line"] for step in now] != [step["line"] for step in row["steps"]]:
        return {"failed": "the order is another one: trace again"}
    return {**row, "steps": [{**old, **new} for old, new in zip(row["steps"], now, strict=True)]}


def steps(folder: Path, lines: set[int]) -> list[Row]:
    """The predictions of the trace in a folder, for breaks at these lines only."""
    os.chdir(folder)
    traces = read_all([folder / "trace.json"])
    joined = join(traces, find(traces), [])
    file = str(folder / "model.py")
    places = [p for p in joined.places if p.file == file and p.lines[0] in lines]
    assert number_of_graphs(traces) == len(traces[0].regions)
    return [
        {
            "line": step.place.lines[0],
            "predicted": step.graphs,
            "exactly": step.known == EXACT and not step.uncovers,
            "said": str(step),
        }
        for step in order(dataclasses.replace(joined, places=places))
    ]


def totals(rows: dict[str, Row]) -> Row:
    """Sums over all steps."""
    found: Counter[str] = Counter()
    for row in rows.values():
        found["models"] += bool(row.get("steps"))
        for step in row.get("steps", ()):
            right = step["predicted"] == step["after"]
            found["steps"] += 1
            found["exact"] += right
            found["said to be certain"] += step["exactly"]
            found["certain and wrong"] += step["exactly"] and not right
            found["too low and not marked"] += step["exactly"] and step["predicted"] < step["after"]
    return {**found, "exact_share": round(found["exact"] / max(1, found["steps"]), 3)}


def score(name: str, given: argparse.Namespace) -> Row:
    """The rows of one set, and their sums."""
    rows: dict[str, Row] = {}
    for entry in chosen(name):
        if given.only and entry.name not in given.only:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            kept = given.again or given.keep or Path(temporary)
            folder = Path(os.path.realpath(kept / entry.name.replace("/", "_")))
            folder.mkdir(parents=True, exist_ok=True)
            rows[entry.name] = predicted_again(folder) if given.again else measured(entry, folder)
            os.chdir("/")
        print(entry.name, json.dumps(rows[entry.name]), flush=True)
    print(json.dumps(totals(rows), indent=1))
    return {"seed": SEEDS[name], "totals": totals(rows), "models": rows}


def main() -> None:
    """Measure, print, and write the result."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--set", choices=SEEDS, help="default: both")
    made.add_argument("--only", nargs="*", help="names of models; nothing is written")
    made.add_argument("--keep", type=Path, help="a folder for the first traces")
    made.add_argument("--again", type=Path, help="the folder of an earlier --keep")
    given = made.parse_args()
    declare_vision_operators()
    preload.load()
    for name in [given.set] if given.set else SEEDS:
        scored = score(name, given)
        if given.only:
            continue
        result = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
        versions = {"torch": torch.__version__, "python": sys.version.split()[0]}
        result = {**result, name: {**versions, **scored}}
        kept = {one: result[one] for one in SEEDS if one in result}
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
