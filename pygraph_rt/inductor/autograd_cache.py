"""AOTAutograd's cache under the backend.

A hit in it skips Inductor, and with it the function that wraps a graph's partitions. torch 2.12 and
later ask a `CUDAGraphPolicy` about every compiled graph, also about one that comes out of the
cache: there the partitions are wrapped. What has to be known for it was found in the FX graph,
which a hit never makes; so it is kept with the compiled graph, as an argument of its compilation.
Caches of torch hold that argument, hash it, and pass it on in artifacts; a process without this
package can read them all.

The cache's key knows neither the backend, nor its options, nor its version: `cache_key_tag` adds
them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

ARGUMENT = "pygraph"
"""The argument of a graph's compilation that holds what is known of it."""

_compiling: ContextVar[bool] = ContextVar("compiling", default=False)


def why_not_ours() -> str | None:
    """Why a graph that is compiled now is left to the program's own policy, a clause, if it is."""
    if getattr(_inductor_config(), "cudagraph_policy", None) is None:
        return None
    return "torch._inductor.config.cudagraph_policy is set, which decides about CUDA graphs"


def supported() -> bool:
    """Whether this torch (2.12 and later) has what a hit needs; otherwise the cache is off."""
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
def cached(restore: Callable[[Any, str], None], options: str) -> Iterator[dict[str, Any]]:
    """While Inductor is called: its settings, with which the cache is used if it can be.

    `restore` is given each compiled graph that comes out of the cache, and what is known of it; it
    may raise ValueError, and the graph is compiled again. `options`: what compiled code depends on,
    beside what torch knows.
    """
    import torch._functorch.config
    import torch.compiler.config

    if not supported():
        with torch._functorch.config.patch(enable_autograd_cache=False):
            yield {}
        return
    config: Any = torch.compiler.config
    tag = f"{config.cache_key_tag}|pygraph {_code()} {options}"
    with config.patch(cache_key_tag=tag):
        yield {"cudagraph_policy": _policy()(restore)}


@cache
def _code() -> str:
    """A hash of the code that changes a graph before it is compiled, and of what is kept of it."""
    package = Path(__file__).parents[1]
    files = sorted((*package.glob("host_values/*.py"), *package.glob("inductor/*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@cache
def _policy() -> Any:
    """The class of a policy; it exists in torch 2.12 and later."""
    from torch._functorch._aot_autograd.autograd_cache import FXGraphCacheMiss
    from torch._inductor.cudagraph_utils import CUDAGraphPolicy
    from torch._inductor.output_code import CompiledFxGraph

    class Policy(CUDAGraphPolicy):
        """Leaves Inductor's own CUDA graphs out, and restores what comes out of a cache."""

        def __init__(self, restore: Callable[[Any, str], None]) -> None:
            self._restore = restore

        def should_wrap(self, compiled_graph: Any) -> bool:
            return False

        def wrap_output(self, output_code: Any) -> Any:
            if isinstance(output_code, CompiledFxGraph) and not _compiling.get():
                known = (output_code.fx_kwargs or {}).get(ARGUMENT)
                try:
                    self._restore(output_code, known if isinstance(known, str) else "")
                except ValueError as error:
                    raise FXGraphCacheMiss(f"pygraph cannot use a cached graph: {error}") from error
            return output_code

    return Policy
