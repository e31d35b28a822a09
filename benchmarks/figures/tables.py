"""The tables of pages, from the result files. Needs nothing but Python.

A table stands below the comment ``<!-- table: NAME -->``, up to the next empty line.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures.data import load, whole
from benchmarks.workloads import summary, tabular
from benchmarks.workloads.tabular import markdown

ROOT = Path(__file__).parents[2]
MODES = ("default", "reduce-overhead", "pygraph")
Rows = list[dict[str, Any]]
_NAMES = {
    "decode": "decoding step, Llama-like, 16 layers, `StaticCache`, bf16",
    "bert": "BERT-base, bf16, batch 1, 128 tokens",
    "gpt2": "GPT-2 small, bf16, batch 1, 64 tokens",
    "efficientnet": "EfficientNet-B0, fp16, batch 1",
    "vit": "ViT-B/16, fp16, batch 64",
    "big_inputs": "three inputs of 256 MiB, little work",
    "bert_training": "BERT, 6 layers, batch 4",
    "gpt2_training": "GPT-2, 12 layers of 1024",
    "mt5_training": "MT5-like, loss outside",
    "six_shapes": "six lengths in turn, inference, `dynamic=True`",
}


def _accuracy() -> str:
    """What the linter finds, from code that it knows to code that it does not."""
    models, newer = load("lint_truth_score.json"), load("lint_truth_newer_score.json")
    runs = load("lint_truth_packages_score.json")["runs"]
    packages = [runs[name]["annotated"]["held-out"]["all"] for name in ("regions-all", "default")]
    halves = models["halves"]
    shown = {
        "transformers 5.4, timm, diffusers: the half that rules were tuned on": halves["tune"],
        "the same, held-out half": halves["held-out"],
        "newer versions with samplers, losses, generation, held-out half, `--regions all`": newer[
            "halves"
        ]["held-out"],
        "21 packages of other authors, held out, `--regions all`": packages[0],
        "the same with default options": packages[1],
    }
    head = ["", "graph breaks found", "host-device syncs found", "findings that are right"]
    return markdown(head, [[label, *_scores(own)] for label, own in shown.items()])


def _scores(own: dict[str, Any]) -> list[str]:
    precision = own["precision"]
    judged = precision["right"] + precision["wrong"]
    return [
        *(f"{whole(100 * own[k]['recall'])} % of {own[k]['sites']}" for k in ("breaks", "syncs")),
        f"{whole(100 * precision['precision'])} % of {judged}",
    ]


def _training_loops() -> str:
    """What is found in loops that were looked at while rules were written, and in the others."""
    groups = load("training_loops.json")["groups"]
    closed = ("unseen", "frameworks_unseen", "reserve")
    shown = {
        "opened while rules were written": [
            own for name, own in groups.items() if name not in closed
        ],
        "never opened": [groups[name] for name in closed],
    }
    body = []
    for label, own in shown.items():
        marks = [each["marks"]["all"] for each in own]
        all_marks = sum(each["marks"] for each in marks)
        right = sum(each["findings"]["right"] for each in own)
        judged = right + sum(each["findings"]["wrong"] for each in own)
        body.append(
            [
                f"{sum(each['loops'] for each in own)} {label}",
                f"{whole(100 * sum(each['found'] for each in marks) / all_marks)} % of {all_marks}",
                f"{whole(100 * sum(each['found_by_any_code'] for each in marks) / all_marks)} %",
                f"{whole(100 * right / judged)} % of {judged}",
            ]
        )
    return markdown(["loops", "marks found", "by any rule", "findings that are right"], body)


def judged_sets() -> tuple[Rows, Rows]:
    """The rounds of findings that readers judged, and the user tests, in order."""
    judged = load("judged_findings.json")
    rounds = [judged, *(own for name, own in judged.items() if name.endswith("_round"))]
    return rounds, [judged["user_test"], judged["second_user_test"], *judged["later_user_tests"]]


def _judged() -> str:
    """What readers said of findings of packages that nobody had opened: one row a set."""
    rounds, tests = judged_sets()
    body = []
    for number, own in enumerate(rounds, 1):
        body.append([f"round {number}", str(len(own["packages"])), _right(own["counts"]), "", ""])
    for number, own in enumerate(tests, 1):
        shares = [_right(own["counts"][name]) for name in ("default", "regions all")]
        missed = own["missed"]
        found = f"{missed['found']} of {missed['breaking statements']}"
        body.append([f"user test {number}", str(len(own["packages"])), *shares, found])
    titles = ["default options", "`--regions all`", "breaking statements found"]
    return markdown(["set", "packages", *titles], body)


def _right(counts: dict[str, int]) -> str:
    return f"{counts['right']} of {sum(counts.values())}"


def _joined(rows: Rows) -> Rows:
    """One row a workload: a mode may have been timed in a process of its own."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        own = found.setdefault(row["workload"], {"workload": row["workload"], "apart": set()})
        if "period_ms" in own:
            own["apart"] |= set(row["period_ms"])
        for key in ("period_ms", "gpu_busy_ms"):
            own[key] = {**own.get(key, {}), **row[key]}
        own["commit"] = row.get("commit")
    return list(found.values())


