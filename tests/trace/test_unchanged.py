"""A trace changes nothing of what is compiled: graphs, bytecode, guards and results are equal."""

from __future__ import annotations

import ctypes
import dis
import importlib.util
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
import torch
from torch._dynamo import convert_frame

from pygraph_rt.trace.session import Trace

PROGRAMS = Path(__file__).parent / "programs"
NAMES = (
    *("both_sides", "item_changes", "inlined_break", "limit", "mode", "retried"),
    *("mask", "training", "disabled", "two_functions"),
)
UNIQUE = re.compile(r"\b__\w+_\d+\b|__compiled_fn_\d+_\w+|0x[0-9a-f]+|\b\d{9,}\b")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"unchanged_{name}", PROGRAMS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(code: CodeType) -> Any:
    """Instructions with what they name, without what is unique to one compilation."""
    inner = [shown(c) for c in code.co_consts if isinstance(c, CodeType)]
    instructions = [
        (i.opname, UNIQUE.sub("*", "code" if isinstance(i.argval, CodeType) else repr(i.argval)))
        for i in dis.get_instructions(code)
    ]
    return code.co_name, instructions, inner


def everything_compiled(
    run: Callable[[], Any], around: AbstractContextManager[Any]
) -> dict[str, list[Any]]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    found: dict[str, list[Any]] = {"graphs": [], "bytecode": [], "guards": [], "outputs": []}
    original_compile = torch.compile

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        found["graphs"].append(graph.print_readable(print_output=False))

        def call(*args: Any) -> Any:
            outputs = graph.forward(*args)
            found["outputs"].append([o.tolist() for o in outputs if isinstance(o, torch.Tensor)])
            return outputs

        return call

    def compile_with(*args: Any, **named: Any) -> Any:
        return original_compile(*args, **{**named, "backend": backend})

    def bytecode(old: CodeType, new: CodeType) -> None:
        found["bytecode"].append(shown(new))

    def guards(new: Any) -> None:
        found["guards"].append(UNIQUE.sub("*", str(sorted(g.create_fn_name() for g in new))))

    handle = convert_frame.register_bytecode_hook(bytecode)
    original_wrap = convert_frame.GuardedCode

    def guarded(code: CodeType, manager: Any, *args: Any, **named: Any) -> Any:
        found["guards"].append(UNIQUE.sub("*", str(manager)))
        return original_wrap(code, manager, *args, **named)

    convert_frame.GuardedCode = guarded  # type: ignore[misc,assignment]
    torch.compile = compile_with
    try:
        with around:
            run()
    finally:
        torch.compile = original_compile
        convert_frame.GuardedCode = original_wrap  # type: ignore[misc]
        handle.remove()
        torch._dynamo.reset()
    return found


def lines(row: Any) -> list[str]:
    """Without comments, which name files and lines; guards of one node may come in any order."""
    return [re.sub(r" #.*", "", line) for line in str(row).splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_graphs_bytecode_and_guards_are_equal(name: str) -> None:
    module = loaded(name)
    everything_compiled(module.main, nullcontext())  # what only the first run does
    plain = everything_compiled(module.main, nullcontext())
    traced = everything_compiled(module.main, Trace())
    assert plain["graphs"]
    assert plain["guards"]
    for what in ("graphs", "bytecode", "guards", "outputs"):
        cleaned = [[lines(row) for row in run[what]] for run in (plain, traced)]
        assert cleaned[0] == cleaned[1], what


def test_torch_is_as_it_was_after_a_trace() -> None:
    def names() -> dict[str, Any]:
        found = {f"Tensor.{k}": v for k, v in vars(torch.Tensor).items()}
        found |= {k: v for k, v in vars(torch).items() if callable(v)}
        found |= {f"convert_frame.{k}": v for k, v in vars(convert_frame).items()}
        return found

    before = names()
    with Trace():
        assert names() != before
    after = names()
    assert before.keys() == after.keys()
    assert [k for k in before if before[k] is not after[k]] == []


PROTOCOLS = ("PySequence_Check", "PyMapping_Check", "PyNumber_Check", "PyIndex_Check")


def protocols(kind: type[torch.Tensor]) -> list[int]:
    """What a tensor is for code in C: some functions ask, and act differently."""
    value = torch.ones(()).as_subclass(kind)
    return [getattr(ctypes.pythonapi, name)(ctypes.py_object(value)) for name in PROTOCOLS]


def test_a_tensor_stays_what_it_is_for_c() -> None:
    before = protocols(torch.Tensor)
    with Trace():
        made = type("Made", (torch.Tensor,), {})
        during = [protocols(kind) for kind in (torch.Tensor, torch.nn.Parameter, made)]
        torch.tensor([torch.ones(()), torch.ones(())])
    assert during == [before] * 3
    assert [protocols(kind) for kind in (torch.Tensor, torch.nn.Parameter, made)] == during


def test_a_mask_as_an_index_gives_the_same() -> None:
    x = torch.arange(6.0, requires_grad=True)

    def run() -> list[torch.Tensor]:
        kept = x[x > 2]
        (gradient,) = torch.autograd.grad(kept.sum(), x)
        with torch.inference_mode():
            return [kept, gradient, torch.nonzero(x), *torch.where(x > 2)]

    plain = run()
    with Trace():
        traced = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, traced, strict=True))


def test_the_comparison_tells_programs_apart() -> None:
    one, other = (everything_compiled(loaded(n).main, nullcontext()) for n in ("mask", "branch"))
    assert lines(one["bytecode"][-1]) != lines(other["bytecode"][-1])
