"""``python -m benchmarks.workloads.report``: tables from the result file."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.figures import data
from benchmarks.workloads import cost, results, summary, tabular
from benchmarks.workloads.summary import Row

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / "docs" / "explanation"
BREAKS = _ROOT / "benchmarks" / "results" / "workloads_breaks.json"
NOTES = Path(__file__).with_name("notes.json")
FIXED = _ROOT / "benchmarks" / "results" / "workloads_fixed.json"
_BEST = 5
# Ratios of two runs so near are wanted.
_NEAR = 0.05
_HINDERED = {"CPU scalars", "CPU tensors", "large copies", "mutated buffers", "mutated inputs"}
_VARIANTS = ("eager", "default", "reduce-overhead", "pygraph")


def table(content: dict[str, Any]) -> str:
    """A plain table for a terminal: milliseconds per call and what failed."""
    rows = summary.rows(content)
    present = _present(rows)
    present += sorted({name for row in rows for name in row.timed} - set(present))
    lines = [f"{'workload':44s}" + "".join(f"{name:>17s}" for name in present)]
    for row in rows:
        cells = "".join(f"{_time(row, name):>17s}" for name in present)
        lines.append(f"{row.name:44s}{cells}")
        lines += [
            f"    {name}: {tabular.sentence(reason)}" for name, reason in row.failures.items()
        ]
    return "\n".join(lines)


def pages(
    content: dict[str, Any],
    source: str,
    broken: dict[str, Any] | None = None,
    fixed: dict[str, Any] | None = None,
) -> dict[str, str]:
    """The pages below docs/explanation, by name; ``broken`` is what :mod:`breaks` measured,
    ``fixed`` a result file that was made with fixed sources.
    """
    rows = [row for row in summary.rows(content) if row.timed or row.failures]
    speed, memory = (figure.markdown("../img") for figure in data.workload_figures(rows))
    main = [
        "# Benchmarks",
        _answer(rows, content),
        speed,
        "## Speed\n\n" + _speed(rows),
        "## Means\n\n" + _means(rows),
        "## Memory and warm-up\n\n" + memory,
        cost.section(rows, _present(rows), _notes("memory and warm-up")),
        "## Failures of a mode\n\n" + _failures(rows),
        "## What each workload stands for\n\n" + _about(rows),
        "## How it was measured\n\n" + _method(content, source),
    ]
    details = [
        "# Benchmarks in detail",
        "More about the workloads of [Benchmarks](benchmarks.md), for people who work on the "
        f"runtime. Every figure is in `{source}`, unless another file is named.",
        *_standing(rows),
        *_parts(rows),
        *(_breaks(broken) if broken else ()),
        *(_fixed(content, fixed) if fixed else ()),
        *_again(rows),
        *_disturbed(content),
        "## Where the time goes\n\n" + _shares(rows),
        "## What the compiler did\n\n" + _compiler(rows),
        "## Answers\n\n" + _answers(rows),
        "## Not run\n\n" + _missing(content),
    ]
    parts = {"benchmarks.md": main, "benchmarks-details.md": details}
    return {name: "\n\n".join(part.rstrip() for part in own) + "\n" for name, own in parts.items()}


def _answer(rows: list[Row], content: dict[str, Any]) -> str:
    """The result in a few sentences."""
    over_default = summary.geometric_mean(_ratios(rows, "default"))
    devices = sorted({environment["device"] for environment in content["environments"]})
    text = [f"{len(rows)} workloads, inference and training, on one {' or '.join(devices)}."]
    if over_default:
        text.append(
            f"pygraph has {over_default:.2f}x the speed of `torch.compile`'s default mode "
            "(geometric mean)."
        )
    stock = _ratios(rows, "reduce-overhead")
    over_stock = summary.geometric_mean(stock)
    if over_stock:
        text.append(
            f"It has {over_stock:.2f}x that of `reduce-overhead` on the {len(stock)} that "
            "`reduce-overhead` can run."
        )
    text.append(summary.measured_with(rows))
    text.append(
        "Gains are large where the GPU waits for the host, as in decoding at batch 1, and small "
        "where the GPU is always busy. [Benchmarks in detail](benchmarks-details.md) says where "
        "pygraph is behind, and why."
    )
    return " ".join(text)


def _ratios(rows: list[Row], mode: str) -> list[float]:
    return [ratio for row in rows if (ratio := row.ratio(mode, "pygraph")) is not None]


def _method(content: dict[str, Any], source: str) -> str:
    machines = sorted({_machine(environment) for environment in content["environments"]})
    text = (
        "Times are milliseconds per call in steady state: the median over interleaved rounds of "
        "all variants in one process, with new input tensors on every call (a pool made "
        "beforehand; large inputs share at least three). Where rounds differ, the fastest variants "
        "get up to 99 of them. A call is one inference, or one training step: forward, loss "
        "outside the compiled model, backward. ± is half the interquartile range. "
        "Memory and warm-up come from a process of their own for each variant."
    )
    again = (
        f"`make bench-report` makes this page from `{source}`; every figure is in that file. "
        "To add to the file: `make bench-workloads ARGS='--resume --budget-seconds 600'` (see "
        "`--help`; any one CUDA GPU with 120 GB, or less with `--only`)."
    )
    return "\n\n".join([text, "\n".join(f"- {machine}" for machine in machines), again])


def _machine(environment: dict[str, Any]) -> str:
    versions = ", ".join(f"{n} {v}" for n, v in environment["packages"].items() if v)
    driver = environment.get("driver")
    return (
        f"{environment['device']}, {'driver ' + driver + ', ' if driver else ''}"
        f"{environment['cpu_count']} CPU cores, Python {environment['python']}, {versions}"
    )


def _speed(rows: list[Row]) -> str:
    present = _present(rows)
    header = ["workload", "batch", *(f"{name}, ms" for name in present)]
    header += [f"{name} over default" for name in present if name not in ("eager", "default")]
    if "pygraph" in present:
        header.append("pygraph over reduce-overhead")
    body = []
    for row in rows:
        cells = [f"`{row.name}`", str(row.about.get("batch", ""))]
        cells += [_time(row, name) for name in present]
        cells += [
            tabular.times(row.ratio("default", name))
            for name in present
            if name not in ("eager", "default")
        ]
        if "pygraph" in present:
            cells.append(tabular.times(row.ratio("reduce-overhead", "pygraph")))
        body.append(cells)
    return tabular.markdown(header, body)


def _means(rows: list[Row]) -> str:
    header = ["geometric mean of", "failed runs left out", "failed runs counted as default"]
    pairs = [("default", "reduce-overhead"), ("eager", "reduce-overhead"), ("eager", "default")]
    if "pygraph" in _present(rows):
        pairs = [("default", "pygraph"), ("reduce-overhead", "pygraph"), *pairs]
    body = []
    for slow, fast in pairs:
        plain = [value for row in rows if (value := row.ratio(slow, fast)) is not None]
        counted = [value for row in rows if (value := row.counted_ratio(slow, fast)) is not None]
        body.append([f"{fast} over {slow}", tabular.mean(plain), tabular.mean(counted)])
    special = [row for row in rows if _HINDERED & set(row.about.get("traits", []))]
    values = [v for row in special if (v := row.ratio("reduce-overhead", "pygraph")) is not None]
    if values:
        counted = [row.counted_ratio("reduce-overhead", "pygraph") for row in special]
        plain = [value for value in counted if value is not None]
        name = "pygraph over reduce-overhead, of those with copies, mutation or CPU tensors"
        body.append([name, tabular.mean(values), tabular.mean(plain)])
    return "\n\n".join([tabular.markdown(header, body), *_room(rows)])


def _room(rows: list[Row]) -> list[str]:
    """How much there is to gain over reduce-overhead."""
    known = [(row, row.ratio("reduce-overhead", "pygraph"), row.most()) for row in rows]
    timed = [(row, ratio, most) for row, ratio, most in known if ratio and most]
    by_gpu, by_host = [
        [(ratio, most) for row, ratio, most in timed if row.waits_for_host() == host]
        for host in (False, True)
    ]
    if not by_gpu:
        return []
    text = (
        "What there is to gain over reduce-overhead: a graph cannot be faster than its kernels. "
        "Where reduce-overhead waits for the GPU, its time over the GPU's work without its copies "
        "(the less of default mode's and pygraph's) is "
        f"{tabular.mean([most for _, most in by_gpu])}, and pygraph reaches "
        f"{tabular.mean([ratio for ratio, _ in by_gpu])}."
    )
    if by_host:
        text += (
            " Where it waits for the host, most of which runs the program around the graphs, "
            f"pygraph reaches {tabular.mean([ratio for ratio, _ in by_host])}."
        )
    return [text]


def _parts(rows: list[Row]) -> list[str]:
    """What pygraph loses without each of its parts, where that was measured."""
    switched = sorted({n for row in rows for n in row.parts if n.startswith("pygraph-")})
    names = ("default", "reduce-overhead", "pygraph", *switched, "max-autotune")
    body = [
        [f"`{row.name}`", *(tabular.shown(row.parts[n]) if n in row.parts else "-" for n in names)]
        for row in rows
        if row.parts
    ]
    if not body:
        return []
    note = (
        "One part switched off at a time, in runs of their own: `pygraph-always` uses a graph "
        "wherever one is possible, without measuring; `pygraph-unplaced` leaves CPU values where "
        "they are. CUDA graphs without passing pointers are what reduce-overhead is.\n\n"
    )
    table = tabular.markdown(["workload", *(f"{name}, ms" for name in names)], body)
    remarks = [f"- `{row.name}`: {row.remark}" for row in rows if row.parts and row.remark]
    return ["## What each part contributes\n\n" + "\n".join([note + table, "", *remarks])]


def _breaks(broken: dict[str, Any]) -> list[str]:
    """Graph breaks before and after the linter's fixes."""
    copies = ("before", "safe", "unsafe")
    rows = {
        name: row
        for name, row in broken["workloads"].items()
        if any(row[copy]["graph_breaks"] or "error" in row[copy] for copy in copies)
    }
    body = []
    for name, row in rows.items():
        cells = [str(row[c].get("error") or row[c]["graph_breaks"]) for c in copies]
        left = ", ".join(row["unsafe"].get("reasons", []))
        body.append([f"`{name}`", *cells, left])
    versions = {**broken["environment"]["packages"], **broken["sources"]["safe"]["versions"]}
    named = ", ".join(
        f"{n} {versions[n]}" for n in ("torch", *broken["sources"]["safe"]["versions"])
    )
    note = (
        f"Counted by Dynamo on a CPU at tiny size ({named}), from "
        "`benchmarks/results/workloads_breaks.json` (`make bench-breaks`). Of "
        f"{len(broken['workloads'])} rows, the others have none.\n\n"
    )
    header = ["workload", "as it is", "safe fixes", "unsafe fixes", "what is left"]
    return ["## Graph breaks before and after fixing\n\n" + note + tabular.markdown(header, body)]