def times_table(rows: Rows, digits: int, busy: bool) -> str:
    """Milliseconds a call. A star: of an earlier version, which named no commit."""
    body = []
    for row in _joined(rows):
        star = "" if row["commit"] else " *"
        cells = [_NAMES[row["workload"]] + star]
        for mode in MODES:
            own = " (own process)" if mode in row["apart"] else ""
            cells.append(f"{row['period_ms'][mode]['median']:.{digits}f}{own}")
        body.append([*cells, f"{row['gpu_busy_ms']['pygraph']:.{digits}f}"][: 5 if busy else 4])
    return markdown(["ms per call", *MODES, "GPU busy (pygraph)"][: 5 if busy else 4], body)


def _two_versions() -> str:
    """Workloads with the newest torch, and how pygraph compares with the better stock mode there
    and with the oldest.
    """
    newest, oldest = (
        {row.name: row for row in summary.rows(load(name))}
        for name in ("workloads_2_15.json", "workloads.json")
    )
    body = [
        [
            f"`{name}`",
            *(f"{row.timed[mode].ms:.2f}" for mode in MODES),
            *(tabular.times(each.over_better_stock()) for each in (row, oldest[name])),
        ]
        for name, row in newest.items()
    ]
    head = ["ms per call, torch 2.15", *MODES]
    return markdown([*head, "over the better stock mode", "the same, torch 2.11"], body)


def _memory(rows: Rows) -> str:
    """Peak reserved memory in steady state, and warm-up."""
    by_workload: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_workload.setdefault(row["workload"], {})[row["mode"]] = row
    head = ["", *(f"{mode}, MiB" for mode in MODES), *(f"{mode}, warm-up, s" for mode in MODES)]
    return markdown(
        head,
        [
            [
                _NAMES[name],
                *(str(own[mode]["peak_reserved_mib"]) for mode in MODES),
                *(f"{own[mode]['warm_up_s']:.1f}" for mode in MODES),
            ]
            for name, own in by_workload.items()
        ],
    )


def _host() -> str:
    """Host time of a served call, by how many nodes are patched."""
    host = load("runtime.json")["host"]["rows"]
    kinds = {"host_us": "the GPU idle before each call", "in_a_row_us": "calls in a row"}
    return markdown(
        ["us per call", *(f"{row['patched_nodes']:.0f} nodes patched" for row in host)],
        [[said, *(f"{row[key]['median']:.1f}" for row in host)] for key, said in kinds.items()],
    )


