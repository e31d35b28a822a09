"""The ways a workload is run, as data."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way to run a module.

    ``compile`` holds the arguments of ``torch.compile``, or None for eager. ``backend`` is a
    backend given as ``package:attribute``, which also works where the package is only on the path.
    ``needs`` is a package; a machine without it skips the variant and says so. ``warm_calls`` is
    how many calls (for each input shape) come before steady state. ``settled``, written like
    ``backend``, is a function that says whether everything that is decided while running has been
    decided; calls without a wait in between go on until it says so. ``marks_steps`` says whether
    each call is announced to CUDA graph trees as a new step.
    """

    name: str
    compile: Mapping[str, Any] | None
    backend: str | None = None
    needs: str | None = None
    warm_calls: int = 6
    settled: str | None = None
    marks_steps: bool = False


def _variant(name: str, compile: dict[str, Any] | None, **fields: Any) -> Variant:
    return Variant(name, None if compile is None else MappingProxyType(compile), **fields)


def _pygraph(name: str, mode: str | None = None, **options: Any) -> Variant:
    given = {"options": options or None, "mode": mode}
    return _variant(
        name,
        {key: value for key, value in given.items() if value is not None},
        backend="pygraph_rt:pygraph",
        needs="pygraph_rt",
        warm_calls=8,
        settled="benchmarks.workloads.decisions:made",
    )


VARIANTS: tuple[Variant, ...] = (
    _variant("eager", None),
    _variant("default", {}),
    _variant("reduce-overhead", {"mode": "reduce-overhead"}, marks_steps=True),
    _pygraph("pygraph"),
    _pygraph("pygraph-always", graphs="always"),
    _pygraph("pygraph-unplaced", placement=False),
    _pygraph("pygraph-max-autotune", mode="max-autotune"),
    _variant("max-autotune", {"mode": "max-autotune"}, marks_steps=True),
    _variant("aot_eager", {"backend": "aot_eager"}, warm_calls=2),
)
MEASURED = ("eager", "default", "reduce-overhead", "pygraph")
STOCK = ("eager", "default", "reduce-overhead")


def named(name: str) -> Variant:
    """The variant of that name. Raises ``KeyError`` with the names there are."""
    for variant in VARIANTS:
        if variant.name == name:
            return variant
    known = ", ".join(variant.name for variant in VARIANTS)
    raise KeyError(f"no variant is called {name!r}; there are: {known}")


def reason_missing(variant: Variant) -> str | None:
    """Why the variant can't run on this machine, or None."""
    if variant.needs is None:
        return None
    found = importlib.util.find_spec(variant.needs)
    if found is None or found.origin is None:
        return f"the package {variant.needs} is not installed"
    return None


def compiled(module: nn.Module, variant: Variant, dynamic: bool | None) -> Any:
    """The module as the variant runs it: a callable with the module's signature."""
    if variant.compile is None:
        return module
    arguments = dict(variant.compile)
    if variant.backend is not None:
        arguments["backend"] = named_object(variant.backend)
    return torch.compile(module, dynamic=dynamic, **arguments)


def named_object(place: str) -> Any:
    """What ``package:attribute`` names."""
    package, _, attribute = place.partition(":")
    return getattr(importlib.import_module(package), attribute)
