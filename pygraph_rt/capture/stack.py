"""Keep what lies on the stack out of captured parameters.

A library fills a structure of parameters on its stack, and does not write the padding in it, nor
places that it does not use. A kernel node holds these bytes, too: what earlier calls left there,
often pointers. Half a pointer beside a small number looks like an address, and may be one of memory
in use. So the unused part of the stack is filled before every operator: bytes that nobody wrote
then hold a number that is no address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

# A word whose upper bytes are this one lies outside of every address space.
BYTE = 0xA5


class _FilledStack(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self, fill: Callable[[int], object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fill = fill

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self._fill(BYTE)
        return function(*args, **(kwargs or {}))


def filled_stack(
    fill: Callable[[int], object] | None,
) -> contextlib.AbstractContextManager[object]:
    """Within it, operators of this thread are called on a filled stack. `fill(byte)` is the
    compiled helper; without one nothing is filled, and more graphs are refused.
    """
    return contextlib.nullcontext() if fill is None else _FilledStack(fill)