def _fixed(content: dict[str, Any], fixed: dict[str, Any]) -> list[str]:
    """What the linter's fixes change, beside the last run of the sources as they are on such a
    machine.
    """
    rows = [row for row in summary.rows(fixed) if row.timed]
    wanted = [v for v in _VARIANTS if all(v in row.timed for row in rows)]
    body = []
    for row in rows:
        after = fixed["workloads"][row.name]["timings"][-1]
        environment = fixed["environments"][after["environment"]]
        before = summary.last_run(content, row.name, wanted, environment)
        pairs = [(before[v], row.timed[v]) for v in wanted if v in before]
        cells = [
            f"{tabular.shown(old)} → {tabular.shown(new)} ({old.ms / new.ms:.2f}x)"
            for old, new in pairs
        ]
        body.append([f"`{row.name}`", *cells])
    sources = fixed["sources"]
    packages = ", ".join(f"{n} {v}" for n, v in sources["versions"].items() if v)
    note = (
        "Milliseconds a call with the sources as they are, and after `pygraph-lint --fix` "
        f"({sources['fixes']} fixes; {packages}, and the workloads' own models), each in a run of "
        "its own on a machine of the same kind (with as many CPU cores), from "
        "`benchmarks/results/workloads_fixed.json`. Rows whose graphs break and whose sources "
        "change.\n\n"
    )
    header = ["workload", *wanted]
    return ["## What fixed sources add\n\n" + note + tabular.markdown(header, body)]


