"""What the queries say of torch's functions is what torch does, whatever tensor it is handed."""

from __future__ import annotations

import ast
import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.queries.interface import Known, Type

TENSORS = [
    torch.tensor([[2, 1], [1, 3]]),
    torch.tensor([[2.0, 1.0], [1.0, 3.0]]),
    torch.tensor([[True, False], [True, True]]),
    torch.tensor([[2, 1], [1, 3]], dtype=torch.uint8),
    torch.ones(2, 2, dtype=torch.complex64),
    torch.ones(()),
    torch.ones(1, 2, 3),
]
# Functions that set something, ask for much memory, or are of torch's own tools.
_LEFT_OUT = ("set_", "manual_seed", "seed", "init_", "compile", "sys", "typename", "_reader")
_KINDS: list[tuple[type | tuple[type, ...], Type]] = [
    ((bool, int, float, complex), Type.NUMBER),
    ((tuple, list), Type.SEQUENCE),
    (str, Type.TEXT),
    (torch.dtype, Type.DTYPE),
    (torch.device, Type.DEVICE),
    (type(None), Type.NONE),
]


def _functions(holder: Any) -> Iterator[str]:
    for name in dir(holder):
        wanted = not name.startswith("_") and not any(part in name for part in _LEFT_OUT)
        if (
            wanted
            and callable(getattr(holder, name))
            and not isinstance(getattr(holder, name), type)
        ):
            yield name


def _expressions() -> list[str]:
    found = [f"torch.{name}({given})" for name in _functions(torch) for given in ("x", "x, 0")]
    found += [f"torch.{name}(x, x)" for name in _functions(torch)]
    found += [f"F.{name}(x)" for name in _functions(F)]
    for given in ("", "0", "x"):
        found += [f"x.{name}({given})" for name in _functions(torch.Tensor)]
    found += [f"x {op} {other}" for op in "+-*/%@" for other in ("x", "2", "2.5")]
    found += [f"x {op} {other}" for op in ("//", "**", "&", "<", "==") for other in ("x", "2")]
    return [*found, "+x", "-x", "~x", "x[0]", "x[None]", "x[x > 0]", "x.T", "x.grad", "2 / x"]


def _kind(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "bool"
    return "complex" if dtype.is_complex else "float" if dtype.is_floating_point else "int"


def _wrong(said: Known, result: Any) -> str:
    """What is wrong about what was said of a result."""
    if isinstance(result, torch.Tensor):
        if not said.may_be(Type.TENSOR):
            return "a tensor"
        if said.dtype not in ("", _kind(result.dtype)):
            return _kind(result.dtype)
        return "" if said.rank in (None, result.dim()) else f"rank {result.dim()}"
    kind = next((kind for cls, kind in _KINDS if isinstance(result, cls)), None)
    return "" if kind is None or said.may_be(kind) else type(result).__name__


@pytest.mark.filterwarnings("ignore")
def test_what_is_said_of_torch_is_so() -> None:
    expressions = _expressions()
    lines = [f"        v{number} = {text}" for number, text in enumerate(expressions)]
    head = "import torch\nimport torch.nn.functional as F\n\n\nclass M(torch.nn.Module):\n"
    tree = ast.parse(head + "    def forward(self, x: torch.Tensor):\n" + "\n".join(lines))
    queries = FileQueries(tree)
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    assert len(values) == len(expressions)
    problems = []
    for value in values:
        said = queries.known(value)
        if said.types == Type.ANYTHING and not said.dtype:
            continue
        code = compile(ast.Expression(value), "", "eval")
        for x in TENSORS:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = eval(code, {"torch": torch, "F": F, "x": x.clone()})
                except Exception:
                    continue
            if wrong := _wrong(said, result):
                problems.append((ast.unparse(value), said.types, said.dtype, wrong))
    assert problems == []
