"""What the compiler did: graphs, breaks, partitions, CUDA graphs recorded or skipped, and inputs
copied.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo import utils as dynamo_utils
from torch._inductor import compile_fx, cudagraph_trees, output_code

_SKIP_FUNCTION = "log_cudagraph_skip_and_bump_counter"


@dataclasses.dataclass
class CompilerRecord:
    """Events seen while :func:`recording` was active."""

    skips: Counter[str] = dataclasses.field(default_factory=Counter)
    graphs_recorded: int = 0
    copied_bytes: int = 0

    def summary(self) -> dict[str, Any]:
        """Counts and reasons, ready for JSON. ``partitions`` is None where this torch does not
        count them.
        """
        counters = dynamo_utils.counters
        return {
            "graphs": counters["stats"].get("unique_graphs", 0),
            "graph_breaks": sum(counters["graph_break"].values()),
            "graph_break_reasons": _shortened(counters["graph_break"]),
            "cudagraph_partitions": counters["inductor"].get("cudagraph_partitions"),
            "cudagraph_skips": max(
                sum(self.skips.values()), counters["inductor"].get("cudagraph_skips", 0)
            ),
            "cudagraph_skip_reasons": _shortened(self.skips),
            "cudagraphs_recorded": self.graphs_recorded,
        }


def _shortened(reasons: Counter[str], limit: int = 6) -> dict[str, int]:
    """The most frequent reasons, first lines only, without file paths."""
    merged: Counter[str] = Counter()
    for reason, count in reasons.items():
        first = reason.strip().splitlines()[0] if reason.strip() else "unnamed"
        merged[re.sub(r"(/[\w.\-]+)+/", "", first)[:160]] += count
    return dict(merged.most_common(limit))


@contextlib.contextmanager
def recording() -> Iterator[CompilerRecord]:
    """Records compiler events until the block ends. Dynamo's counters are cleared at its start."""
    record = CompilerRecord()
    dynamo_utils.counters.clear()
    with contextlib.ExitStack() as undo:
        _watch_skips(record, undo)
        _watch_graphs(record, undo)
        _watch_copies(record, undo)
        yield record


def _replace(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    original = getattr(owner, name)
    setattr(owner, name, value)
    undo.callback(setattr, owner, name, original)


def _watch_skips(record: CompilerRecord, undo: contextlib.ExitStack) -> None:
    """Inductor's modules import the function that reports a skip by name, so each of them is
    patched.
    """
    for module in (compile_fx, cudagraph_trees, output_code):
        if not hasattr(module, _SKIP_FUNCTION):
            continue
        original = getattr(module, _SKIP_FUNCTION)

        def report(message: str, original: Any = original) -> Any:
            record.skips[message] += 1
            return original(message)

        _replace(undo, module, _SKIP_FUNCTION, report)


def _watch_graphs(record: CompilerRecord, undo: contextlib.ExitStack) -> None:
    original = cudagraph_trees.CUDAGraphNode.__init__

    def initialise(node: Any, *args: Any, **kwargs: Any) -> None:
        original(node, *args, **kwargs)
        record.graphs_recorded += 1

    _replace(undo, cudagraph_trees.CUDAGraphNode, "__init__", initialise)


def _watch_copies(record: CompilerRecord, undo: contextlib.ExitStack) -> None:
    """CUDA graph trees copy inputs with ``torch._foreach_copy_``; other users of it are not
    expected here.
    """
    original = torch._foreach_copy_

    def copy(targets: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        record.copied_bytes += sum(source.nbytes for source in sources)
        return original(targets, sources, *args, **kwargs)

    _replace(undo, torch, "_foreach_copy_", copy)
