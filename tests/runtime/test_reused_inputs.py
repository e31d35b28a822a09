"""Which saved activations a backward's code may write to, in code that Inductor generates."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code

from pygraph_rt.capture import generated
from pygraph_rt.inductor.reused_inputs import overwritten

HAND_WRITTEN = """
def partition_0(args):
    a, b, c, d, e = args
    args.clear()
    buf0 = b; del b  # reuse
    kernel(a, buf0)
    buf1 = reinterpret_tensor(c, (4, 4), (4, 1), 0); del c  # reuse
    buf2 = torch.ops.aten.relu.default(d)
    del d
    return (buf1, buf2, e)
"""


class Products(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(64, 64))
        self.second = torch.nn.Parameter(torch.randn(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(torch.sin(x @ self.first) @ self.second) * 2).sum()


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.heads(self.norm(x)).view(2, 8, 3, 4, 4).permute(2, 0, 3, 1, 4)
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found = self.out(found.transpose(1, 2).reshape(2, 8, 16))
        return x + torch.nn.functional.dropout(torch.nn.functional.gelu(found), 0.1)


def layers(*made: torch.nn.Module) -> Callable[[], torch.nn.Module]:
    return lambda: torch.nn.Sequential(*made)


PROGRAMS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "products": (Products, (64, 64)),
    "gelu": (layers(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)), (4, 8)),
    "convolutions": (
        layers(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()),
        (2, 3, 9, 9),
    ),
    "attention": (Attention, (2, 8, 16)),
}


def loaded(text: str, folder: Path) -> ModuleType:
    file = folder / "generated.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("generated", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def backward_of(program: str, folder: Path) -> Any:
    """The generated module of a training step's backward."""
    make, shape = PROGRAMS[program]
    torch._dynamo.reset()
    compiled, x = torch.compile(make()), torch.randn(shape)
    _, codes = run_and_get_code(lambda: (compiled(x) * 2).sum().backward())
    return loaded(codes[-1], folder)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_not_named_stays_as_it_is(program: str, tmp_path: Path) -> None:
    module = backward_of(program, tmp_path)
    args = module.get_args()
    every = frozenset(i for i, value in enumerate(args) if isinstance(value, torch.Tensor))
    written = overwritten(module.runner.call, every)
    before = {i: args[i].clone() for i in every - written}
    held = {i: args[i] for i in before}
    module.call(list(args))
    assert all(torch.equal(held[i], value) for i, value in before.items())


def test_inductor_puts_results_in_the_place_of_what_was_saved(tmp_path: Path) -> None:
    """Else nothing is held that has to be copied, and the test above could not fail."""
    module = backward_of("products", tmp_path)
    args = module.get_args()
    every = frozenset(range(len(args)))
    (place,) = overwritten(module.runner.call, every)
    before = args[place].clone()
    held = args[place]
    module.call(list(args))
    assert not torch.equal(held, before)


def test_other_names_and_views_count(tmp_path: Path) -> None:
    partition = loaded(HAND_WRITTEN, tmp_path).partition_0
    assert overwritten(partition, frozenset(range(5))) == {1, 2}
    assert overwritten(partition, frozenset({0, 2})) == {2}


@pytest.mark.parametrize("body", ["return args", "a, (b, c) = args", "a, b = args"])
def test_what_cannot_be_read_may_write_to_all(body: str, tmp_path: Path) -> None:
    partition = loaded(f"def partition_0(args):\n    {body}\n", tmp_path).partition_0
    donated = frozenset({0, 2})
    assert overwritten(partition, donated) == donated
    namespace: dict[str, Any] = {}
    exec(HAND_WRITTEN, namespace)
    assert overwritten(namespace["partition_0"], donated) == donated
    assert overwritten(print, donated) == donated


@pytest.mark.parametrize("adds", [False, True])
def test_kernels_that_add_in_any_order_are_seen(tmp_path: Path, adds: bool) -> None:
    """As Inductor writes the gradient of an embedding in Triton."""
    kernel = "tl.atomic_add(out_ptr0 + x0, tmp0, xmask, sem='relaxed')" if adds else "tl.store()"
    file = tmp_path / "module.py"
    file.write_text(f"kernel = '''\n    {kernel}\n'''\n\n\ndef call(args):\n    return ()\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    assert generated.adds_in_any_order(names["call"]) == adds
    assert not generated.adds_in_any_order(print)
