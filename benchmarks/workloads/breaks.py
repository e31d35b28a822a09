"""``python -m benchmarks.workloads.breaks``: graph breaks of the workloads before and after
``pygraph-lint --fix``, counted by Dynamo on the CPU at tiny size.

Makes the fixed sources (:mod:`fixing`), safe and unsafe, runs every workload with each of them, and
writes one result file. What is already in ``--folder`` is not made again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.workloads import fixing, overlay, report, run

COPIES = {"before": None, "safe": False, "unsafe": True}
_VARIANT = "aot_eager"


def measure(name: str, folder: Path) -> dict[str, Any]:
    """The result file of all workloads with one copy of the sources."""
    sources, unsafe = folder / name, COPIES[name]
    arguments = ["--device", "cpu", "--tiny", "--variants", _VARIANT, "--only-memory", "--resume"]
    arguments += ["--at-once", "1", "--out", str(folder / f"{name}.json")]
    if unsafe is not None:
        if not (sources / overlay.MANIFEST).exists():
            sources.mkdir(parents=True, exist_ok=True)
            fixing.make(sources, None, unsafe)
        arguments += ["--sources", str(sources)]
    run.main(arguments)
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def merged(copies: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Graphs and breaks of each workload by copy; ``error`` where it did not run."""
    rows: dict[str, dict[str, Any]] = {}
    for copy, content in copies.items():
        for workload, part in content["workloads"].items():
            probe = part["probes"][_VARIANT]
            counted = probe.get("result", {}).get("compiler", {})
            row = {key: counted.get(key) for key in ("graphs", "graph_breaks")}
            if "error" in probe:
                row["error"] = probe["error"]
            else:
                row["reasons"] = sorted(counted["graph_break_reasons"])
            rows.setdefault(workload, {})[copy] = row
    sources = {
        name: {**content["sources"], "files": len(content["sources"]["files"])}
        for name, content in copies.items()
        if "sources" in content
    }
    environment = next(iter(copies.values()))["environments"][0]
    return {"environment": environment, "sources": sources, "workloads": rows}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where to work")
    parser.add_argument("--out", type=Path, default=report.BREAKS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    content = merged({name: measure(name, given.folder) for name in COPIES})
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    for workload, row in content["workloads"].items():
        print(workload, {name: row[name]["graph_breaks"] for name in row})


if __name__ == "__main__":
    main()
