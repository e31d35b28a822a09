"""The recorder beside torch's own log of another process that is not traced.

Each model is compiled and called twice in a process with TORCH_TRACE, and in another process with
the recorder. Graph breaks are compared by compilation, file and kind, recompilations by
compilation, and then by line: torch's log names wrong lines in functions that continue after a
break, which the recorder corrects. Both have to end alike, and to return the same bits. Models are
those of the develop half of `lint_truth`.

    make bench-trace-truth ARGS="--models 40"
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from benchmarks.lint_truth import preload
from benchmarks.lint_truth.builders import Entry, build
from benchmarks.lint_truth.catalogue import catalogue
from benchmarks.lint_truth.packages import declare_vision_operators
from benchmarks.lint_truth.truth import half_of
from pygraph_rt.trace.session import Trace
from pygraph_rt.trace.torch_hooks import gb_ids

RESULT = Path(__file__).parent / "results" / "trace_truth.json"
SITES = RESULT.with_name("lint_truth_sites.json")
CALLS = 2
PACKAGES = ("transformers", "timm")
PLACE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
HEAD = re.compile(r"Graph break in user code at (.+):(\d+)$")

Key = tuple[str, str, str]


def chosen(count: int) -> list[Entry]:
    """Models of the develop half: first those with known graph breaks, spread over the names."""
    sites = json.loads(SITES.read_text("utf-8"))["sites"]
    named = {model for site in sites for model in site["kinds"].get("break", {}).get("in", ())}
    found = [e for e in catalogue() if e.package in PACKAGES and half_of(e.family) == "tune"]
    found.sort(key=lambda e: e.name)
    breaking = [e for e in found if {f"{e.name}:eval", f"{e.package}/{e.name}:eval"} & named]
    others = [e for e in found if e not in breaking]
    return [*spread(breaking, count - count // 5), *spread(others, count // 5)]


def spread(entries: list[Entry], count: int) -> list[Entry]:
    """So many of them, at equal distances."""
    step = max(1, len(entries) // max(1, count))
    return entries[::step][:count]


def call(entry: Entry, backend: str = "eager") -> list[str]:
    """Compile and call a model: the error's type where it raises one, and a sum of its results."""
    torch.manual_seed(0)
    model, inputs = build(entry, "eval")
    compiled = torch.compile(model, backend=backend)
    given = inputs if isinstance(inputs, list) else [inputs] * CALLS
    returned = hashlib.sha256()
    try:
        with torch.no_grad():
            for named in given:
                for leaf in tree_leaves(compiled(**named)):
                    returned.update(bits(leaf))
    except Exception as error:
        return [type(error).__name__, returned.hexdigest()]
    return ["", returned.hexdigest()]


