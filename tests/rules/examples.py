"""The examples of the rule pages as modules that can be run."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pygraph_lint.rules.examples import Example, of_rule, sections

__all__ = ["Example", "arguments", "load", "of_rule", "program", "sections"]


def load(example: Example, folder: Path) -> ModuleType:
    """The example as a module, from a file in ``folder``: Dynamo and tracebacks need lines."""
    path = folder / f"{example.name.replace('-', '_').lower()}.py"
    path.write_text(example.text, encoding="utf-8")
    linecache.checkcache(str(path))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(example.text, str(path), "exec"), module.__dict__)
    return module


def program(module: ModuleType, device: str = "cpu") -> Callable[..., Any]:
    """What an example asks to be compiled: an instance of its ``Model``, or ``run``."""
    if hasattr(module, "Model"):
        return module.Model().to(device)  # type: ignore[no-any-return]
    return module.run  # type: ignore[no-any-return]


def arguments(module: ModuleType, device: str = "cpu") -> tuple[Any, ...]:
    """Fresh arguments from the example's ``inputs()``, on ``device``.

    Where ``inputs`` takes a device itself, it decides what stays on the host.
    """
    if module.inputs.__code__.co_argcount:
        return module.inputs(device)  # type: ignore[no-any-return]
    return tuple(
        each.detach().to(device).requires_grad_(each.requires_grad)
        if hasattr(each, "requires_grad")
        else each
        for each in module.inputs()
    )
