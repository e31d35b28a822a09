"""Models of transformers from families that older versions have too."""

from __future__ import annotations

from benchmarks.lint_truth.newer.transformers_models import rest as entries

__all__ = ["entries"]
