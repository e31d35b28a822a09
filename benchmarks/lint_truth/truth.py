"""From the workers' records to one table of sites: file, statement, what happened, where seen."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatch
from functools import cache
from typing import Any

from benchmarks.lint_truth.statements import Sources, pack_lines

#: Files whose code is measured, by what it is; the first part that matches counts.
PARTS: dict[str, tuple[str, ...]] = {
    "samplers": ("diffusers/schedulers/*",),
    "losses": ("transformers/loss/*", "timm/loss/*", "diffusers/training_utils.py"),
    "generation": (
        "transformers/generation/logits_process.py",
        "transformers/generation/stopping_criteria.py",
    ),
    "models": (
        "transformers/models/*",
        "transformers/cache_utils.py",
        "transformers/masking_utils.py",
        "transformers/modeling_*.py",
        "transformers/activations.py",
        "transformers/pytorch_utils.py",
        "transformers/integrations/*attention*.py",
        "transformers/integrations/moe.py",
        "timm/models/*",
        "timm/layers/*",
        "diffusers/models/*",
    ),
}

SourceReader = Callable[[str], str | None]


def half_of(family: str) -> str:
    """ "tune" or "held-out", fixed by the name of the model family."""
    digest = hashlib.sha256(family.encode()).digest()
    return "tune" if digest[0] % 2 == 0 else "held-out"


@cache
def part_of(file: str) -> str | None:
    """Which of `PARTS` "package/path.py" belongs to; None for configuration, loading, ..."""
    for part, patterns in PARTS.items():
        if any(fnmatch(file, pattern) for pattern in patterns):
            return part
    return None


def is_model_code(file: str) -> bool:
    """Whether "package/path.py" is code that runs inside models, samplers, losses, ..."""
    return part_of(file) is not None


class Sites:
    """Events by statement."""

    def __init__(self, sources: Sources, counted: Callable[[str], bool]) -> None:
        self._sources = sources
        self.counted = counted
        self._sites: dict[tuple[str, int], dict[str, Any]] = {}

    def add(self, file: str, line: int, kind: str, detail: str, seen_in: str) -> None:
        """Note that `kind`, with a `detail`, happened on a line in `seen_in` (model:mode)."""
        start, end = self._sources.span(file, line)
        site = self._sites.get((file, start))
        if site is None:
            text = self._sources.text(file, line)
            site = {"file": file, "line": start, "end": end, "text": text, "kinds": {}}
            site["lines"] = set()
            self._sites[(file, start)] = site
        site["lines"].add(line)
        found = site["kinds"].setdefault(kind, {"what": set(), "in": set()})
        found["what"].add(detail)
        found["in"].add(seen_in)

    def rows(self) -> list[dict[str, Any]]:
        """Sites in file order, as plain data."""
        rows = []
        for _, site in sorted(self._sites.items()):
            kinds = {
                kind: {"what": sorted(found["what"])[:6], "in": sorted(found["in"])}
                for kind, found in sorted(site["kinds"].items())
            }
            rows.append({**site, "lines": sorted(site["lines"]), "kinds": kinds})
        return rows


def _by_model(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    grouped: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for record in records:
        if "stage" in record:
            stages = grouped[(record["model"], record["mode"])]
            stages[record["stage"]] = record
            stages.pop("ended", None)  # an earlier measurement's end; this one's comes last
        elif "label" in record:
            model, _, mode = record["label"].partition(":")
            grouped[(model, mode)]["ended"] = record
    return grouped


def merge(
    records: Iterable[Mapping[str, Any]],
    families: Mapping[str, tuple[str, str]],
    read_source: SourceReader,
    counted: Callable[[str], bool] = is_model_code,
) -> dict[str, Any]:
    """One truth table from `records`.

    `families` maps model -> (package, family); `read_source` maps "package/path.py" to its text;
    what happens in a file that is not `counted` is also noted at its nearest caller in one that is.
    """
    sources = Sources(read_source)
    sites = Sites(sources, counted)
    ran: dict[str, set[int]] = defaultdict(set)
    traced: dict[str, set[int]] = defaultdict(set)
    frames: dict[tuple[str, int, str, str], set[str]] = defaultdict(set)
    models: dict[str, dict[str, Any]] = {}
    files: dict[str, set[str]] = defaultdict(set)
    for (model, mode), stages in sorted(_by_model(records).items()):
        package, family = families.get(model, ("", model))
        row = models.setdefault(
            model,
            {"package": package, "family": family, "half": half_of(family), "modes": {}},
        )
        row["modes"][mode] = _add_mode(f"{model}:{mode}", stages, sites, ran, traced, frames)
        for file in stages.get("lines", {}).get("result", {}):
            files[file].add(model)
    return {
        "models": models,
        "sites": sites.rows(),
        "files": {file: sorted(seen_in) for file, seen_in in sorted(files.items())},
        "ran": {file: pack_lines(lines) for file, lines in sorted(ran.items())},
        "traced": {file: pack_lines(lines) for file, lines in sorted(traced.items())},
        "skipped_frames": [
            {
                "file": file,
                "line": line,
                "end": sources.function_end(file, line),
                "name": name,
                "why": why,
                "in": sorted(seen_in),
            }
            for (file, line, name, why), seen_in in sorted(frames.items())
        ],
    }


#: Dynamo reports that do not speak of the line's own code: an internal error, or a comprehension
#: whose frame was compiled alone after its caller had fallen back to eager, or a `raise` that the
#: model really runs into when compiled.
ARTEFACTS = ("Missing tp_iternext", "Observed exception")


def break_kind(kind: str) -> str:
    """ "break", or "dynamo_error" for a report that is no statement about the source line."""
    last = kind.rpartition(": ")[2]
    if last in ARTEFACTS or (last.endswith("Error") and last != "UserError"):
        return "dynamo_error"
    return "break"


def detail_of(found: Mapping[str, Any]) -> str:
    """What a recorded break is called in the table: its kind, and where in other code it is."""
    elsewhere = not found["inner"].startswith(found["file"])
    return found["kind"] + (f" (in {found['inner']})" if elsewhere else "")


def _add_event(
    sites: Sites, event: Mapping[str, Any], kind: str, detail: str, seen_in: str
) -> None:
    """Add an event at its line, and at its nearest caller in counted code if it is not there."""
    sites.add(event["file"], event["line"], kind, detail, seen_in)
    if sites.counted(event["file"]):
        return
    for file, line in event.get("callers", []):
        if sites.counted(file):
            sites.add(file, line, f"{kind}_below", f"{detail} in {event['file']}", seen_in)
            return


def _add_mode(
    seen_in: str,
    stages: Mapping[str, Any],
    sites: Sites,
    ran: dict[str, set[int]],
    traced: dict[str, set[int]],
    frames: dict[tuple[str, int, str, str], set[str]],
) -> dict[str, Any]:
    """Add one model in one mode; return its summary."""
    summary: dict[str, Any] = {}
    for stage, record in stages.items():
        if "error" in record:
            summary.setdefault("errors", {})[stage] = record["error"]
    if "result" in stages.get("ghost", {}):  # else nobody saw whether these lines synchronise
        for file, lines in stages.get("lines", {}).get("result", {}).items():
            ran[file].update(lines)
    compiling = stages.get("ghost_compiling", {}).get("result", {})
    for file, lines in compiling.get("lines", {}).items():
        ran[file].update(lines)
    for event in compiling.get("events", []):
        _add_event(sites, event, event["kind"], event["what"], seen_in)
    known = {(e["file"], e["line"], e["kind"]) for e in compiling.get("events", [])}
    for event in stages.get("ghost", {}).get("result", []):
        if (event["file"], event["line"], event["kind"]) not in known:
            kind = f"eager_{event['kind']}" if compiling else event["kind"]
            _add_event(sites, event, kind, event["what"], seen_in)
    observed = stages.get("trace", {}).get("result")
    if observed is not None:
        for found in observed["breaks"]:
            _add_event(sites, found, break_kind(found["kind"]), detail_of(found), seen_in)
        for file, line, name, why in observed["skipped_frames"]:
            frames[(file, line, name, why)].add(seen_in)
        for file, lines in observed["traced"].items():
            traced[file].update(lines)
        summary["graphs"] = observed["graphs"]
        if observed.get("error"):
            summary.setdefault("errors", {})["trace"] = observed["error"]
        summary["break_sites"] = len({(b["file"], b["line"]) for b in observed["breaks"]})
    return summary
