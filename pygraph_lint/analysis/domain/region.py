"""Why a line is believed to be compiled, captured, or run on every step of a training loop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RegionKind(Enum):
    """What happens to a region's code."""

    MODEL = "model"  # forward of an nn.Module: may be compiled
    COMPILED = "compiled"  # provably given to torch.compile
    CAPTURED = "captured"  # captured by hand: nothing is traced
    HOST_LOOP = "host loop"  # run by Python on every turn of a training loop


@dataclass(frozen=True, slots=True)
class Region:
    """Why a line is believed to run in a region.

    ``function`` is the qualified name; ``call_path`` the steps that lead there, outermost first,
    each a sentence fragment such as ``Model.forward (forward of an nn.Module)`` or
    ``calls Model._pool, line 3``.
    """

    function: str
    call_path: tuple[str, ...]
    kind: RegionKind = RegionKind.MODEL

    @property
    def certain(self) -> bool:
        """Whether the call path starts at something provably compiled or captured."""
        return self.kind in (RegionKind.COMPILED, RegionKind.CAPTURED)

    @property
    def captured(self) -> bool:
        """Whether a graph is captured by hand there, without tracing."""
        return self.kind is RegionKind.CAPTURED