def _selection() -> str:
    head = ["workload", "default, ms", "reduce-overhead, ms", "auto, ms", "auto over the better"]
    body = []
    for row in load("selection.json")["compared"]:
        times = [f"{row['period_ms'][m]['median']:.3f}" for m in ("default", MODES[1], "auto")]
        better = min(row["period_ms"][mode]["median"] for mode in MODES[:2])
        cells = [f"`{row['workload']}`", *times]
        cells.append(f"{better / row['period_ms']['auto']['median']:.2f}x")
        cells.append(f"{100 * row['first_calls']['own']:.0f} %")
        body.append([*cells, str(row["calls_until_decided"])])
    return markdown([*head, "cost of deciding", "decided after calls"], body)


def _placement() -> str:
    modes = ("default", "reduce-overhead", "pygraph, before", "pygraph")
    head = ["ms per call", "default", "reduce-overhead", "`placement` off", "pygraph"]
    cases = load("placement.json")["cases"]
    return markdown(
        head, [[case["what"], *(_placed(case["modes"][m]) for m in modes)] for case in cases]
    )


def _placed(timed: dict[str, Any]) -> str:
    if "error" in timed:
        return "fails"
    wrong = "" if timed["devices"] == "as in eager" else " (GPU tensor for a CPU one)"
    return f"{timed['period_ms']['median']:.3f}{wrong}"


_WAYS = {
    "whole default": "default",
    "whole pygraph": "pygraph",
    "blocks default": "default, block by block",
    "blocks reduce-overhead": "reduce-overhead, block by block",
    "blocks pygraph": "pygraph, block by block",
}
_MODELS = {
    "llama32": "Llama-like, 32 layers",
    "dit24": "DiT-L/2, 24 blocks",
    "vit_l": "ViT-L/16",
    "bert_large": "BERT-large",
}


def _regional() -> str:
    rows = load("regional.json")["rows"]
    body = []
    for row in rows:
        ways = [row["ways"][way] for way in _WAYS]
        cells = [
            "fails" if "error" in way else f"{way['period_ms']['median']:.2f} ({way['cold_s']:.1f})"
            for way in ways
        ]
        model, _, kind = row["name"].rpartition("_")
        body.append([f"{_MODELS[model]}, {kind}", *cells])
    return markdown(["ms a step (cold start, s)", *_WAYS.values()], body)


_LOOPS = {
    "hf_generate": "transformers, `generate`",
    "hf_trainer": "transformers, `Trainer`",
    "accelerate_gpt2": "Accelerate",
    "lightning_vit": "Lightning",
    "sentence_encoding": "sentence-transformers",
    "pyg_gcn": "PyTorch Geometric",
    "torchdiffeq_ode": "torchdiffeq",
    "botorch_acquisition": "BoTorch",
    "torchvision_detection": "torchvision detection",
    "ppo": "PPO",
}


def _frameworks() -> str:
    rows = {row["name"]: row for row in load("frameworks.json")["rows"] if "modes" in row}
    body = []
    for name, said in _LOOPS.items():
        if name not in rows:
            body.append([said, *["not measured"] * 3, "", ""])
            continue
        modes = rows[name]["modes"]
        times = [
            f"{own['step_ms']:.2f}" if "step_ms" in (own := modes[m]) else "fails" for m in MODES
        ]
        served = f"{100 * modes['pygraph'].get('served_share', 0):.0f} %"
        body.append([said, *times, f"{rows[name]['speed']['beside default']:.2f}x", served])
    return markdown(["ms a step", *MODES, "pygraph over default", "kernels in graphs"], body)


def _decoding() -> str:
    head = ["batch", "mode", "ms a step", "share of the limit", "ms a token in `generate`"]
    body = []
    for row in load("decode.json")["rows"]:
        batch = row["name"].partition("_")[0].removeprefix("batch")
        for name, own in row["ways"].items():
            times = [f"{own[key]['median']:.2f}" for key in ("step_ms", "generate_ms")]
            shares = [
                f"{100 * own[key]:.{digits}f} %"
                for key, digits in (("step_share_of_limit", 0), ("idle_share_of_step", 1))
            ]
            body.append([batch, name, times[0], shares[0], times[1], shares[1]])
    return markdown([*head, "GPU waits"], body)