def _again(rows: list[Row]) -> list[str]:
    """The first and the last run of each workload that ran more than once."""
    names = ("eager", "default", "reduce-overhead")
    body = []
    moved: dict[str, list[float]] = {"host": [], "GPU": []}
    for row in rows:
        usual = [run for run in row.runs if set(run) <= set(_VARIANTS)]
        runs = [run for run in usual if all(name in run for name in names)]
        if len(runs) < 2:
            continue
        first, last = runs[0], runs[-1]
        ratios = [run["default"].ms / run["reduce-overhead"].ms for run in (first, last)]
        cells = [f"{ratio:.3f}x" for ratio in ratios]
        cells.append(f"{100 * (ratios[1] / ratios[0] - 1):+.1f} %")
        cells += [f"{last[name].ms / first[name].ms:.2f}" for name in names]
        waits = ["host" if last[n].waits_for_host() else "GPU" for n in names[1:]]
        moved[waits[0]].append(last["eager"].ms / first["eager"].ms)
        cells += waits
        body.append([f"`{row.name}`", *cells])
    if not body:
        return []
    header = ["workload", "reduce-overhead over default, first run", "last run", "change"]
    header += [f"{name}, last / first" for name in names]
    header += [f"{name} waits for" for name in names[1:]]
    note = (
        "Where a mode waits for the host, its time is that of the machine's CPU, and eager's moves "
        "with it: a ratio to a mode that waits for the GPU then moves too."
    )
    for place, ratios in moved.items():
        if ratios:
            note += (
                f" Where default mode waits for the {place}, eager took "
                f"{statistics.median(ratios):.2f} times as long in the last run as in the first "
                f"(median of {len(ratios)})."
            )
    return ["## Run again\n\n" + note + "\n\n" + tabular.markdown(header, body), *_repeats(rows)]


