"""``make bench-server``: the editor server in transformers as the workspace.

200 recorded edits (``recorded.json``), each sent when the one before is shown: milliseconds from
sending it to its diagnostics. Then edits of the files that most others import. Then edits of base
classes: until the diagnostics of another open file change. Fixes: asking for what can be done at a
finding, and for the edit of the first fix.
The first read starts with an empty cache; meanwhile requests are sent. 100 files are compared with
what ``pygraph-lint check`` says of them. Wall time, and the CPU time of the server's processes,
since the machine may have other users.

Writes ``benchmarks/results/server.json`` (or ``--out FILE``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from benchmarks.lint_speed import package_folder, processor, version
from benchmarks.server.client import Editor, editor
from benchmarks.server.edits import HUBS, MOST_IMPORTED, read

RESULTS = Path(__file__).parent.parent / "results" / "server.json"
_FEW = 10  # of this many findings a file, fixes are asked for at most


def percentiles(milliseconds: Sequence[float]) -> dict[str, Any]:
    """Median, 95th percentile and largest of some times."""
    if not milliseconds:
        return {"number": 0}
    ordered = sorted(milliseconds)
    return {
        "number": len(ordered),
        "median_ms": round(ordered[len(ordered) // 2], 1),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], 1),
        "largest_ms": round(ordered[-1], 1),
    }


async def timed(request: Awaitable[Any]) -> tuple[float, Any]:
    """Milliseconds that a request took, and its answer."""
    started = time.perf_counter()
    answer = await request
    return 1000 * (time.perf_counter() - started), answer


class Memory:
    """The largest memory seen so far, looked at between steps."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self.largest = 0

    def look(self) -> None:
        """Look at it."""
        self.largest = max(self.largest, self._editor.memory())


async def first_read(editor: Editor) -> dict[str, Any]:
    """Open a file that most of the package can reach, and ask while it is read."""
    name = HUBS[-1]
    started = editor.open(name)
    asked: list[float] = []
    waiting = asyncio.ensure_future(editor.diagnostics(name))
    while not waiting.done():
        hover = types.HoverParams(editor.document(name), types.Position(200, 10))
        actions = types.CodeActionParams(
            editor.document(name),
            types.Range(types.Position(0, 0), types.Position(300, 0)),
            types.CodeActionContext([]),
        )
        lenses = types.CodeLensParams(editor.document(name))
        asked += [
            (await timed(editor.client.text_document_hover_async(hover)))[0],
            (await timed(editor.client.text_document_code_action_async(actions)))[0],
            (await timed(editor.client.text_document_code_lens_async(lenses)))[0],
        ]
        await asyncio.sleep(0.05)
    shown = waiting.result()
    assert shown is not None
    editor.close(name)
    first = editor.progress[0][0] - started if editor.progress else None
    return {
        "file": name,
        "seconds": round(shown[0] - started, 1),
        "requests": percentiles(asked),
        "progress_after_s": round(first, 2) if first is not None else None,
        "progress_reports": len(editor.progress),
    }