def _several_gpus_right() -> str:
    """Rows that were compared bit for bit; served: calls, of all ranks."""
    body = []
    for row in load("distributed.json")["rows"]:
        kind, _, name = row["name"].partition(": ")
        if kind == "right":
            served = sum(rank["served"] for rank in row["ranks"])
            calls = served + sum(rank["unserved"] for rank in row["ranks"])
            equal = "yes" if row["verdict"]["equal"] else "**no**"
            refused = sum(len(rank["refused"]) for rank in row["ranks"])
            body.append([name, equal, f"{served:,} of {calls:,}", str(refused) if refused else ""])
    head = ["program", "equal to default mode", "calls served", "refused regions"]
    return markdown(head, body)


# One of each kind of program, the slowest for pygraph among them.
_A_FEW = (
    "fsdp, gpt2 768, batch 1",
    "fsdp, gpt2 2048, batch 1, no reshard",
    "fsdp, llama 2048, batch 8",
    "fsdp, gpt2 4096, batch 8",
    "training, llama 1B",
    "ddp, llama 768, batch 1",
    "ddp, llama 2048, batch 1",
    "tp decode, 8 layers of 2048",
    "tp, llama 2048",
    "pipeline, llama 2048",
)


def _several_gpus_speed(only: Sequence[str] = ()) -> str:
    """A mode that is missing did not end in the time that it had."""
    modes = ("default", "reduce-overhead", "pygraph")
    body = []
    for row in load("distributed.json")["rows"]:
        kind, _, name = row["name"].partition(": ")
        if kind == "speed" and row["verdict"] and (not only or name in only):
            found = row["ranks"][0]["modes"]
            times = [f"{found[m]['ms']:.1f}" if m in found else "did not end" for m in modes]
            ratios = [
                f"{found[m]['ms'] / found['pygraph']['ms']:.2f}x" if m in found else ""
                for m in modes[:2]
            ]
            memory = [found[m]["memory_mib"] if m in found else 0 for m in modes]
            sizes = " / ".join(f"{value:,.0f}" for value in memory if value)
            body.append([name, *times, *ratios, sizes])
    head = [
        "ms a step",
        *modes,
        "beside default",
        "beside reduce-overhead",
        "MiB allocated at most",
    ]
    return markdown(head, body)


def _predicted_decoding() -> str:
    """One line where the number of GPUs changes nothing."""
    head = ["host time of a collective, us", "GPUs", "default, ms", "pygraph, ms", "times as fast"]
    found: dict[tuple[str, ...], list[str]] = {}
    for row in load("distributed_predicted.json")["decoding"]:
        times = [f"{row['ms'][mode]:.1f}" for mode in ("default", "pygraph")]
        cells = (str(row["collective_us"]), *times, f"{row['times_as_fast']:.2f}x")
        found.setdefault(cells, []).append(str(row["GPUs"]))
    return markdown(head, [[c[0], ", ".join(gpus), *c[1:]] for c, gpus in found.items()])


def _predicted_training() -> str:
    head = ["model", "host time saved, ms a step", "the GPU's work, ms", "times as fast"]
    rows = load("distributed_predicted.json")["training"]
    return markdown(
        head,
        [
            [
                row["model"],
                " to ".join(f"{ms:.0f}" for ms in row["host_saved_ms"]),
                f"{row['gpu_ms']:.0f}",
                " to ".join(f"{ratio:.2f}x" for ratio in row["times_as_fast"]),
            ]
            for row in rows
        ],
    )


