"""Methods that a call means by their names alone: of objects whose class is not known."""

from __future__ import annotations

from collections.abc import Iterable

from pygraph_lint.analysis.domain import ops

_FOLDERS = 8


def resolves_by_name(method: str, modules: Iterable[str]) -> bool:
    """Whether a call on any object may mean a method of a project, which these modules have."""
    if method.startswith("__") or method in ops.TENSOR_METHODS:
        return False
    common = method in ops.COMMON_METHODS and method != "step"
    return not common and are_in_few_folders(modules)


def are_in_few_folders(modules: Iterable[str]) -> bool:
    """Whether so few folders have files with a method of one name that the name says enough."""
    return len({module.rpartition(".")[0] for module in modules}) <= _FOLDERS