async def edits(editor: Editor, memory: Memory, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """Make the recorded edits, each when the one before is shown."""
    rows: list[dict[str, Any]] = []
    open_file = ""
    for edit in recorded:
        if edit["file"] != open_file:
            if open_file:
                editor.close(open_file)
            open_file = edit["file"]
            print(open_file, file=sys.stderr, flush=True)
            editor.open(open_file)
            await editor.diagnostics(open_file)
        cpu, started = editor.cpu(), editor.change(edit)
        shown = await editor.diagnostics(open_file)
        assert shown is not None
        rows.append(
            {
                "file": edit["file"],
                "kind": edit["kind"],
                "ms": round(1000 * (shown[0] - started), 1),
                "cpu_ms": round(1000 * (editor.cpu() - cpu)),
                "findings": len(shown[1]),
            }
        )
        memory.look()
    editor.close(open_file)
    hubs = [row for row in rows if row["file"] in HUBS]
    return {
        "all": percentiles([row["ms"] for row in rows]),
        "all_cpu": percentiles([row["cpu_ms"] for row in rows]),
        "hubs": percentiles([row["ms"] for row in hubs]),
        "without_hubs": percentiles([row["ms"] for row in rows if row not in hubs]),
        "rows": rows,
    }


async def most_imported(editor: Editor, memory: Memory) -> dict[str, Any]:
    """Edit files that nearly all others import, most of which no recorded edit is in."""
    found: dict[str, Any] = {}
    for name in MOST_IMPORTED:
        editor.open(name)
        await editor.diagnostics(name)
        spent = []
        for number in range(10):
            end = [number % 2, 0]  # a line more at the top, and a line less
            text = "" if number % 2 else "\n"
            started = editor.change({"file": name, "start": [0, 0], "end": end, "text": text})
            shown = await editor.diagnostics(name)
            assert shown is not None
            spent.append(1000 * (shown[0] - started))
        memory.look()
        editor.close(name)
        found[name] = percentiles(spent)
    return found


async def dependants(
    editor: Editor, memory: Memory, recorded: list[dict[str, Any]]
) -> dict[str, Any]:
    """Edit a base class, and wait until another open file is shown anew; take it back."""
    spent: list[float] = []
    for edit in recorded:
        name, other = edit["file"], edit["dependant"]
        for each in (name, other):
            editor.open(each)
            await editor.diagnostics(each)
        for one in (edit, _back(editor, edit)):
            started = editor.change(one)
            shown = await editor.diagnostics(other, after=started, seconds=30)
            spent.append(1000 * (shown[0] - started) if shown is not None else 30_000)
        memory.look()
        for each in (name, other):
            editor.close(each)
    return percentiles(spent)


def _back(editor: Editor, edit: dict[str, Any]) -> dict[str, Any]:
    """The edit that takes another back, of one line."""
    line, column = edit["start"]
    lines = (editor.folder / edit["file"]).read_text().split("\n")
    old = lines[line][column : edit["end"][1]]
    return {**edit, "end": [line, column + len(edit["text"])], "text": old}


async def fixes(editor: Editor, memory: Memory, names: Sequence[str]) -> dict[str, Any]:
    """Ask what can be done at findings right after an edit, and for the edit of each fix."""
    listed: list[float] = []
    resolved: list[float] = []
    everything: list[float] = []
    for name in names:
        editor.open(name)
        await editor.diagnostics(name)
        editor.change({"file": name, "start": [0, 0], "end": [0, 0], "text": "\n"})
        shown = await editor.diagnostics(name)
        assert shown is not None
        for found in shown[1][:_FEW]:
            spent, actions = await timed(
                editor.client.text_document_code_action_async(
                    types.CodeActionParams(
                        editor.document(name), found.range, types.CodeActionContext([])
                    )
                )
            )
            listed.append(spent)
            for action in actions or ():
                took, chosen = await timed(editor.client.code_action_resolve_async(action))
                assert chosen.edit is not None, action.title
                (everything if "all safe" in action.title else resolved).append(took)
            memory.look()
        editor.close(name)
    both = listed + resolved
    return {
        "listed": percentiles(listed),
        "chosen": percentiles(resolved),
        "listed_or_chosen": percentiles(both),
        "all_safe_fixes": percentiles(everything),
    }


async def compared(editor: Editor, names: Sequence[str]) -> dict[str, Any]:
    """What the server shows of files beside what ``check`` reports of them."""
    command = [sys.executable, "-m", "pygraph_lint", "check", "--output-format", "json", *names]
    done = subprocess.run(command, cwd=editor.folder, capture_output=True, check=False)
    reported: dict[str, list[list[Any]]] = {}
    for one in json.loads(done.stdout):
        place, end = one["location"], one["end_location"]
        row = [one["code"], place["row"], place["column"], end["row"], end["column"]]
        reported.setdefault(one["filename"], []).append([*row, one["message"]])
    different = []
    total = 0
    for name in names:
        editor.open(name)
        shown = await editor.diagnostics(name)
        assert shown is not None
        rows = [
            [
                str(one.code),
                one.range.start.line + 1,
                one.range.start.character + 1,
                one.range.end.line + 1,
                one.range.end.character + 1,
                one.message,
            ]
            for one in shown[1]
        ]
        total += len(rows)
        if sorted(rows) != sorted(reported.get(str(editor.folder / name), [])):
            different.append(name)
        editor.close(name)
    return {"files": len(names), "findings": total, "different": different}


async def measure(options: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """All of it, in one session."""
    folder = package_folder(options.package)
    recorded = read()
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("modeling_*.py")]
    drawn = random.Random(1).sample(sorted(files), options.files)
    report: dict[str, Any] = {
        "package": {"name": options.package, "version": version(options.package)},
        "wanted": {
            "edits.all.p95_ms": "< 200",
            "dependants.p95_ms": "< 2000",
            "fixes.listed_or_chosen.p95_ms": "< 1500",
            "first_read.requests.largest_ms": "<= 300",
            "memory_mib": "<= 700",
            "compared.different": [],
        },
    }
    async with editor(folder, cache) as opened:
        memory = Memory(opened)
        report["first_read"] = await first_read(opened)
        memory.look()
        report["edits"] = await edits(opened, memory, recorded["edits"][: options.edits])
        report["most_imported"] = await most_imported(opened, memory)
        report["dependants"] = await dependants(opened, memory, recorded["dependants"])
        report["fixes"] = await fixes(opened, memory, _with_fixes(report, recorded))
        report["compared"] = await compared(opened, drawn)
        memory.look()
        report["memory_mib"] = round(memory.largest / 2**20, 1)
        report["processes"] = len(opened.processes())
    return report


def _with_fixes(report: dict[str, Any], recorded: dict[str, Any]) -> list[str]:
    """Files of the edits in which something was found."""
    found = {row["file"]: row["findings"] for row in report["edits"]["rows"]}
    names = dict.fromkeys(edit["file"] for edit in recorded["edits"])
    return [name for name in names if found.get(name)]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", default="transformers")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--files", type=int, default=100, help="compared with check")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory() as cache:
        report = asyncio.run(measure(options, Path(cache)))
    report["machine"] = {
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_average_before": [round(load, 2) for load in before],
        "load_average_after": [round(load, 2) for load in os.getloadavg()],
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    report["edits"].pop("rows")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