def _first_calls() -> str:
    """The default mode's seconds with warm caches, and pygraph's times as parts of them."""
    body = []
    for row in load("first_calls.json")["rows"]:
        auto, always = row["beside"]["pygraph"], row["beside"]["pygraph always"]["warm"]
        ratios = [
            *(auto["warm"][call] for call in ("10", "100", "500")),
            *(always[call] for call in ("10", "500")),
            auto["cold"]["100"],
        ]
        seconds = row["medians"]["default"]["warm"]["10"]
        body.append([row["name"], f"{seconds:.1f}", *(f"{ratio:.2f}x" for ratio in ratios)])
    head = ["model", "default, warm: call 10, s", "`auto`: call 10", "call 100", "call 500"]
    return markdown([*head, "`always`: call 10", "call 500", "cold, `auto`: call 100"], body)


def _version_0_1() -> str:
    """Milliseconds a call with version 0.1 and with this one; above 1: this one is faster."""
    body = []
    for name, row in load("compare_commits.json")["rows"].items():
        if "kernel_ms" not in row:
            continue
        old, new = (statistics.median(row["ms"][side]) for side in ("base", "new"))
        kernels = [statistics.median(row["kernel_ms"][side]) for side in ("base", "new")]
        low, high = row["interval_95"]
        ratio = f"{row['ratio']:.2f}x ({low:.2f} to {high:.2f})"
        times = [f"{old:.3g}", f"{new:.3g}", ratio, f"{kernels[0] / kernels[1]:.2f}x"]
        body.append([name.partition(":")[2], *times])
    head = ["workload", "version 0.1, ms", "this version, ms", "ratio (95 % interval)"]
    return markdown([*head, "GPU kernels alone"], body)


TABLES: dict[str, Callable[[], str]] = {
    "version-0-1": _version_0_1,
    "accuracy": _accuracy,
    "training-loops": _training_loops,
    "judged": _judged,
    "regional": _regional,
    "frameworks": _frameworks,
    "decoding": _decoding,
    "runtime": lambda: times_table(load("runtime_2_15.json")["timing"], 2, busy=False),
    "runtime-2-11": lambda: times_table(load("runtime.json")["timing"], 3, busy=True),
    "runtime-2-15": lambda: times_table(load("runtime_2_15.json")["timing"], 3, busy=True),
    "runtime-memory": lambda: _memory(load("runtime.json")["memory"]),
    "host-time": _host,
    "training": lambda: times_table(load("training.json")["timing"], 2, busy=False),
    "training-2-15": lambda: times_table(load("training_2_15.json")["timing"], 2, busy=True),
    "training-memory-2-15": lambda: _memory(load("training_2_15.json")["memory"]),
    "two-versions": _two_versions,
    "first-calls": _first_calls,
    "training-memory": lambda: _memory(load("training.json")["memory"]),
    "selection": _selection,
    "placement": _placement,
    "several-gpus-right": _several_gpus_right,
    "several-gpus-speed": _several_gpus_speed,
    "several-gpus-few": lambda: _several_gpus_speed(_A_FEW),
    "predicted-decoding": _predicted_decoding,
    "predicted-training": _predicted_training,
}


def filled(text: str, tables: dict[str, Callable[[], str]] = TABLES) -> str:
    """A page with its tables as the results have them."""
    for name, make in tables.items():
        mark = f"<!-- table: {name} -->\n"
        before, found, after = text.partition(mark)
        if found:
            rest = f"\n{after}" if after.startswith("\n") else after[after.index("\n\n") :]
            text = before + mark + make() + rest
    return text


def pages() -> Sequence[Path]:
    """Pages that may hold tables and pictures."""
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def write(changed: Callable[[str], str], paths: Iterable[Path]) -> list[Path]:
    """Change pages; those that are other than before."""
    written = []
    for path in paths:
        old = path.read_text("utf-8")
        new = changed(old)
        if new != old:
            path.write_text(new, "utf-8")
            written.append(path)
    return written