def bits(value: Any) -> bytes:
    """What a result is, bit by bit; of other objects than tensors the type."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__.encode()
    data = value.detach().contiguous().reshape(-1).view(torch.uint8)
    return f"{value.dtype}{tuple(value.shape)}".encode() + data.numpy().tobytes()


def in_child(work: Any, out: Path) -> Any:
    """What `work()` returns in a forked process, None where that process died."""
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        try:
            out.write_text(json.dumps(work()), "utf-8")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return json.loads(out.read_text("utf-8")) if out.exists() else None


def records(log: Path) -> list[tuple[dict[str, Any], str]]:
    """The entries of a structured log, each with its payload."""
    found: list[tuple[dict[str, Any], list[str]]] = []
    for line in log.read_text("utf-8").splitlines():
        if line.startswith("\t"):
            if found:
                found[-1][1].append(line[1:])
        elif "{" in line:
            found.append((json.loads(line[line.index("{") :]), []))
    return [(entry, "\n".join(payload)) for entry, payload in found]


def kind_in(text: str) -> str:
    """The kind of a graph break in torch's message: a line of it is the kind's name."""
    text = text.rpartition("*** While handling this graph break")[2] or text
    lines = (line.strip().removeprefix("Graph Break Reason: ") for line in text.splitlines())
    return next((line for line in lines if line in gb_ids()), "other")


def logged(log: Path) -> dict[str, Any]:
    """Breaks and recompilations that torch has logged."""
    breaks: dict[Key, int] = {}
    recompiled: Counter[str] = Counter()
    for entry, payload in records(log):
        artifact = entry.get("artifact") or {}
        compile_id = f"{entry.get('frame_id')}/{entry.get('frame_compile_id')}"
        if artifact.get("name") == "recompile_reasons":
            recompiled[compile_id] += 1
        if artifact.get("name") != "dynamo_graph_break_reason":
            continue
        text = payload.split("\nTraceback (most recent call last)", 1)[0]
        kind = kind_in(payload if text.startswith("Graph break: ") else text)
        if "recompile limit exceeded" in kind:
            continue
        head = HEAD.match(text.splitlines()[0])
        places = PLACE.findall(text)
        file, line = head.groups() if head else places[-1][:2] if places else ("", "0")
        breaks[compile_id, file, kind] = int(line)
    return {"breaks": breaks, "recompiled": recompiled}


def traced(entry: Entry) -> dict[str, Any]:
    """Breaks and recompilations that the recorder has seen."""
    with Trace() as trace:
        end = call(entry)
    rows = []
    for event in trace.events:
        inner = event.stack[-1] if event.stack else event.place
        kind = event.gb_type if event.gb_type in gb_ids() else "other"
        rows.append([event.kind, event.compile_ids, inner.file, kind, inner.line])
    return {"rows": rows, "end": end}


def compared(entry: Entry, folder: Path) -> dict[str, Any]:
    """One model's row."""
    before = set(folder.glob("dedicated_log*"))
    name = entry.name.replace("/", "-")
    plain = in_child(lambda: call(entry), folder / f"{name}.plain")
    logs = [p for p in folder.glob("dedicated_log*") if p not in before]
    seen = in_child(lambda: traced(entry), folder / f"{name}.traced")
    row: dict[str, Any] = {"package": entry.package, "error": plain and plain[0]}
    if seen is None or plain is None or len(logs) != 1:
        return {**row, "failed": "a process ended early, or torch wrote no log"}
    said = logged(logs[0])
    mine: dict[Key, int] = {}
    recompiled: Counter[str] = Counter()
    for kind, ids, file, gb_type, line in seen["rows"]:
        if kind == "graph_break":
            mine |= {(compile_id, file, gb_type): line for compile_id in ids}
        elif kind in ("recompile", "cache_limit"):
            recompiled.update(ids)
    both = mine.keys() & said["breaks"].keys()
    return {
        **row,
        "same_end": seen["end"] == plain,
        "breaks_logged": len(said["breaks"]),
        "breaks_found": len(both),
        "breaks_missed": sorted(map(list, said["breaks"].keys() - mine.keys())),
        "breaks_invented": sorted(map(list, mine.keys() - said["breaks"].keys())),
        "same_line": sum(mine[key] == said["breaks"][key] for key in both),
        "recompilations_logged": sum(said["recompiled"].values()),
        "recompilations_found": sum((said["recompiled"] & recompiled).values()),
        "recompilations_invented": sum((recompiled - said["recompiled"]).values()),
    }


def totals(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Sums over the models that both processes ran."""
    good = [row for row in rows.values() if "failed" not in row]
    names = ("breaks_logged", "breaks_found", "same_line", "recompilations_logged")
    names += ("recompilations_found", "recompilations_invented")
    found = {name: sum(row[name] for row in good) for name in names}
    found["breaks_invented"] = sum(len(row["breaks_invented"]) for row in good)
    found["models_that_ended_the_same"] = sum(row["same_end"] for row in good)
    return {"models": len(good), "models_failed": len(rows) - len(good), **found}


def short(row: dict[str, Any]) -> dict[str, Any]:
    """A row without paths of this machine."""
    for name in ("breaks_missed", "breaks_invented"):
        for key in row.get(name, ()):
            key[1] = "/".join(Path(key[1]).parts[-3:])
    return row


def main() -> None:
    """Compare, print the totals, write the result."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--models", type=int, default=40)
    given = made.parse_args()
    folder = Path(os.environ["TORCH_TRACE"])
    declare_vision_operators()
    preload.load()  # once, not in every process
    warnings.simplefilter("ignore")
    logging.disable(logging.NOTSET)
    rows = {}
    for entry in chosen(given.models):
        rows[entry.name] = short(compared(entry, folder))
        print(entry.name, rows[entry.name], flush=True)
        result = {
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "totals": totals(rows),
            "models": rows,
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(totals(rows), indent=1))


if __name__ == "__main__":
    if "TORCH_TRACE" not in os.environ:
        with tempfile.TemporaryDirectory() as logs:
            more = {"TORCH_TRACE": logs, "TORCH_LOGS": "graph_breaks,recompiles"}
            command = [sys.executable, "-m", "benchmarks.trace_truth", *sys.argv[1:]]
            sys.exit(os.spawnve(os.P_WAIT, sys.executable, command, {**os.environ, **more}))
    main()
