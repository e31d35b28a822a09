"""AOTAutograd's cache under the backend.

A hit in it skips Inductor, and with it the function that wraps a graph's partitions. torch 2.12 and
later ask a `CUDAGraphPolicy` about every compiled graph, also about one that comes out of the
cache: there the partitions are wrapped. torch 2.11 has no policy; each graph that comes out of the
cache goes through `CompiledFxGraph.post_compile`, which is wrapped there. What has to be known for
it was found in the FX graph, which a hit never makes; so it is kept with the compiled graph, as an
argument of its compilation. Caches of torch hold that argument, hash it, and pass it on in
artifacts; a process without this package can read them all.

The cache's key knows neither the backend, nor its options, nor its version, and that of torch 2.11
not the dtypes that code is compiled for by default or under autocast. They are added as an
entry of `unsafe_marked_cacheable_functions`, which is part of the key. `cache_key_tag` would not
do: it is also part of the key under which a Triton kernel's tuned configuration is kept, which is
looked up here and saved elsewhere, so each process would tune all kernels again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch

ARGUMENT = "pygraph"
"""The argument of a graph's compilation that holds what is known of it."""

_KEYS = "unsafe_marked_cacheable_functions"

Restore = Callable[[Any, str], None]

_compiling: ContextVar[bool] = ContextVar("compiling", default=False)
_restoring: ContextVar[Restore | None] = ContextVar("restoring", default=None)


def why_not_ours() -> str | None:
    """Why a graph that is compiled now is left to the program's own policy, a clause, if it is."""
    if getattr(_inductor_config(), "cudagraph_policy", None) is None:
        return None
    return "torch._inductor.config.cudagraph_policy is set, which decides about CUDA graphs"


def has_policies() -> bool:
    """Whether this torch (2.12 and later) asks a policy about each compiled graph."""
    return hasattr(_inductor_config(), "cudagraph_policy")


def _inductor_config() -> Any:
    from torch._inductor import config

    return config


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """While a graph is compiled, or read from Inductor's own cache: no hit is being restored."""
    token = _compiling.set(True)
    try:
        yield
    finally:
        _compiling.reset(token)


@contextlib.contextmanager
def cached(restore: Restore, options: str) -> Iterator[dict[str, Any]]:
    """While Inductor is called: its settings, with which the cache is used.

    `restore` is given each compiled graph that comes out of the cache, and what is known of it; it
    may raise ValueError, and the graph is compiled again. `options`: what compiled code depends on,
    beside what torch knows.
    """
    known = getattr(_inductor_config(), _KEYS)
    entry = f"{_code()} {_dtypes()} {options}"
    settings: dict[str, Any] = {_KEYS: {**known, ARGUMENT: entry}}
    if has_policies():
        yield {**settings, "cudagraph_policy": _policy()(restore)}
        return
    watch_loaded_graphs()
    token = _restoring.set(restore)
    try:
        yield settings
    finally:
        _restoring.reset(token)


def _dtypes() -> str:
    """What torch 2.11 leaves out of the key: the default dtype, and those of autocast, which an
    autocast inside of the graph may take over where none is on outside (torch 2.13, too).
    """
    casts = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in ("cuda", "cpu")
    ]
    return f"{torch.get_default_dtype()} {casts}"


@cache
def _code() -> str:
    """A hash of the code that changes a graph before it is compiled, and of what is kept of it."""
    package = Path(__file__).parents[1]
    # An installation may have no sources, but files of compiled ones (*.pyc) in their places.
    files = sorted((*package.glob("host_values/*.py*"), *package.glob("inductor/*.py*")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _loaded(graph: Any, restore: Restore) -> None:
    """Restore a compiled graph that came out of the cache."""
    from torch._functorch._aot_autograd.autograd_cache import FXGraphCacheMiss

    known = (graph.fx_kwargs or {}).get(ARGUMENT)
    try:
        restore(graph, known if isinstance(known, str) else "")
    except ValueError as error:
        raise FXGraphCacheMiss(f"pygraph cannot use a cached graph: {error}") from error


@cache
def _policy() -> Any:
    """The class of a policy; it exists in torch 2.12 and later."""
    from torch._inductor.cudagraph_utils import CUDAGraphPolicy
    from torch._inductor.output_code import CompiledFxGraph

    class Policy(CUDAGraphPolicy):
        """Leaves Inductor's own CUDA graphs out, and restores what comes out of a cache."""

        def __init__(self, restore: Restore) -> None:
            self._restore = restore

        def should_wrap(self, compiled_graph: Any) -> bool:
            return False

        def wrap_output(self, output_code: Any) -> Any:
            if isinstance(output_code, CompiledFxGraph) and not _compiling.get():
                _loaded(output_code, self._restore)
            return output_code

    return Policy


@cache
def watch_loaded_graphs() -> None:
    """Have torch 2.11 leave its own CUDA graphs out of what this backend loads, and restore it."""
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.utils import BoxedBool

    original = CompiledFxGraph.post_compile

    @functools.wraps(original)
    def post_compile(self: Any, inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        restore = None if _compiling.get() else _restoring.get()
        if restore is not None:
            graph_kwargs = {**graph_kwargs, "cudagraphs": BoxedBool(False)}
        original(self, inputs, constants, graph_kwargs)
        if restore is not None:
            _loaded(self, restore)

    CompiledFxGraph.post_compile = post_compile  # type: ignore[method-assign,assignment]
