"""The backend's own options, checked where they are given."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pygraph_rt.errors import OptionError

_GRAPHS = ("auto", "always", "require", "never")


@dataclass(frozen=True)
class Options:
    """What `options={...}` may say; every other name there must be an Inductor option.

    graphs: "auto" alternates with and without graphs on live calls and keeps what is faster;
    "always" serves every region that can be proven right, as soon as possible; "require" does the
    same, and raises GraphRequired at a call that is refused; "never" compiles in the same way, and
    runs without graphs. remember: keep what "auto" chose on disk, and choose the same at once in
    later processes. observe: how many calls without graph a region makes before it is captured (at
    least 1; they warm up kernels and show which memory becomes an output). verify:
    compare a graph's first call with compiled code, bit for bit, on poisoned memory. variants:
    how many graphs a region may hold, one for each set of integers, alignments and global switches.
    graph_memory: the share of a GPU's memory that the driver may need for all graphs of the
    process. placement: take CPU scalars and small CPU tensors to the GPU before a graph needs them.
    """

    graphs: str = "auto"
    observe: int = 1
    verify: bool = True
    variants: int = 8
    graph_memory: float = 0.015625
    remember: bool = True
    placement: bool = True

    @property
    def required(self) -> bool:
        """Whether a call that is refused raises."""
        return self.graphs == "require"

    def __post_init__(self) -> None:
        if self.graphs not in _GRAPHS:
            raise OptionError(
                f"option graphs={self.graphs!r} is unknown; use one of {', '.join(_GRAPHS)}"
            )
        for name in ("observe", "variants"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"option {name}={value!r} must be a whole number of 1 or more")
        share = self.graph_memory
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 < share <= 1:
            raise OptionError(f"option graph_memory={share!r} must be above 0 and at most 1")
        for name in ("verify", "remember", "placement"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise OptionError(f"option {name}={value!r} must be True or False")


def split_options(
    options: Mapping[str, Any] | None, inductor_names: frozenset[str]
) -> tuple[Options, dict[str, Any]]:
    """The backend's options, and what is left for Inductor.

    Raises OptionError for a name that neither knows.
    """
    own = {f.name for f in fields(Options)}
    given = dict(options or {})
    mine = {name: given.pop(name) for name in list(given) if name in own}
    for name in given:
        if name.replace("-", "_") not in inductor_names:
            near = difflib.get_close_matches(name, sorted(own | inductor_names), n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"pygraph's are {', '.join(sorted(own))}"
            )
            raise OptionError(
                f"option {name!r} is neither an option of pygraph nor of Inductor; {hint}"
            )
    return Options(**mine), {name.replace("-", "_"): value for name, value in given.items()}
