"""What compilation knows of a partition: its place in reports, its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pygraph_rt.plan.outputs import Scalar
from pygraph_rt.reports.report import Region


@dataclass(frozen=True)
class Signature:
    """Sets hold positions among a partition's arguments.

    device: index of its GPU. dynamic: shapes may differ between calls. forward: whether a backward
    belongs to it. gradients: whether its results are gradients that may share memory. written: may
    be written to. donated: so may these (they are among `written`), and nobody reads them after the
    call. released: nobody else is known to hold these, so that they may be freed in the call.
    numbers: may be CPU scalars, with the seed or offset that a forward drew with. unread: those of
    `numbers` that nothing reads, wherever they are. scalars: the same for results, by position.
    saved: results that only a backward sees.
    """

    device: int
    dynamic: bool = False
    forward: bool = False
    gradients: bool = False
    written: frozenset[int] = frozenset()
    donated: frozenset[int] = frozenset()
    released: frozenset[int] = frozenset()
    numbers: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    scalars: Mapping[int, Scalar] = field(default_factory=dict)
    saved: frozenset[int] = frozenset()


class PartitionInfo(NamedTuple):
    """A partition whose code has been compiled: its place in reports, and what is known of it."""

    region: Region
    signature: Signature
