"""Sentences of pages whose numbers come from result files, as the files have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.figures.data import RESULTS, load
from benchmarks.figures.tables import judged_sets
from benchmarks.workloads import results, summary
from tests.docs.pages import ROOT

Claims = Iterator[tuple[str, str]]


def claims() -> dict[str, list[str]]:
    """For each page, below docs/ but README.md, the sentences that must stand there."""
    found: dict[str, list[str]] = {}
    for make in (
        _workloads,
        _gpu_tests,
        _adverse,
        _several_gpus,
        _complaints,
        _decoding,
        _runtime,
        _framework_memory,
        _memory,
        _selection,
        _kernels,
        _accuracy,
        _suites,
        _unseen,
        _blocks,
        _lengths,
        _fuzzed,
    ):
        for page, sentence in make():
            found.setdefault(page, []).append(sentence)
    return found


def _workloads() -> Claims:
    rows = summary.rows(results.load(RESULTS / "workloads.json"))
    over_default = [row.ratio("default", "pygraph") for row in rows]
    over_stock = [row.ratio("reduce-overhead", "pygraph") for row in rows]
    worst = min(_known(row.over_better_stock() for row in rows))
    mean = summary.geometric_mean(_known(over_default))
    both = summary.geometric_mean(_known(over_stock))
    runs = len(_known(over_stock))
    yield (
        "README.md",
        f"{len(rows)} workloads on one NVIDIA H200, torch 2.11: {mean:.2f}x the speed "
        f"of `torch.compile`'s default mode (geometric mean), {both:.2f}x that of "
        f"`reduce-overhead` on the {runs} workloads that `reduce-overhead` can run. In the worst "
        f"case pygraph reaches {worst:.2f}x of the better of both modes.",
    )
    before = summary.geometric_mean([_of_run_before(row) for row in rows])
    yield (
        "README.md",
        f"the run before, with version 0.1 on faster ones, gave {before:.2f}x",
    )
    old = sum(not row.commit for row in rows)
    if old:
        yield "README.md", f"{old} of the {len(rows)} workloads were measured with version 0.1"
    yield "explanation/runtime-measured.md", f"{len(rows)} more workloads are in"
    yield "explanation/index.md", f"[speed and memory of {len(rows)} workloads]"


def _of_run_before(row: summary.Row) -> float:
    """Pygraph's speed over default mode in the last run of version 0.1."""
    runs = [run for run in row.runs if {"default", "pygraph"} <= set(run)]
    run = runs[-2] if row.commit else runs[-1]
    return run["default"].ms / run["pygraph"].ms


def _fuzzed() -> Claims:
    page, run = "explanation/safe-fixes.md", load("fuzz_fixes.json")
    accepted = run["accepted programs"]
    used = [name for name, aim in run["wanted"].items() if aim == max(run["wanted"].values())]
    assert not run["safe differences"] and len(run["commits"]) == 8 and len(used) == 10
    yield page, f"one run of all {len(accepted)} rewrites"
    yield page, f"{run['programs']:,} programs, no difference under safe fixes"
    assert min(accepted.values()) >= 300
    yield page, "was accepted in 300 programs or more"
    assert all(accepted[name] >= 2000 for name in used)
    yield page, "each of the ten that are used most in 2,000 or more"
    assert len(run["differences"]) == 2
    assert all("host_random" in each["rewrites"] for each in run["differences"])
    on_gpu = load("fuzz_fixes_gpu.json")
    counts, totals = on_gpu["counts"], on_gpu["totals"]
    rewrites = {key.partition(" ")[0] for key in counts}
    yield page, f"{on_gpu['programs']:,} fixed programs of all {len(rewrites)} rewrites"
    unsafe = sum(sum(n.values()) for key, n in counts.items() if key.endswith(" unsafe"))
    yield page, f"{on_gpu['programs'] - unsafe:,} programs with safe fixes or"
    yield page, f"{unsafe:,} with unsafe ones, and no difference"
    assert not on_gpu["differences"] and set(totals) == {"same", "not run", "stopped the GPU"}
    yield page, f"In {totals['not run']} of them not every changed line ran"
    assert counts["element_index unsafe"]["stopped the GPU"] == totals["stopped the GPU"] == 6


def _blocks() -> Claims:
    rows = load("regional.json")["rows"]
    over = [row["speed"]["beside blocks default"] for row in rows]
    beside = [row["speed"].get("beside blocks reduce-overhead") for row in rows]
    beside = [ratio for ratio in beside if ratio is not None]
    yield (
        "how-to/regional.md",
        f"pygraph is {min(over):.1f} to {max(over):.1f} times as fast as default mode. Beside "
        f"`reduce-overhead` it is from {100 - 100 * min(beside):.0f} % slower to "
        f"{100 * max(beside) - 100:.0f} % faster in training",
    )


