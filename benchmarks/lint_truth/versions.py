"""The sets of package versions that are measured, each with its own environment and results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def release(version: str) -> str:
    """The release of a torch version, as the linter's `target-torch` wants it: "2.13"."""
    return ".".join(version.split(".")[:2])


@dataclass(frozen=True)
class VersionSet:
    """One environment and what is measured in it.

    `requirements` names the environment's file beside this one, `folder` the virtual environment
    that the Makefile makes of it; `sources` are the modules that list the measured entries.
    With `blind`, the truth table does not have the text of places of the held-out half.
    """

    name: str
    requirements: str
    folder: str
    sources: tuple[str, ...]
    truth: str
    score: str
    blind: bool
    #: Whether the break sites that others recorded belong to these versions.
    corpus: bool

    @property
    def records(self) -> Path:
        """Where the observations are kept between runs."""
        return ROOT / self.folder / "records.jsonl"

    @property
    def truth_file(self) -> Path:
        """The committed truth table."""
        return RESULTS / self.truth

    @property
    def score_file(self) -> Path:
        """The committed score."""
        return self.score_for(stripped=False)

    def score_for(self, stripped: bool) -> Path:
        """The committed score of the packages as they are, or without annotations."""
        path = RESULTS / self.score
        return path.with_stem(f"{path.stem}_stripped") if stripped else path


SETS = {
    each.name: each
    for each in (
        VersionSet(
            name="current",
            requirements="requirements.txt",
            folder=".venv-truth",
            sources=("catalogue_transformers", "build_timm", "build_diffusers"),
            truth="lint_truth_sites.json",
            score="lint_truth_score.json",
            blind=False,
            corpus=True,
        ),
        VersionSet(
            name="newer",
            requirements="requirements_newer.txt",
            folder=".venv-truth-newer",
            sources=(
                "newer.samplers",
                "newer.losses",
                "newer.processors",
                "newer.transformers_models",
                "newer.timm_models",
                "newer.diffusers_models",
                "newer.transformers_rest",
            ),
            truth="lint_truth_newer_sites.json",
            score="lint_truth_newer_score.json",
            blind=True,
            corpus=False,
        ),
    )
}
