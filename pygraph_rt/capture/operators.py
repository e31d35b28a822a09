"""Watch the operators that a capture calls: fill the stack for them, and note foreign ones.

A library fills a structure of parameters on its stack, and does not write the padding in it, nor
places that it does not use. A kernel node holds these bytes, too: what earlier calls left there,
often pointers. Half a pointer beside a small number looks like an address, and may be one of memory
in use. Two things tell it from an address. The unused part of the stack is filled before every
operator: bytes that nobody wrote then hold a number that is no address. And where all operators are
torch's own, none keeps memory that it was not given, so nothing points to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pygraph_rt.replaced_operators import is_replaced

# A word whose upper bytes are this one lies outside of every address space.
BYTE = 0xA5
_TORCH = ("aten", "prims", "inductor")
# The state of dropout in recurrent layers.
_KEEP_MEMORY = ("_cudnn_rnn", "_cudnn_init_dropout_state")


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it, operators of this thread are called on a filled stack.

    `fill(byte)` is the compiled helper; without one nothing is filled. may_keep_memory: whether an
    operator was called that may use memory of its own from call to call.
    """

    supports_higher_order_operators = True

    def __init__(self, fill: Callable[[int], object] | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fill = fill
        self.may_keep_memory = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.may_keep_memory = self.may_keep_memory or not _keeps_nothing(function, args)
        if self._fill is not None:
            self._fill(BYTE)
        return function(*args, **(kwargs or {}))


def _keeps_nothing(function: Any, args: Any) -> bool:
    """Whether an operator, or the one that a higher-order one is given to run, is torch's own and
    uses no memory but its arguments, results, and what it allocates meanwhile.
    """
    if isinstance(function, torch._ops.OpOverload):
        known = function.namespace in _TORCH and not function._opname.startswith(_KEEP_MEMORY)
        return known and not is_replaced(function, "CUDA")
    inner = [a for a in args if isinstance(a, torch._ops.OpOverload)]
    return bool(inner) and all(_keeps_nothing(operator, ()) for operator in inner)
