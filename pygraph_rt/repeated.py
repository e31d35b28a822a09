"""Compile the repeated blocks of a model: one compilation and one capture for N sets of weights.

A transformer is a list of layers of one class. Compiled whole, all N layers are compiled; compiled
block by block, one is, and the others reuse it with their own weights as inputs. Stock CUDA graphs
bind a graph to the addresses of its weights, so each block needs a recording of its own; here one
graph is pointed at the weights of whichever block is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from pygraph_rt.backend import compile as compile_with_graphs
from pygraph_rt.errors import OptionError

Function = Callable[..., Any]
Blocks = str | type[nn.Module] | Sequence[str | type[nn.Module]]

_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
# Attribute of a compiled `forward`: the function that it was made of.
_COMPILED_FROM = "_pygraph_compiled_from"


class BlockGroup(NamedTuple):
    """Blocks that share one compilation: their class's name, and where in the model they are."""

    name: str
    paths: tuple[str, ...]


def compile_repeated_blocks(
    model: nn.Module, *, blocks: Blocks | None = None, **options: Any
) -> nn.Module:
    """Compile the `forward` of each repeated block in place, and return the model.

    Blocks are found as diffusers and accelerate find them: by the class names in the model's
    `_repeated_blocks`; otherwise in lists of modules that hold a class of block more than once.
    `blocks` names classes instead. Blocks of one structure (submodules, shapes, dtypes, devices,
    which weights are shared or frozen) share one compilation; those that differ get their own.
    `options` are those of `pygraph_rt.compile`.

    Weights, `state_dict`, hooks on a block, and checkpointing around it stay as they are: only the
    block's `forward` is replaced. Hooks on modules inside of a block are compiled with it. A copy
    of the model is compiled too; a pickled one loads as it was before.

    Raises OptionError where nothing repeats, or a class in `blocks` does not occur.
    """

    def compiled(function: Function) -> Function:
        found: Function = compile_with_graphs(function, **options)
        return found

    compile_blocks(model, compiled, blocks)
    return model


def compile_blocks(
    model: nn.Module, compile: Callable[[Function], Function], blocks: Blocks | None = None
) -> list[BlockGroup]:
    """Replace the `forward` of each repeated block by what `compile` makes of its group's
    `forward`, once a group. Raises OptionError as `compile_repeated_blocks`.
    """
    groups = repeated_blocks(model, blocks)
    for group in groups:
        members = [model.get_submodule(path) for path in group.paths]
        forward = _forward(members[0])
        if forward is None:
            members[0].forward = compile(members[0].forward)
            continue
        compiled = compile(_own_code(forward))
        setattr(compiled, _COMPILED_FROM, forward)
        for member in members:
            member.forward = MethodType(compiled, member)
    return groups


def repeated_blocks(model: nn.Module, blocks: Blocks | None = None) -> list[BlockGroup]:
    """The groups of blocks that `compile_repeated_blocks` compiles. Raises OptionError as there."""
    named = _names(blocks) or _names(getattr(model, "_repeated_blocks", None))
    found = list(_named(model, named)) if named else list(_repeated(model, ""))
    groups: dict[tuple[Any, ...], list[str]] = {}
    for path, module in found:
        groups.setdefault(_structure(module), []).append(path)
    if not groups:
        raise OptionError(
            f"{type(model).__name__} has no list of modules that holds one class of block twice; "
            "name the classes to compile, as in blocks=('DecoderLayer',), or use torch.compile"
        )
    classes = {type(module).__name__ for _, module in found}
    missing = sorted(_names(blocks) - classes)
    if missing:
        raise OptionError(f"blocks={missing[0]!r}: no module of that class is in the model")
    return [
        BlockGroup(type(model.get_submodule(paths[0])).__name__, tuple(paths))
        for paths in groups.values()
    ]


def _names(blocks: Blocks | None) -> set[str]:
    if blocks is None:
        return set()
    one = isinstance(blocks, (str, type))
    several: Iterable[Any] = (blocks,) if one else blocks  # type: ignore[assignment]
    return {block if isinstance(block, str) else block.__name__ for block in several}


def _named(module: nn.Module, names: set[str], path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Modules of classes with these names, without what is inside of one."""
    for name, child in module.named_children():
        where = f"{path}.{name}" if path else name
        if type(child).__name__ in names:
            yield where, child
        else:
            yield from _named(child, names, where)


def _repeated(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Blocks in lists of modules that hold a class more than once, the outermost ones; where no two
    of a list have one structure, blocks inside of them.
    """
    children = list(module.named_children())
    repeats = isinstance(module, _CONTAINERS) and _same_structure([child for _, child in children])
    for name, child in children:
        where = f"{path}.{name}" if path else name
        if repeats and type(child) in repeats:
            yield where, child
        else:
            yield from _repeated(child, where)


def _same_structure(modules: Sequence[nn.Module]) -> set[type[nn.Module]]:
    """Classes of blocks of which two or more have one structure. A module without submodules is no
    block, nor is a list.
    """
    seen: dict[tuple[Any, ...], int] = {}
    for module in modules:
        if not isinstance(module, _CONTAINERS) and any(True for _ in module.children()):
            key = _structure(module)
            seen[key] = seen.get(key, 0) + 1
    return {key[0] for key, count in seen.items() if count > 1}


def _structure(block: nn.Module) -> tuple[Any, ...]:
    """What a compilation depends on: the class first, then what is called, submodules with their
    hooks, weights, and which of those are one tensor.

    Dynamo does not look again whether a submodule has hooks, so blocks that differ in them must not
    share a compilation.
    """
    modules = [(name, type(module), _hooks(module)) for name, module in block.named_modules()]
    modules[0] = ("", type(block), ())  # the block's own hooks are run outside of its forward
    tensors: list[tuple[Any, ...]] = []
    first: dict[int, int] = {}
    for named in (block.named_parameters, block.named_buffers):
        for name, value in named(remove_duplicate=False):
            same_as = first.setdefault(id(value), len(tensors))
            tensors.append((name, type(value), *_layout(value), same_as))
    forward = _forward(block)
    called = id(block if forward is None else forward)
    return type(block), called, tuple(modules), tuple(tensors)


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    """Which hooks a module has; a method of the module's own is the same one in all blocks."""
    kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    hooks = (hook for kind in kinds for hook in getattr(module, kind).values())
    return tuple(
        id(hook.__func__) if getattr(hook, "__self__", None) is module else id(hook)
        for hook in hooks
    )


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    if is_lazy(value):
        return (value.dtype, value.device)
    shape = (tuple(value.shape), tuple(value.stride()))
    return (*shape, value.dtype, value.device, value.requires_grad)


def _forward(block: nn.Module) -> FunctionType | None:
    """The function behind the block's `forward`, which takes the block first; None where somebody
    has put another kind of callable in its place.
    """
    replaced = block.__dict__.get("forward")
    found: Any = type(block).forward
    if replaced is not None:
        mine = getattr(replaced, "__self__", None) is block
        found = getattr(replaced, "__func__", None) if mine else None
    # Compiled before: begin with what that was made of.
    found = getattr(found, _COMPILED_FROM, found)
    return found if isinstance(found, FunctionType) else None


def _own_code(function: FunctionType) -> Function:
    """A copy of a function with a code object of its own.

    Dynamo keeps what it compiled by code object, and only so many versions of each: groups that
    share one would look through, and use up, each other's.
    """
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.wraps(function)(copy)
