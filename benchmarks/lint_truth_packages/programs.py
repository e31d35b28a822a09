"""Small programs: a callable, its inputs, and which tensors would be on the device."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch


@dataclass
class Call:
    """What a program compiles and runs: `function(*inputs, **named)`.

    Tensors in the inputs, in `state`, in the function's closure and the parameters and buffers of
    modules there are on the device. `state` names objects that are no modules but hold tensors
    that a user would have made on the device (a distribution, an optimiser's parameters).
    """

    function: Callable[..., Any]
    inputs: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    state: Any = ()
    grad: bool = True

    def run(self) -> Any:
        """Call the function once."""
        return self.function(*self.inputs, **self.named)

    def on_device(self) -> list[torch.Tensor]:
        """Every tensor that is on the device before the call."""
        given = [*_tensors_of_function(self.function), *_tensors(self.inputs)]
        return [*given, *_tensors(self.named), *_tensors(self.state)]


def call(function: Callable[..., Any], *inputs: Any, **named: Any) -> Call:
    """A `Call` without further state."""
    return Call(function, inputs, named)


@dataclass(frozen=True)
class Program:
    """One program of one package; `build` makes fresh inputs each time."""

    package: str
    name: str
    build: Callable[[], Call]

    @property
    def label(self) -> str:
        """ "package.name"."""
        return f"{self.package}.{self.name}"


def programs_of(package: str, module: ModuleType) -> list[Program]:
    """The public functions that `module` itself defines, in their order."""
    return [
        Program(package, name, function)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _tensors_of_module(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for parameter in module.parameters():
        yield from _tensors(parameter)
    yield from module.buffers()


def _tensors_of_function(function: Any) -> Iterator[torch.Tensor]:
    """Tensors of the modules, containers and functions that `function` refers to.

    Other objects behind it (a sampler whose method is called) keep their tensors where their
    own code made them; a program names them in `state` if a user would have moved them.
    """
    if isinstance(function, torch.nn.Module):
        yield from _tensors_of_module(function)
    elif isinstance(function, MethodType):
        yield from _tensors_of_function(function.__self__)
        yield from _tensors_of_function(function.__func__)
    elif isinstance(function, functools.partial):
        yield from _tensors_of_function(function.func)
        yield from _tensors([function.args, function.keywords])
    elif isinstance(function, FunctionType):
        for cell in function.__closure__ or ():
            value = cell.cell_contents
            if isinstance(value, (torch.Tensor, list, tuple, dict)):
                yield from _tensors(value)
            else:
                yield from _tensors_of_function(value)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor reachable from `value`: containers, modules, attributes of objects."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, (str, bytes, int, float, type, ModuleType)):
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            yield item
            if item.is_leaf and item.grad is not None:
                yield item.grad
        elif isinstance(item, torch.nn.Module):
            yield from _tensors_of_module(item)
        elif isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, tuple):
            waiting.extend(tuple.__iter__(item))  # a subclass may refuse to be iterated
        elif isinstance(item, (list, set, frozenset)):
            waiting.extend(item)
        elif isinstance(item, (FunctionType, MethodType, functools.partial)):
            yield from _tensors_of_function(item)
        elif hasattr(item, "__dict__"):
            waiting.extend(vars(item).values())