def _repeats(rows: list[Row]) -> list[str]:
    """How often pygraph was timed beside reduce-overhead, and with what outcome."""
    found = [row for row in rows if len(row.repeats) > 1]
    if not found:
        return []
    body, changes = [], []
    for row in found:
        shown = ", ".join(f"{ratio:.3f}x" for ratio in row.repeats)
        change = row.repeats[-1] / row.repeats[-2] - 1
        changes.append(change)
        body.append([f"`{row.name}`", shown, f"{100 * change:+.1f} %"])
    near = sum(abs(change) <= _NEAR for change in changes)
    note = (
        "pygraph over reduce-overhead in each run, in order, on different machines and days. What "
        f"pygraph does changed between them too. The last two are within {100 * _NEAR:.0f} % of "
        f"each other on {near} of {len(found)} workloads.\n\n"
    )
    return [note + tabular.markdown(["workload", "each run", "last over the one before"], body)]


def _standing(rows: list[Row]) -> list[str]:
    """The section on pygraph's losses and best gains; nothing before it was measured."""
    known = [(value, row) for row in rows if (value := row.over_better_stock()) is not None]
    if not known:
        return []
    known.sort(key=lambda pair: pair[0])
    known_notes = _notes("speed")
    lost = [row for value, row in known if value < 1]
    best = [row for value, row in known[::-1][:_BEST] if value >= 1]
    lowest = known[0]
    note = (
        f"{len(known) - len(lost)} of {len(known)} workloads are at least as fast as under the "
        f"better stock mode; the lowest ratio is {lowest[0]:.3f}x (`{lowest[1].name}`). *Host* is "
        "the time until the last call of a round has returned, *busy* the GPU's own work, *copied* "
        "what reduce-overhead copies a call."
    )
    if open_rows := [f"`{row.name}`" for _, row in known if _undecided(row)]:
        note += (
            f" In {', '.join(open_rows)} pygraph was still comparing some regions while it was "
            "timed: their calls ran with and without graph in turn."
        )
    remarks = [f"- `{row.name}`: {row.note}" for _, row in known if row.note]
    parts = ["\n".join(["## Against the better stock mode\n\n" + note + "\n", *remarks]) + "\n\n"]
    for title, part in (("Below it", lost), ("The best", best)):
        if part:
            parts.append(f"### {title}\n\n{_standing_table(part)}")
            parts += _host_time(part)
    told = [f"- `{row.name}`: {known_notes[row.name]}" for row in lost if row.name in known_notes]
    if told:
        parts.insert(2, "Why, and what would close it:\n\n" + "\n".join(told))
    return parts


def _notes(kind: str) -> dict[str, str]:
    """What is known of single workloads, by name."""
    found: dict[str, str] = json.loads(NOTES.read_text())[kind]
    return found


