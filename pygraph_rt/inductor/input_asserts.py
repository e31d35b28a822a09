"""Asserts in generated code that inputs are laid out as it was compiled for.

Where no guard of Dynamo's looks (what was saved for a backward, weights whose `data` is assigned),
these are all that keeps compiled code from reading behind a tensor's end. torch 2.13 and later
write each before the first kernel that reads the input, but look for a partition's inputs after its
kernels are written, so that a partition has none (seen in 2.13 to 2.15).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any

_wanted: ContextVar[bool] = ContextVar("asserts in partitions", default=False)


@contextlib.contextmanager
def in_partitions() -> Iterator[None]:
    """While a graph is compiled: its partitions assert the layout of their inputs."""
    _install()
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


@cache
def _install() -> None:
    """Have partitions that are compiled under `in_partitions` write what is left to be asserted."""
    from torch._inductor.codegen.wrapper import SubgraphPythonWrapperCodegen

    kind: Any = SubgraphPythonWrapperCodegen
    if not hasattr(kind, "codegen_deferred_input_asserts"):  # torch 2.11 and 2.12 write all at once
        return
    collect = kind.codegen_input_size_asserts

    @wraps(collect)
    def collect_and_write(code: Any) -> None:
        collect(code)
        if not _wanted.get() or code.partition_signatures is None:
            return
        left = code._pending_input_asserts
        for name, (size, stride) in left.items():
            code.prefix.writeline(f"assert_size_stride({name}, {size}, {stride})")
        left.clear()

    kind.codegen_input_size_asserts = collect_and_write