def _lengths() -> Claims:
    row = next(r for r in load("shapes.json")["rows"] if r["name"] == "any_length")
    default, ours = row["ways"]["default"], row["ways"]["pygraph"]
    page = "explanation/runtime-measured.md"
    yield page, f"{row['steps']:,} steps of fine-tuning with {row['lengths']} lengths"
    yield page, f"All steps take {ours['all_beside_default']:.2f} times"
    compiling = [way["steps_that_compile_s"] for way in (ours, default)]
    yield page, f"{compiling[0]:.1f} s beside {compiling[1]:.1f} s"
    yield page, f"a step takes {ours['late_ratio_median']:.2f} times"
    slow = [way["late_steps_above_1.5"] for way in (ours, default)]
    yield page, f"{slow[0]} of 800 take over 1.5 times that, and so do {slow[1]} of default"


def _suites() -> Claims:
    packages = load("fix_suites.json")["packages"].values()
    made = {
        variant: sum(sum(row[variant]["fixes"].values()) for row in packages)
        for variant in ("safe", "closed", "unsafe")
    }
    for row in packages:
        unsafe, closed = row["unsafe"], sum(row["closed"]["fixes"].values())
        covered = f"{row['covered_percent']:.0f} %" if "covered_percent" in row else "–"
        yield (
            "explanation/fixes-measured.md",
            f"| {row['name']} | {row['before']['passed']:,} | {covered} | "
            f"{closed} | {sum(unsafe['fixes'].values())} | {unsafe['executed_lines']} of "
            f"{unsafe['changed_lines']} | {len(unsafe['no_longer_pass'])} | `{row['commit']}` |",
        )
    share = {variant: _executed(packages, variant) for variant in ("closed", "unsafe")}
    for sentence in (
        f"{made['closed']} safe fixes with `assume-closed` and {made['unsafe']} unsafe ones are "
        f"made; the suites execute {share['unsafe']} % of the lines that the latter change, and "
        f"{share['closed']} % of those that the former change",
        f"Without `assume-closed` {made['safe']} fixes are safe",
        f"without them it is {_executed(list(packages)[:-4], 'unsafe')} %",
    ):
        yield "explanation/fixes-measured.md", sentence


def _executed(packages: Iterable[dict[str, Any]], variant: str) -> int:
    """Per cent of the changed lines that the suites run."""
    counted = ("changed_lines", "executed_lines")
    lines, run = (sum(row[variant].get(key, 0) for row in packages) for key in counted)
    return round(100 * run / lines)


def _unseen() -> Claims:
    page = "explanation/fixes-measured.md"
    removed = []
    for name, shown in (("packages", "packages"), ("models", "newest models")):
        row = load("fix_unseen.json")[name]["runs"]["unsafe"]["held-out"]
        removed.append(f"{100 * row['removed']:.0f} % ({shown})")
        yield (
            page,
            f"| {shown}, unsafe fixes | held-out | {row['subjects']} | {row['before']} → "
            f"{row['after']} | **{100 * row['removed']:.1f} %** | {row['fewer_breaks']} | "
            f"{row['differ']} | {row['stopped']} |",
        )
    yield page, f"unsafe fixes remove {' and '.join(removed)} of the breaks"


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


def _several_gpus() -> Claims:
    rows = load("distributed.json")["rows"]
    equal = [r for r in rows if r["name"].startswith("right") and r["verdict"]["equal"]]
    yield "README.md", f"results are equal in {len(equal)} programs"
    yield "how-to/distributed.md", f"{len(equal)} programs"


def _gpu_tests() -> Claims:
    for name, torch in (("gpu_tests.json", "2.11"), ("gpu_tests_2_15.json", "2.15")):
        found = load(name)
        counts, (gpu, *_) = found["counts"], found["environment"]["gpu"].split(" 80GB")
        passed, number = counts["passed"], sum(counts.values())
        yield "reference/limits.md", f"| {torch} | {gpu} | {passed} of {number} |"
        yield "README.md", f"{passed} of {number}"
        if counts.get("failed") == 1:
            yield "reference/limits.md", f"The one failure with torch {torch}"