def _undecided(row: Row) -> bool:
    return any(region["state"] == "deciding" for region in row.regions)


def _standing_table(rows: list[Row]) -> str:
    header = ["workload", "better stock mode", "its ms", "host", "busy", "kernels", "pygraph, ms"]
    header += ["host", "busy", "kernels", "ratio", "copied", "what pygraph does"]
    body = []
    for row in rows:
        stock = row.better_stock()
        assert stock is not None
        copied = row.profiles.get("reduce-overhead", {}).get("input_copy_bytes")
        cells = [f"`{row.name}`", stock, *_anatomy(row, stock), *_anatomy(row, "pygraph")]
        body.append(
            [
                *cells,
                tabular.times(row.over_better_stock()),
                tabular.mebibytes(copied),
                _regions(row),
            ]
        )
    return tabular.markdown(header, body)


def _host_time(rows: list[Row]) -> list[str]:
    """The host's time by layer, of the rows that have it."""
    layers = ["compiled graphs", "regions", "input copies", "memory and launch", "outputs"]
    body = []
    for row in rows:
        for name in (row.better_stock(), "pygraph"):
            host = row.profiles.get(name or "", {}).get("host")
            if host:
                cells = [f"{host[key]['us']:.0f}" if key in host else "-" for key in layers]
                body.append([f"`{row.name}`", str(name), *cells])
    if not body:
        return []
    note = (
        "The host's time by layer, microseconds per call. Compiled graphs contain their regions, "
        "and those the rest; *memory* is pygraph's, which takes new memory for each output.\n\n"
    )
    return [note + tabular.markdown(["workload", "mode", *layers], body)]


def _anatomy(row: Row, name: str) -> list[str]:
    """Time, host time, GPU time and kernels of a variant."""
    timed, profile = row.timed[name], row.profiles.get(name)
    busy, kernels = "-", "-"
    if profile is not None:
        busy, kernels = f"{profile['busy_ms']:.3f}", f"{profile['kernels']:.0f}"
    return [f"{timed.ms:.3f}", f"{timed.host_ms:.3f}", busy, kernels]


def _regions(row: Row) -> str:
    """How many regions are in each state, and the first reasons for having no graph."""
    states = Counter(region["state"] for region in row.regions)
    text = ", ".join(f"{count} {state}" for state, count in states.most_common())
    reasons = list(dict.fromkeys(r["reason"] for r in row.regions if r.get("reason")))
    return "; ".join([text, *(reason.replace("|", "/")[:200] for reason in reasons[:2])])


def _disturbed(content: dict[str, Any]) -> list[str]:
    """Runs that count nowhere else, with what disturbed them."""
    parts = []
    for reason, runs in summary.disturbed(content).items():
        present = [name for name in _VARIANTS if any(name in times for _, times in runs)]
        body = [
            [f"`{name}`", *(tabular.shown(times[v]) if v in times else "-" for v in present)]
            for name, times in runs
        ]
        table = tabular.markdown(["workload", *(f"{name}, ms" for name in present)], body)
        parts.append(f"In no table or mean above: {reason}.\n\n{table}")
    return ["## Runs set aside", *parts] if parts else []


def _shares(rows: list[Row]) -> str:
    note = (
        "For `reduce-overhead`, or `default` where that failed: what the GPU is busy with, how "
        "long it waits, and what the input copies cost. *Copies* (part of busy) is the most that "
        "passing pointers could save, *waiting* the most that covering more of the program with "
        "graphs could save, *slower than default* the most that choosing could save.\n\n"
    )
    header = ["workload", "default: GPU busy", "busy, ms", "waiting, ms", "copies, ms"]
    header += ["slower than default, ms", "input bytes copied a call"]
    body = []
    for row in rows:
        share = summary.share(row)
        if share is None:
            continue
        busy = "-"
        if "default" in row.timed and "default" in row.profiles:
            busy = f"{100 * row.profiles['default']['busy_ms'] / row.timed['default'].ms:.0f} %"
        copied = row.profiles.get("reduce-overhead", {}).get("input_copy_bytes")
        cells = [f"`{row.name}`", busy, f"{share.busy:.3f}", f"{share.idle:.3f}"]
        body.append([*cells, f"{share.copies:.3f}", f"{share.loss:.3f}", tabular.mebibytes(copied)])
    return note + tabular.markdown(header, body)


