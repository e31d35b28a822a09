"""docs/explanation/accuracy.md, written from the committed results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.lint_truth.score import HALVES
from benchmarks.lint_truth_packages.page import packages_section

#: What happened at a missed site -> why the linter does not say it. First match wins.
REASONS: tuple[tuple[str, str], ...] = (
    (
        "host indices",
        "the index is a host tensor only by the way it came there, over several calls",
    ),
    ("list index", "whether the indexed value is a tensor of the device is not provable there"),
    ("host value", "whether the index is a tensor, and not a number, is not provable there"),
    ("h2d: to", "where the moved tensor was made is not visible in the function"),
    ("h2d: type_as", "where the moved tensor was made is not visible in the function"),
    ("h2d: copy_", "where the source tensor was made is not visible in the function"),
    ("h2d: tensor", "nothing proves that the new tensor's device is a GPU's"),
    ("h2d: as_tensor", "whether the argument already is a tensor is not provable there"),
    (
        "sync: _local_scalar_dense",
        "a value is read inside a library call, or the value that is "
        "branched on, indexed or sliced with is not provably a tensor",
    ),
    ("sync:", "whether the operand is a boolean or data-shaped tensor is not provable there"),
    (
        "host_tensor:",
        "the factory has a device argument whose value is the host, or sits in "
        "compiled script code",
    ),
    ("break: Data-dependent", "the branch depends on a value that is not provably a tensor"),
    ("break: Data dependent", "a tensor's value is used as a size, not provably a tensor's"),
    ("break: Dynamic shape", "whether the operand is a boolean tensor is not provable there"),
    ("break: Unsupported Tensor.item", "a tensor is used as a number, not provably a tensor"),
    ("break: graph break in loop", "a break in a loop, whose own reason Dynamo does not tell"),
    ("break: Failed to trace builtin", "a Python operation on a value that came out of numpy"),
    ("break:", "Dynamo does not support the construct, and no rule speaks of it"),
)


def _with(score: Mapping[str, Any]) -> str:
    """The linter's options, as a clause."""
    options = score["linter"].get("options") or []
    return f" with `{' '.join(options)}`" if options else ""


def _linter(score: Mapping[str, Any]) -> list[str]:
    """Which linter was scored; nothing where the score does not say it."""
    if not score.get("linter"):
        return []
    commit = score["linter"]["commit"] or "unknown"
    return [
        f"The linter is that of commit {commit}{_with(score)}. The target is the torch that",
        "the truth was measured with.",
        "",
    ]


def reason_of(what: Iterable[str]) -> str:
    """The reason for a miss, from what happened at the site."""
    texts = list(what)
    for pattern, reason in REASONS:
        if any(pattern in text for text in texts):
            return reason
    return "not classified"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _numbers(score: Mapping[str, Any]) -> list[str]:
    rows = ["| | all models | tune half | held-out half |", "| --- | --- | --- | --- |"]
    parts = [score["all"], *(score["halves"][half] for half in HALVES)]
    names = {
        "breaks": "graph breaks found",
        "syncs": "synchronising statements found",
        "host_tensors": "host tensors found",
        "syncs_and_host_tensors": "synchronising or host tensor",
    }
    for key, title in names.items():
        cells = [
            f"{p[key]['found']} of {p[key]['sites']}, {_percent(p[key]['recall'])}" for p in parts
        ]
        rows.append(f"| {title} | " + " | ".join(cells) + " |")
    cells = []
    for part in parts:
        counts = part["precision"]
        judged = counts["right"] + counts["wrong"]
        cells.append(f"{counts['right']} of {judged}, {_percent(counts['precision'])}")
    rows.append("| findings on lines that ran that are right | " + " | ".join(cells) + " |")
    cells = [f"{p['precision']['untraced']} / {p['precision']['unjudged']}" for p in parts]
    rows.append(
        "| counted apart: in skipped frames / not measured here | " + " | ".join(cells) + " |"
    )
    return rows


def _misses(score: Mapping[str, Any]) -> list[str]:
    classes: dict[tuple[str, str], list[str]] = defaultdict(list)
    titles = {
        "missed_breaks": "graph break",
        "missed_syncs": "synchronisation",
        "missed_host_tensors": "host tensor",
    }
    for key, title in titles.items():
        for group in score["halves"]["tune"][key]:
            classes[(title, reason_of(group["what"]))] += group["places"]
    rows = ["| missed | statements | why | for example |", "| --- | --- | --- | --- |"]
    for (title, reason), places in sorted(classes.items(), key=lambda item: -len(item[1])):
        rows.append(f"| {title} | {len(places)} | {reason} | `{places[0]}` |")
    return rows


def _alarms(score: Mapping[str, Any]) -> list[str]:
    counts: dict[str, list[str]] = defaultdict(list)
    for group in score["halves"]["tune"]["false_alarms"]:
        counts[group["code"]] += group["places"]
    rows = ["| code | findings | for example |", "| --- | --- | --- |"]
    for code, places in sorted(counts.items(), key=lambda item: (-len(item[1]), item[0])):
        rows.append(f"| {code} | {len(places)} | `{places[0]}` |")
    return rows


def _models(truth: Mapping[str, Any]) -> str:
    packages: dict[str, int] = defaultdict(int)
    families = set()
    observed = [
        model
        for model in truth["models"].values()
        if any("graphs" in mode for mode in model["modes"].values())
    ]
    for model in observed:
        packages[model["package"]] += 1
        families.add(model["family"])
    named = ", ".join(f"{count} of {package}" for package, count in sorted(packages.items()))
    return f"{len(observed)} models ({named}; {len(families)} families)"