def _adverse() -> Claims:
    counts = load("adverse.json")["counts"]
    assert set(counts) == {"equal", "limit"}
    yield (
        "reference/limits.md",
        f"{sum(counts.values())} programs try to make graphs give other results than compiled code "
        f"(`make adverse-gpu`, torch 2.11): {counts['equal']} give the same, bit for bit, and "
        f"{counts['limit']} differ as",
    )
    newer = load("adverse_2_15.json")["counts"]
    assert newer["limit"] == counts["limit"]
    assert set(newer) == {"equal", "limit", "error"}
    assert newer["error"] == 1
    yield "reference/limits.md", f"With torch 2.15, {newer['equal']} give the same and the same"


def _complaints() -> Claims:
    totals = load("complaints.json")["totals"]
    yield (
        "README.md",
        f"{totals['counted']} programs after public complaints about compiled code and CUDA "
        "graphs, each of which shows its complaint under a stock mode in the same run: pygraph is "
        f"right in {totals['right']}, and slower than the best stock mode that is right in "
        f"{len(totals['lost'])}",
    )


def _decoding() -> Claims:
    (row,) = load("decode_2_15.json")["rows"]
    modes = [row["ways"][name] for name in ("pygraph", "reduce-overhead", "default")]
    step, token = ([w[key]["median"] for w in modes] for key in ("step_ms", "generate_ms"))
    page = "how-to/decoding.md"
    yield (
        page,
        f"a step takes {step[0]:.2f} ms with pygraph, {step[1]:.2f} ms with `reduce-overhead` and "
        f"{step[2]:.2f} ms in default mode",
    )
    yield page, f"takes {token[0]:.2f}, {token[1]:.2f} and {token[2]:.2f} ms"


def _framework_memory() -> Claims:
    # Rows that were measured before memory had processes of its own have it among their modes.
    found = load("frameworks.json")["rows"]
    rows = {row["name"]: row.get("memory", row)["modes"] for row in found}
    training = [rows[name] for name in ("hf_trainer", "accelerate_gpt2", "lightning_vit")]
    more = {
        key: [100 * (m["pygraph"][key] / m["default"][key] - 1) for m in training]
        for key in ("reserved_mib", "allocated_mib")
    }
    kept, used = more["reserved_mib"], more["allocated_mib"]
    yield (
        "how-to/frameworks.md",
        f"reserves {min(kept):.0f} to {max(kept):.0f} % more GPU memory than in default mode, and "
        f"allocates {min(used):.0f} to {max(used):.0f} % more",
    )
    small = [rows[name] for name in ("ppo", "pyg_gcn", "sentence_encoding")]
    added = [m["pygraph"]["allocated_mib"] - m["default"]["allocated_mib"] for m in small]
    assert all(m["pygraph"]["reserved_mib"] <= m["default"]["reserved_mib"] for m in small)
    yield "how-to/frameworks.md", f"allocate {min(added)} to {max(added)} MiB more"


def _runtime() -> Claims:
    page = "explanation/runtime-measured.md"
    training = load("training.json")["memory"]
    most = []
    for memory in (
        [*load("runtime.json")["memory"], *training],
        [*load("runtime_2_15.json")["memory"], *load("training_2_15.json")["memory"]],
    ):
        peaks = {(row["workload"], row["mode"]): row["peak_reserved_mib"] for row in memory}
        names = {name for name, mode in peaks if mode == "pygraph"}
        most.append(max(peaks[name, "pygraph"] / peaks[name, "default"] for name in names))
    yield (
        page,
        f"at most {most[0]:.2f} times the memory of the default mode with torch 2.11, "
        f"{most[1]:.2f} with torch 2.15",
    )
    slower = [
        times["pygraph"]["median"] / times["reduce-overhead"]["median"]
        for times in (row["period_ms"] for row in load("training_2_15.json")["timing"])
    ]
    over = [ratio for ratio in slower if ratio > 1]
    yield page, f"one training step (BERT, torch 2.15) takes {over[0]:.2f} times as long"
    assert len(over) == 1
    early = {(r["workload"], r["mode"]): r["peak_reserved_mib_warm_up"] for r in training}
    steps = ("bert_training", "gpt2_training", "mt5_training")
    more = [early[step, "pygraph"] / early[step, "default"] for step in steps]
    yield page, f"{min(more):.2f} to {max(more):.2f} times the default mode's in the three training"
    took = [r["warm_up_steps_s"][1] for r in training if r["mode"] == "pygraph"][:3]
    yield page, f"takes {min(took):.1f} to {max(took):.1f} s, once"
    checked = load("runtime_memcheck.json")
    yield page, f"accesses: {checked['as_it_is']['errors']} errors"
    yield page, f"sees it: {checked['one_wrong_address']['errors']} errors"
    host = load("runtime.json")["host"]
    yield page, f"{host['nodes']} nodes, without Dynamo"