def _compiler(rows: list[Row]) -> str:
    header = ["workload", "graphs", "breaks", "CUDA graphs recorded", "skips", "reasons"]
    body = []
    for row in rows:
        seen = row.compiler("reduce-overhead") or row.compiler("default")
        if not seen:
            continue
        reasons = list(seen["cudagraph_skip_reasons"]) + list(seen["graph_break_reasons"])
        text = "; ".join(reason.replace("|", "/")[:90] for reason in reasons[:3])
        counts = ("graphs", "graph_breaks", "cudagraphs_recorded", "cudagraph_skips")
        body.append([f"`{row.name}`", *(str(seen[count]) for count in counts), text])
    return "Under `reduce-overhead` while warming up.\n\n" + tabular.markdown(header, body)


def _answers(rows: list[Row]) -> str:
    header = ["workload", *(f"{name}" for name in _present(rows)), "repeat"]
    body = []
    for row in rows:
        if not row.errors:
            continue
        cells = [_error(row.errors.get(name)) for name in _present(rows)]
        change = "-" if row.repeat_change is None else f"{100 * row.repeat_change:.1f} %"
        body.append([f"`{row.name}`", *cells, change])
    note = (
        "Largest relative error of any output (training: / of all gradients) against the same "
        "weights run eagerly in the next higher precision. (=) means bit for bit what default mode "
        "gave, where that was looked at. *repeat* is the largest change of a "
        "ratio to default between two runs.\n\n"
    )
    return note + tabular.markdown(header, body)


def _failures(rows: list[Row]) -> str:
    lines = [
        f"- `{row.name}`, {name}: {tabular.sentence(reason)}"
        for row in rows
        for name, reason in row.failures.items()
    ]
    return "\n".join(lines) or "None."


def _missing(content: dict[str, Any]) -> str:
    missing = summary.not_run(content, list(_VARIANTS))
    return "\n".join(f"- {name}: {reason}" for name, reason in missing.items()) or "Nothing."


def _about(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        traits = ", ".join(row.about.get("traits", []))
        lines.append(
            f"- `{row.name}`: {row.about.get('stands_for', '')}{f' *{traits}*' if traits else ''}"
        )
    return "\n".join(lines)


def _present(rows: list[Row]) -> list[str]:
    """Which of the usual variants were tried."""
    tried = {name for row in rows for name in (*row.timed, *row.failures)}
    return [name for name in _VARIANTS if name in tried]


def _time(row: Row, name: str) -> str:
    if name in row.failures:
        return "wrong" if row.failures[name].startswith("wrong") else "failed"
    if name not in row.timed:
        return "-"
    return tabular.shown(row.timed[name])


def _error(check: dict[str, Any] | None) -> str:
    if check is None:
        return "-"
    values = [value for value in check["errors"].values() if value is not None]
    text = " / ".join(f"{v:.1e}" if isinstance(v, float) else str(v) for v in values)
    apart = [value for value in (check.get("from_default") or {}).values() if value is not None]
    return f"{text} (=)" if apart and not any(apart) else text


def main(arguments: list[str] | None = None) -> int:
    """Writes the pages; returns 0, or 2 if the result file can't be used."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workloads.report")
    parser.add_argument(
        "--results", type=Path, default=_ROOT / "benchmarks" / "results" / "workloads.json"
    )
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="of the pages")
    parser.add_argument("--table", action="store_true", help="print a table and write nothing")
    options = parser.parse_args(arguments)
    if not options.results.exists():
        print(f"{options.results} does not exist: run benchmarks.workloads.run", file=sys.stderr)
        return 2
    try:
        content = results.load(options.results)
    except results.ResultError as error:
        print(error, file=sys.stderr)
        return 2
    if options.table:
        print(table(content))
        return 0
    broken = json.loads(BREAKS.read_text()) if BREAKS.exists() else None
    fixed = results.load(FIXED) if FIXED.exists() else None
    source = options.results.resolve()
    shown = source.relative_to(_ROOT) if source.is_relative_to(_ROOT) else source.name
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(content, str(shown), broken, fixed).items():
        (options.folder / name).write_text(text)
        print(f"wrote {options.folder / name}")
    print("`make figures` draws the pictures")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
