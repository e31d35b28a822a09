"""What each figure shows, from the result files. Needs nothing but Python."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.workloads import results, summary
from benchmarks.workloads.summary import Row

RESULTS = Path(__file__).parents[1] / "results"
FOLDER = Path(__file__).parents[2] / "docs" / "img"
MODES = ("reduce-overhead", "pygraph")
THEMES = ("light", "dark")


@dataclass(frozen=True)
class Figure:
    """A figure: bars of each ``series`` in ``groups``. ``bars`` has for each group the value of
    each series: a number, None where it failed, and no entry where it was not run. ``log``: ratios
    on a logarithmic axis through 1.
    """

    name: str
    title: str
    alt: str
    series: tuple[str, ...]
    bars: dict[str, dict[str, float | None]]
    log: bool = False
    unit: str = ""

    def digest(self) -> str:
        """Stands for everything that is drawn; each picture holds it, so a test can compare."""
        drawn = [self.name, self.title, self.alt, self.series, self.bars, self.log, self.unit]
        return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16]

    def markdown(self, folder: str) -> str:
        """Both pictures; which one is shown depends on the reader's colour scheme."""
        return "\n".join(
            f"![{self.alt}]({folder}/{self.name}-{theme}.svg#gh-{theme}-mode-only)"
            for theme in THEMES
        )

    def captioned(self, text: str) -> str:
        """A page in which every copy of the pictures has this figure's text."""
        target = rf"[\w./]*{re.escape(self.name)}-(?:light|dark)\.svg"
        text = re.sub(rf"!\[[^\]]*\](\({target})", lambda m: f"![{self.alt}]{m[1]}", text)
        image = rf'(<img src="{target}" alt=")[^"]*'
        return re.sub(image, lambda m: m[1] + self.alt.replace('"', "&quot;"), text)


def load(name: str) -> Any:
    """A result file."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def whole(value: float | None) -> str:
    """A whole number, halves rounded up."""
    return "-" if value is None else f"{int(value + 0.5)}"


def workload_figures(rows: list[Row]) -> list[Figure]:
    """Speed and memory of the workloads beside torch's default mode."""
    return [_speed(rows), _memory(rows)]


def _speed(rows: list[Row]) -> Figure:
    bars: dict[str, dict[str, float | None]] = {}
    for row in rows:
        if row.timed:
            ratios = {mode: row.ratio("default", mode) for mode in MODES}
            bars[row.name] = {m: r for m, r in ratios.items() if r or m in row.failures}
    return Figure(
        name="workloads-speed",
        title="Speed relative to torch.compile's default mode (higher is better)",
        alt=f"Bar chart: speed of {len(bars)} workloads relative to torch.compile's default mode, "
        "for reduce-overhead and pygraph. The page Benchmarks has the figures in a table.",
        series=MODES,
        bars=_by_first(bars, "pygraph"),
        log=True,
        unit="x",
    )


def _memory(rows: list[Row]) -> Figure:
    bars: dict[str, dict[str, float | None]] = {}
    for row in rows:
        base = row.memory("default")
        found = {mode: row.memory(mode) for mode in MODES}
        shown = {m: v / base if v and base else None for m, v in found.items()}
        bars[row.name] = {m: v for m, v in shown.items() if v or m in row.failures}
    return Figure(
        name="workloads-memory",
        title="Peak reserved memory relative to default mode (lower is better)",
        alt=f"Bar chart: peak reserved memory of {len(bars)} workloads relative to torch.compile's "
        "default mode, for reduce-overhead and pygraph. The page Benchmarks has the figures in a "
        "table.",
        series=MODES,
        bars=_by_first({name: own for name, own in bars.items() if own}, "pygraph"),
        log=True,
        unit="x",
    )


def _by_first(
    bars: dict[str, dict[str, float | None]], mode: str
) -> dict[str, dict[str, float | None]]:
    order = sorted(bars, key=lambda name: bars[name].get(mode) or 0.0)
    return {name: bars[name] for name in order}


def before_and_after() -> Figure:
    """Graphs of five programs before and after they were fixed."""
    programs = {
        "trainer": "Trainer (transformers)",
        "lightning": "LightningModule",
        "plain_loop": "plain training loop",
        "generate": "generate (transformers)",
        "sampler": "sampler (diffusers)",
    }
    found = load("trace_programs.json")["programs"]
    bars: dict[str, dict[str, float | None]] = {
        label: {when: float(found[name][when]["graphs"]) for when in ("before", "after")}
        for name, label in reversed(programs.items())
    }
    said = "; ".join(
        f"{label} {whole(own['before'])} to {whole(own['after'])}" for label, own in bars.items()
    )
    return Figure(
        name="before-and-after",
        title="Graphs of five programs, before and after fixing (1 is best)",
        alt=f"Bar chart: number of graphs before and after fixing: {said}.",
        series=("before", "after"),
        bars=bars,
    )


def accuracy() -> Figure:
    """What the linter finds, and how often it is right, from code it knows to code it does not."""
    models, newer = load("lint_truth_score.json"), load("lint_truth_newer_score.json")
    others = load("lint_truth_packages_score.json")["runs"]["regions-all"]
    shown = {
        "models, rules tuned on them": models["halves"]["tune"],
        "models, held out": models["halves"]["held-out"],
        "newer versions, held out": newer["halves"]["held-out"],
        "other authors, held out": others["annotated"]["held-out"]["all"],
    }
    bars: dict[str, dict[str, float | None]] = {}
    for label, own in reversed(shown.items()):
        bars[label] = {
            "graph breaks found": 100 * own["breaks"]["recall"],
            "syncs found": 100 * own["syncs"]["recall"],
            "findings right": 100 * own["precision"]["precision"],
        }
    said = "; ".join(
        f"{label}: {', '.join(f'{whole(value)} % {name}' for name, value in own.items())}"
        for label, own in reversed(bars.items())
    )
    return Figure(
        name="accuracy",
        title="Accuracy, from code that the rules know to code of other authors (%)",
        alt=f"Bar chart of the linter's accuracy. {said}.",
        series=("graph breaks found", "syncs found", "findings right"),
        bars=bars,
        unit=" %",
    )


def workloads() -> list[Figure]:
    """The figures of the committed workloads."""
    return workload_figures(summary.rows(results.load(RESULTS / "workloads.json")))


def complaints() -> list[Figure]:
    """The figure of the complaints that were measured."""
    from benchmarks.complaints import report  # which imports Figure from here

    content = load(report.RESULTS.name) if report.RESULTS.exists() else {"rows": []}
    return [report.figure(content)] if report.figures(content) else []


FIGURES: tuple[Callable[[], list[Figure]], ...] = (
    workloads,
    lambda: [before_and_after()],
    lambda: [accuracy()],
    complaints,
)


def figures() -> list[Figure]:
    """Every figure that is made from results."""
    return [figure for make in FIGURES for figure in make()]