def _memory() -> Claims:
    rows = [r for r in load("graph_memory.json")["measurements"] if r["nodes"] >= 1000]
    kilobytes = [row["gpu_bytes_a_node"] / 1000 for row in rows]
    sizes = " and ".join(str(size) for size in sorted({row["nodes"] for row in rows}))
    said = f"{min(kilobytes):.1f} to {max(kilobytes):.1f} kB were measured for graphs of {sizes}"
    for page in ("reference/runtime.md", "internals/how-it-works.md"):
        yield page, said


def _selection() -> Claims:
    found = load("selection.json")
    agreement = found["agreement"]
    assert agreement["same"] == agreement["regions"]
    page = "explanation/runtime-measured.md"
    yield page, f"Five fresh processes chose the same for all of {agreement['regions']} regions"
    reports = {row["workload"]: row["regions"][0] for row in found["compared"]}
    for name in ("bert", "vit"):
        own = reports[name]
        yield "explanation/selection.md", f"> {own['choice']}, because {own['choice_why']}"


def _kernels() -> Claims:
    page = "explanation/same-numbers.md"
    models = load("same_kernels.json")["models"].values()
    plain = [model["same"] for model in models if not model["cpu_values"]]
    other = [model["same"] for model in models if model["cpu_values"]]
    assert all(plain) and sum(other) == 1
    yield page, f"for {len(models)} models"
    yield page, f"the {len(plain)} models without CPU values are equal"
    yield page, f"Of the {len(other)} with CPU values one is equal"
    yield page, f"is 0 for the {len(plain)} models"


def _judged() -> Claims:
    page, (rounds, tests) = "explanation/accuracy-method.md", judged_sets()
    for own in (*rounds, *(part for each in tests for part in _options(each))):
        found = Counter(row["verdict"] for row in own["findings"])
        assert {name: number for name, number in own["counts"].items() if number} == found
    shares = [f"{own['counts']['right']} of {len(own['findings'])}" for own in rounds]
    number = sum(len(own["findings"]) for own in rounds)
    yield "README.md", f"Readers judged {number:,} findings with the default options"
    yield "README.md", f"{shares[0]} right in the first one, {shares[-1]} in the last one"
    strict = [round(100 * own["counts"]["right"] / len(own["findings"])) for own in rounds[5:]]
    yield page, f"{min(strict)} to {max(strict)} % of the findings of a round"
    clear = []
    for own in tests[2:]:
        counts = own["counts"]["regions all"]
        clear.append(round(100 * counts["right"] / (counts["right"] + counts["wrong"])))
    yield page, f"{min(clear)} to {max(clear)} % of what is clear, in the last five user tests"
    default, every = (tests[-1]["counts"][name] for name in ("default", "regions all"))
    yield "README.md", f"{default['right']} of {sum(default.values())} findings are right"
    yield "README.md", f"and {every['right']} of {sum(every.values())} with `--regions all`"
    loops = [row["code"].startswith("PG7") for row in rounds[-1]["findings"]]
    right = [row["verdict"] == "right" for row in rounds[-1]["findings"]]
    inside = sum(a and b for a, b in zip(loops, right, strict=True))
    yield page, f"{inside} of {sum(loops)} findings in training loops are right"
    yield page, f"and {sum(right) - inside} of {len(loops) - sum(loops)} others"
    fewer = (
        tests[1]["missed"]["without two packages"],
        tests[-1]["missed"]["without two training steps"],
    )
    for own in fewer:
        yield page, f"{own['found']} of {own['breaking statements']}"


def _options(own: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The findings and counts of a user test, by options."""
    for name, rows in own["findings"].items():
        yield {"findings": rows, "counts": own["counts"][name]}


def _accuracy() -> Claims:
    page = "explanation/accuracy-method.md"
    listed = (ROOT / "docs" / "explanation" / "accuracy.md").read_text("utf-8")
    held_out = listed.partition("\n- held-out: ")[2].partition("\n")[0].split(", ")
    yield page, f"programs over {len(held_out)} packages"
    yield from _judged()
    loops = load("training_loops.json")["all"]
    clean = loops["clean_loops"]
    yield (
        page,
        f"each step in {loops['loops']} training loops, and {clean['loops']} of them have nothing",
    )
    yield page, f"{clean['silent']} of the {clean['loops']} loops without a mark get no finding"
    said = load("judged_messages.json")["totals"]
    first, second, third = said["advice_fits_by_reader"]
    yield page, f"prints for {said['messages']} lines"
    yield page, f"in {first}, {second} and {third} cases"
    models = load("lint_truth_score.json")["models"]
    yield page, f"| {models} models of transformers, timm and diffusers |"
