"""Operators of torch for which a program has registered code of its own."""

from __future__ import annotations

import torch


def is_replaced(function: torch._ops.OpOverload, device: str) -> bool:
    """Whether code in Python was registered for an operator on a device ("CPU", "CUDA")."""
    overload = function._overloadname
    name = function._opname + ("" if overload == "default" else f".{overload}")
    return f"{function.namespace}/{name}/{device}" in torch.library._impls
