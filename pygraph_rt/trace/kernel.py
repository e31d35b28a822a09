"""Sees the calls of one operator's kernel, whoever makes them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import torch

from pygraph_rt.trace.torch_hooks import keep_out, missing


class WatchedKernel:
    """Calls `watch` before each call of an operator's kernel, until `remove`.

    A function of Python takes the kernel's place in torch's table of operators, and calls it.
    works: False where torch lacks `torch.library.get_kernel`, or somebody else has replaced it.
    """

    def __init__(self, operator: str, dispatch_key: str, watch: Callable[[], None]) -> None:
        self.works = False
        self._library: Any = None
        if "kernels" in missing():
            return
        kernel = torch.library.get_kernel(f"aten::{operator}", dispatch_key)

        def call(keys: Any, *args: Any) -> Any:
            watch()
            return kernel.call_boxed(keys, *args)

        keep_out(call, callees=True)
        make: Any = torch.library.Library
        library = make("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced
            with contextlib.suppress(RuntimeError):
                library.impl(operator, call, dispatch_key, with_keyset=True)
                self._library, self.works = library, True

    def remove(self) -> None:
        """Put the kernel back."""
        if self._library is not None:
            self._library._destroy()
            self._library = None
