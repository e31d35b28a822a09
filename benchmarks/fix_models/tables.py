"""The tables of docs/explanation/fixes-measured.md, from the results."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.fix_models.summary import MODES

Result = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
RESULTS = {
    "": ROOT / "benchmarks" / "results" / "fix_models.json",
    "old-": ROOT / "benchmarks" / "results" / "fix_models_4_52_4.json",
}
DOCUMENT = ROOT / "docs" / "explanation" / "fixes-measured.md"
_SHOWN = 16


def lines(result: Result) -> dict[str, list[str]]:
    """The rows of each table: sums, causes of what unsafe fixes leave, lines with most breaks."""
    return {
        "sums": [
            _sums(mode, variant, row)
            for mode in MODES
            for variant, row in result["sums"][mode].items()
        ],
        "causes": [
            f"| {found['events']} | {found['lines']} | {cause} |"
            for cause, found in result["left_by_cause"]["unsafe"].items()
        ],
        "places": [_place(site) for site in result["left"]["unsafe"][:_SHOWN]],
    }


def _sums(mode: str, variant: str, row: Result) -> str:
    cells = [mode, variant, str(row["models"])]
    for unit in ("events", "sites"):
        cells.append(f"{row[unit]['before']} → {row[unit]['after']}")
        cells.append(f"{100 * row[unit]['removed']:.0f} %")
    cells.append(str(row["models_without_breaks"]))
    unlike = ("differ", "differ_with_random_stream", "compiled_differs", "stopped")
    cells += [str(len(row[name])) for name in unlike]
    return f"| {' | '.join(cells)} |"


def _place(site: Result) -> str:
    where = f"{site['file'].removeprefix('transformers/')}:{site['line']}"
    return f"| {site['events']} | `{where}` | {site['kinds'][0]} | `{site['text'].strip()[:70]}` |"


def filled(text: str, prefix: str, result: Result) -> str:
    """A document with the rows of each table between its head and the next empty line.

    A table is found by the comment ``<!-- PREFIX+NAME -->`` above its head.
    """
    for name, rows in lines(result).items():
        mark = f"<!-- {prefix}{name} -->\n"
        if mark not in text:
            continue
        start = text.index(mark) + len(mark)
        head = text[start:].split("\n", 2)[:2]
        end = text.find("\n\n", start)
        text = text[:start] + "\n".join([*head, *rows]) + text[end:]
    return text


def main() -> int:
    """Write the tables into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    text = DOCUMENT.read_text("utf-8")
    for prefix, path in RESULTS.items():
        if path.is_file():
            text = filled(text, prefix, json.loads(path.read_text("utf-8")))
    DOCUMENT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