def _gpu(gpu: Mapping[str, Any]) -> str:
    plain, compiling = gpu["comparison"]["sync"], gpu["comparison"]["sync_compiling"]
    return (
        f"On an {gpu['environment']['device']} (torch {gpu['environment']['torch']}) "
        f'`set_sync_debug_mode("warn")` named {plain["lines"]} lines in {plain["runs"]} runs of '
        f"the same models; the pretended device names {plain['lines_named']} of them "
        f"({compiling['lines_named']} of {compiling['lines']} where the code was told that it is "
        f"being compiled) and {len(plain['only_pretended'])} others. Its first version, before "
        "it was corrected by that very comparison, named 229 of 239 lines in 488 runs, and one "
        "other."
    )


def _parts(score: Mapping[str, Any]) -> list[str]:
    rows = [
        "| part | graph breaks | synchronisations | host tensors | findings that are right |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, part in score["parts"].items():
        counts = part["precision"]
        cells = [
            *(
                f"{part[key]['found']} of {part[key]['sites']}, {_percent(part[key]['recall'])}"
                for key in ("breaks", "syncs", "host_tensors")
            ),
            f"{counts['right']} of {counts['right'] + counts['wrong']}, "
            f"{_percent(counts['precision'])}",
        ]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return rows


def _claims(score: Mapping[str, Any]) -> list[str]:
    claims, kinds = score["all"]["break_claims"], score["all"]["gb_types"]
    lines = [
        f"Findings claim a break at {claims['claims']} statements that Dynamo traced; at "
        f"{claims['without_a_break']} of them ({_percent(claims['share'])}) there is none.",
    ]
    if kinds is not None:
        lines.append(
            f"At {kinds['right']} of the {kinds['matched']} matched sites "
            f"({_percent(kinds['share'])}) the finding names Dynamo's own kind of break."
        )
    return lines


def _newer(score: Mapping[str, Any]) -> list[str]:
    """The section on versions and code that the rules were not written against."""
    versions = ", ".join(f"{name} {version}" for name, version in score["environment"].items())
    covered = score["coverage"]
    kinds = ", ".join(f"{count} of {kind}" for kind, count in covered["by_kind"].items())
    reasons = "; ".join(f"{count}: {reason}" for reason, count in covered["reasons"].items())
    return [
        "## On newer versions",
        f"The same on {versions}:",
        f"{covered['measured']} entries ({kinds}; {covered['families']} families), most of them",
        "found by introspection, and beside models the steps of samplers, losses and the",
        "processors of generation. Not measured: " + reasons + ".",
        "Of the held-out half only these numbers are known: its places are listed nowhere.",
        f"The linter is that of commit {score['linter']['commit'] or 'unknown'}{_with(score)}; "
        "with default options, ed1f487 found 39 of the 167 graph breaks "
        "(`lint_truth_newer_baseline.json`).",
        "",
        *_numbers(score),
        "",
        *_parts(score),
        "",
        *_claims(score),
        "",
    ]


def accuracy_page(
    score: Mapping[str, Any],
    truth: Mapping[str, Any],
    gpu: Mapping[str, Any],
    newer: Mapping[str, Any] | None = None,
    packages: Mapping[str, Any] | None = None,
) -> str:
    """The page, as Markdown; `newer` and `packages` are scores on code of other authors."""
    environment = score["environment"]
    corpus = score["corpus"]
    versions = ", ".join(f"{name} {version}" for name, version in environment.items())
    lines = [
        "# How accurate the linter is",
        "",
        "Written by `make bench-lint-truth ARGS=report` from",
        "`benchmarks/results/lint_truth_*.json`.",
        "",
        "## What is measured",
        f"{_models(truth)}, tiny and randomly initialised, run forward in eval and in train mode",
        f"({versions}).",
        "",
        "- **Graph breaks**: all that Dynamo reports in the default mode, with their lines, also",
        "  those that make it skip a frame. Dynamo's own errors, and frames it only sees because",
        "  an earlier frame was skipped, are no breaks.",
        "- **Synchronisations and host tensors**: an eager run on a pretended CUDA device on the",
        "  CPU, with `torch.compiler.is_compiling()` answering true. " + _gpu(gpu),
        "- A *site* is a logical statement in a model file. It is found if a default-on finding on",
        "  that statement says what happens there. A finding on a statement that ran is right if",
        "  something happened there in any model and mode.",
        "- The models are split by family into two halves with a fixed hash. Rules were tuned on",
        "  the misses of one half only.",
        "",
        "## Results",
        *_linter(score),
        *_numbers(score),
        "",
        f"Of the {corpus['sites']} break locations in model code recorded by others on torch 2.10",
        f"(`benchmarks/lint_truth/corpus_break_sites.json`) {corpus['found']} are found; of the",
        f"{corpus['confirmed']} that also break in the runs here, {corpus['confirmed_found']}.",
        *(_claims(score) if "break_claims" in score["all"] else []),
        "",
        *(_newer(newer) if newer is not None else []),
        *(packages_section(packages) if packages is not None else []),
        "## What is missed, and why",
        "In the tune half; of the held-out half only the numbers above are known. Classes by the",
        "kind of event at the missed statement; the reason is the class's, it was not looked into",
        "place by place.",
        "",
        *_misses(score),
        "",
        "## False alarms",
        "Findings of the tune half on statements that ran and at which nothing happened in any",
        "model and mode:",
        "",
        *_alarms(score),
        "",
        "Every single place of that half is in `benchmarks/results/lint_truth_score.json`.",
        "",
    ]
    return "\n".join(lines)
