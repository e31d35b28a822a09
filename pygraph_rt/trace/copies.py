"""Whether an expression reads the copy that it has just made: `x.cpu().item()`.

On a machine without a GPU that copy is the tensor itself, so only the code tells the two apart.
"""

from __future__ import annotations

import dis
from types import CodeType

_LOADS = ("LOAD_ATTR", "LOAD_METHOD")
_CALLS = ("CALL", "CALL_METHOD", "CALL_FUNCTION")
_BETWEEN = ("PRECALL", "PUSH_NULL", "NOP", "EXTENDED_ARG", "COPY_FREE_VARS")


def reads_its_copy(code: CodeType, offset: int, method: str) -> bool:
    """Whether the instruction at `offset` calls `method` of the result of `.cpu()` or
    `.to("cpu")`, or turns that result into a number or a truth value.
    """
    before = [
        instruction
        for instruction in dis.get_instructions(code)
        if instruction.offset <= offset and instruction.opname not in _BETWEEN
    ][:-1]
    if before and before[-1].opname in _LOADS and before[-1].argval == method:
        before.pop()
    if not before or before[-1].opname not in _CALLS:
        return False
    made = before.pop().offset
    if any(
        made < one.offset <= offset and one.is_jump_target for one in dis.get_instructions(code)
    ):
        return False  # another arm may have given what is read
    name = "cpu"
    if before and before[-1].opname == "LOAD_CONST" and before[-1].argval == "cpu":
        name = "to"
        before.pop()
    return bool(before) and before[-1].opname in _LOADS and before[-1].argval == name
