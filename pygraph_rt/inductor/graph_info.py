"""What is known of a whole graph, and its text, which is kept with the compiled graph in caches."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from pygraph_rt.host_values.crossings import Note
from pygraph_rt.host_values.placement import Placement
from pygraph_rt.inductor.cuts import Cut
from pygraph_rt.plan.outputs import Scalar

_SETS = ("donated", "seeds", "unread", "saved", "dynamic")


class GraphInfo(NamedTuple):
    """Sets hold positions among a graph's inputs, `scalars` and `saved` among its outputs.

    name, source: for the report. placement: what was done about CPU values. cuts: operations that
    split it. donated: may be written to although they are no mutation (a backward reuses saved
    activations). seeds: seeds and offsets of attention. unread: those that nothing reads, because
    that attention drops nothing. scalars: outputs that are one. forward: whether a backward belongs
    to it. backward: whether it is one. parts: whether tensors in it are parts of tensor subclasses,
    which may look where in its memory a part begins. saved: outputs that only a backward sees.
    nested: an operator in a nested region that has to run on each call. inputs: how many there are.
    dynamic: those with sizes that may differ between calls.
    """

    name: str
    source: str
    placement: Placement = Placement()
    cuts: tuple[Cut, ...] = ()
    donated: frozenset[int] = frozenset()
    seeds: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()
    scalars: Mapping[int, Scalar] = MappingProxyType({})
    forward: bool = False
    backward: bool = False
    parts: bool = False
    saved: frozenset[int] = frozenset()
    nested: str = ""
    inputs: int = 0
    dynamic: frozenset[int] = frozenset()

    @property
    def title(self) -> str:
        """The name, and which part of a training graph it is."""
        part = " forward" if self.forward else " backward" if self.backward else ""
        return f"{self.name}{part}"


def to_text(info: GraphInfo) -> str:
    """All of it but the name and the source, which are those of the graph that is compiled now."""
    known = info._asdict()
    known |= {each: sorted(known[each]) for each in _SETS}
    known["scalars"] = sorted(info.scalars.items())
    known["placement"], known["cuts"] = asdict(info.placement), [astuple(c) for c in info.cuts]
    del known["name"], known["source"]
    return json.dumps(known, sort_keys=True)


def from_text(text: str, name: str, source: str) -> GraphInfo:
    """What `to_text` was given, under this name and source.

    Raises ValueError for a text that it has not written.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        placement = found["placement"]
        placement["notes"] = tuple(Note(**note) for note in placement["notes"])
        found["placement"] = Placement(**placement)
        found["cuts"] = tuple(Cut(*cut) for cut in found["cuts"])
        found["scalars"] = {int(i): role for i, role in found["scalars"]}
        found |= {each: frozenset(found[each]) for each in _SETS}
        names = ("forward", "backward", "parts", "nested", "inputs")
        if [type(found[each]) for each in names] != [bool, bool, bool, str, int]:
            raise TypeError("a value of another type")
        return GraphInfo(name, source, **found)
    except (AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not the text of a graph: {error}") from None


def with_lines_of(info: GraphInfo, lines: Collection[str]) -> GraphInfo:
    """It without the lines (`file:line`) that are not among these: compiled code that comes out of
    a cache may be that of equal code in another file, or of an earlier version of this one.
    """
    notes = tuple(
        note if note.source.rpartition(" at ")[2] in lines else replace(note, source="")
        for note in info.placement.notes
    )
    cuts = tuple(cut if cut.source in lines else replace(cut, source="") for cut in info.cuts)
    return info._replace(placement=replace(info.placement, notes=notes), cuts=cuts)
