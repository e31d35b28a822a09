"""The page of complaints, from the result file (`make figures` draws its picture):
`python -m benchmarks.complaints.report`.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.figures.data import Figure

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "benchmarks" / "results" / "complaints.json"
NEWEST = RESULTS.with_name("complaints_2_15.json")
SLOW_HOST = RESULTS.with_name("complaints_slow_host.json")
PAGE = _ROOT / "docs" / "explanation" / "complaints.md"
_MODES = ("default", "reduce-overhead", "pygraph")
# Losses whose cause was measured: a sentence each, by complaint.
CAUSES = Path(__file__).with_name("causes.json")
Row = dict[str, Any]


def title(name: str) -> str:
    """A complaint in one line. Its module needs torch, which a picture does not."""
    from benchmarks.complaints import base

    return base.title(name)


def links(row: Row) -> str:
    """The threads, in short."""
    found = []
    for url in row["threads"]:
        parts = re.match(r"https://github.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)", url)
        found.append(f"[{parts[1]}#{parts[2]}]({url})" if parts else url)
    return " ".join(found)


def time_of(mode: Row) -> str:
    """Milliseconds a step, or what went wrong."""
    if mode["error"]:
        return "fails"
    if mode["wrong"]:
        return "wrong"
    period = (mode.get("period_ms") or {}).get("median")
    return "" if period is None else f"{period:.3g}"


def number(value: float | None, form: str = ".3g") -> str:
    """A figure, or nothing."""
    return "" if value is None else format(value, form)


def of_modes(row: Row, key: str, form: str = ".3g") -> str:
    """One figure of all modes: default / reduce-overhead / pygraph."""
    found = (row["modes"].get(mode) or {} for mode in _MODES)
    return " / ".join(number(mode.get(key), form) or "-" for mode in found)


def speed_table(rows: list[Row]) -> list[str]:
    """What a step takes."""
    lines = ["| complaint | threads | seen in this run | default | reduce-overhead | pygraph | x |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        times = [time_of(row["modes"][m]) if m in row["modes"] else "ended" for m in _MODES]
        seen = row["shown"].replace("|", "/")[:110]
        speed = number(row["speed_beside_best_stock"], ".2f")
        cells = [title(row["name"]), links(row), seen, *times, f"**{speed}**"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def other_table(rows: list[Row]) -> list[str]:
    """What else it costs: default / reduce-overhead / pygraph."""
    lines = ["| | slowest step, ms | warm-up, s | reserved, MiB | graphs recorded by torch |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for row in rows:
        stock = row["modes"].get("reduce-overhead") or {}
        cells = [
            f"`{row['name']}`",
            of_modes(row, "worst_ms"),
            of_modes(row, "warm_up_s"),
            of_modes(row, "reserved_mib", ".0f"),
            number(stock.get("records"), "d"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def losses(rows: list[Row], causes: dict[str, str]) -> list[str]:
    """Rows where a stock mode that is right is faster, whatever the reason."""
    lost = [r for r in rows if (r["speed_beside_best_stock"] or 1) < 1]
    return [
        f"- `{row['name']}`: {row['speed_beside_best_stock']:.2f} of {row['best_stock']}. "
        f"{causes.get(row['name'], 'The cause has not been measured.')}"
        for row in sorted(lost, key=lambda row: row["speed_beside_best_stock"])
    ]


def not_measured(done: list[str]) -> list[str]:
    """Programs that the result file does not have."""
    from benchmarks.complaints import base

    left = [name for name in base.names() if name not in done]
    return ["", f"Not measured: {', '.join(f'`{name}`' for name in left)}."] if left else []


def newest_table(content: Row, causes: dict[str, str]) -> list[str]:
    """What the newest torch makes of it; one that a stock mode fails on or gets wrong says so."""
    counted = [row for row in content["rows"] if row.get("counted")]
    totals = content["totals"]
    below = ", ".join(f"`{name}`" for name in totals["below_0.98"]) or "none"
    lines = [
        f"## With torch {content['environment']['torch'].partition('+')[0]}",
        "",
        f"{totals['counted']} of {totals['programs']} programs show their complaint; pygraph is "
        f"right in {totals['right']}. Below 0.98: {below} ([{NEWEST.name}]"
        f"(../../benchmarks/results/{NEWEST.name})).",
        "",
        "| complaint | default | reduce-overhead | pygraph | x |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in counted:
        times = [time_of(row["modes"][m]) if m in row["modes"] else "ended" for m in _MODES]
        speed = number(row["speed_beside_best_stock"], ".2f")
        cells = [f"`{row['name']}`", *times, f"**{speed}**"]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *losses(counted, causes)]


def slow_host_list(content: Row, usual: Row) -> list[str]:
    """What is slower than the best stock mode on a machine whose CPU others use, too."""
    totals = content["totals"]
    here, there = (
        {row["name"]: row["modes"]["default"]["period_ms"] for row in each["rows"]}
        for each in (usual, content)
    )
    both = [name for name in there if there[name] and here.get(name)]
    slower = max(there[name]["median"] / here[name]["median"] for name in both)
    lines = [
        "## On a busy host",
        "",
        "The same programs on another machine of the same kind, whose CPU took up to "
        f"{slower:.1f} times as long for a step in default mode ([{SLOW_HOST.name}]"
        f"(../../benchmarks/results/{SLOW_HOST.name})): {totals['counted']} counted, right in "
        f"{totals['right']}. Below 0.98, "
        "with the quartiles of the milliseconds a step:",
        "",
    ]
    for row in content["rows"]:
        if row["name"] in totals["below_0.98"]:
            best = row["modes"][row["best_stock"]]["period_ms"]
            ours = row["modes"]["pygraph"]["period_ms"]
            lines.append(
                f"- `{row['name']}`: {row['speed_beside_best_stock']:.2f} ({row['best_stock']} "
                f"{best['low']:.3g} to {best['high']:.3g}, pygraph {ours['low']:.3g} to "
                f"{ours['high']:.3g})"
            )
    return [*lines, ""]


def intro(content: Row) -> list[str]:
    """What the page is about, and how many are right."""
    where, totals = content["environment"], content["totals"]
    below = ", ".join(f"`{name}`" for name in totals["below_0.98"]) or "none"
    return [
        "# Public complaints",
        "",
        "Each row is a small program after a public thread, in its sizes where it names some. The "
        "complaint has to show itself under a stock mode in the same run, or it is not counted. "
        f"{where.get('gpu', 'No GPU')}, torch {where['torch']}, milliseconds a step, all modes in "
        "turn in one process ([complaints.json](../../benchmarks/results/complaints.json), "
        "`make bench-complaints`). The last column is pygraph's speed beside the best stock mode "
        "that is right; below 1 is a loss.",
        "",
        f"{totals['counted']} of {totals['programs']} programs, of {totals['groups']} groups, show "
        f"their complaint; pygraph is right in {totals['right']}. Below 0.98: {below}.",
        "",
    ]


def page(content: Row, newest: Row, slow_host: Row, causes: dict[str, str]) -> str:
    """The whole page."""
    done = [row for row in content["rows"] if "modes" in row]
    counted = [row for row in done if row["counted"]]
    others = [row for row in done if not row["counted"]]
    where = content["environment"]
    lines = [
        *intro(content),
        *([figure(content).markdown("../img"), ""] if figures(content) else []),
        *speed_table(counted),
        "",
        "## Lost",
        "",
        *(losses(counted, causes) or ["None."]),
        "",
        "## What else it costs",
        "",
        "default / reduce-overhead / pygraph. Warm-up was measured with "
        f"{where['started_together']} programs side by side, what is timed alone.",
        "",
        *other_table(counted),
        "",
        "## Not shown in this run",
        "",
        *([f"- {title(row['name'])} ({links(row)})" for row in others] or ["None."]),
        *not_measured([row["name"] for row in done]),
        "",
        *slow_host_list(slow_host, content),
        *newest_table(newest, causes),
    ]
    return "\n".join(lines) + "\n"


def figures(content: Row) -> dict[str, dict[str, float | None]]:
    """Speed beside default mode; None where a mode fails or is wrong."""
    found: dict[str, dict[str, float | None]] = {}
    for row in content["rows"]:
        if not row.get("counted"):
            continue
        default = (row["modes"]["default"].get("period_ms") or {}).get("median")
        bars = found[row["name"].replace("_", " ")] = {}
        for mode in _MODES[1:]:
            known = row["modes"].get(mode) or {"error": "ended"}
            period = (known.get("period_ms") or {}).get("median")
            bad = known["error"] or known["wrong"] or not period or not default
            bars[mode] = None if bad else default / period
    return found


def figure(content: Row) -> Figure:
    """The picture of the page."""
    shown = figures(content)
    order = sorted(shown, key=lambda name: shown[name]["pygraph"] or 0.0)
    return Figure(
        name="complaints-speed",
        title="Public complaints: speed relative to default mode (higher is better)",
        alt=f"Bar chart: speed of {len(shown)} programs after public complaints, relative to "
        "torch.compile's default mode.",
        series=_MODES[1:],
        bars={name: shown[name] for name in order},
        log=True,
        unit="x",
    )


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    given = parser.parse_args()
    content = json.loads(given.results.read_text())
    newest, causes = json.loads(NEWEST.read_text()), json.loads(CAUSES.read_text())
    slow_host = json.loads(SLOW_HOST.read_text())
    given.page.write_text(page(content, newest, slow_host, causes))


if __name__ == "__main__":
    main()
