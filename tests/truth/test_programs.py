"""Programs: which tensors are on the device, which lines ran below a module."""

from __future__ import annotations

import functools
import sys
import types
from pathlib import Path

import pytest
import torch

from benchmarks.lint_truth import packages
from benchmarks.lint_truth.executed import executed
from benchmarks.lint_truth_packages.programs import Call, call, programs_of


def ids(made: Call) -> set[int]:
    return {id(tensor) for tensor in made.on_device()}


class Table:
    def __init__(self) -> None:
        self.values = torch.zeros(3)

    def look_up(self, index: torch.Tensor) -> torch.Tensor:
        return self.values[index]


def test_inputs_modules_and_closures_are_on_the_device() -> None:
    layer, scale, index = torch.nn.Linear(2, 2), torch.ones(2), torch.zeros(1)
    made = Call(lambda x: layer(x) * scale, ([index],), {"more": {"a": torch.ones(1)}})
    assert {id(layer.weight), id(layer.bias), id(scale), id(index)} < ids(made)
    assert len(ids(made)) == 5
    assert ids(call(functools.partial(torch.add, scale), index)) == {id(scale), id(index)}
    assert id(layer.weight) in ids(call(layer.forward, index))


def test_a_plain_object_keeps_its_tensors_unless_the_program_names_it() -> None:
    table, index = Table(), torch.zeros(1, dtype=torch.long)
    assert ids(call(table.look_up, index)) == {id(index)}
    assert ids(Call(table.look_up, (index,), state=table)) == {id(index), id(table.values)}


def test_gradients_move_with_their_parameters() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    weight.sum().backward()
    optimizer = torch.optim.SGD([weight], lr=0.1)
    assert ids(Call(optimizer.step, state=optimizer.param_groups)) == {id(weight), id(weight.grad)}


def test_each_public_function_of_a_driver_is_a_program() -> None:
    module = types.ModuleType("driver")
    exec("import math\nfrom os.path import join\ndef b(): ...\ndef _c(): ...\n", vars(module))
    assert [program.label for program in programs_of("name", module)] == ["name.b"]


SOURCE = """\
import torch

def helper(x):
    return x + 1

class Layer(torch.nn.Module):
    def forward(self, x):
        return helper(x)

def function(x):
    y = helper(x)
    return y
"""


def test_lines_below_a_module_are_told_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "measured_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(packages, "_measured", ["measured_package"])
    packages.measure(["measured_package"])
    try:
        import measured_package

        layer, x = measured_package.Layer(), torch.ones(1)
        plain = executed(lambda: measured_package.function(x))
        both = executed(lambda: [layer(x), measured_package.function(x)])
    finally:
        sys.modules.pop("measured_package", None)
        packages.measure(packages.PACKAGES)
    name = "measured_package/__init__.py"
    assert plain.lines == {name: {3, 4, 10, 11, 12}}
    assert plain.in_modules == {}
    assert both.in_modules == {name: {3, 4, 7, 8}}
