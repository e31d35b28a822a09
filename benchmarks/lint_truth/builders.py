"""From one catalogue entry to a tiny randomly initialised model and its inputs."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.lint_truth.shapes import DEPTH_FIELDS, INPUTS, TINY, VOCABULARY, padded_mask

Inputs = dict[str, Any]
#: The arguments of several calls, one after the other.
Calls = list[Inputs]
MODES = ("eval", "train")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model: where its class is, how its configuration shrinks, what it is fed.

    `config` overrides configuration fields (nested dictionaries reach nested configurations; a
    callable makes them late, for what needs the package imported);
    `inputs` maps forward parameters to a builder of `config`, to a plain value, or to None to
    leave a parameter out that would be built by name; `builder` is the module whose
    `build(entry, mode)` makes model and inputs, where the package's own does not.
    """

    name: str
    package: str
    cls: str
    config_cls: str = ""
    config: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    family: str = ""
    modes: tuple[str, ...] = MODES
    builder: str = ""


def _tiny_value(name: str, default: Any, sizes: Mapping[str, int]) -> Any:
    """`default` made small where the field's name says how; else `default` itself."""
    if name in DEPTH_FIELDS and isinstance(default, (list, tuple)):
        return [1] * len(default)
    if name.endswith(("_token_id", "_token_index")) and isinstance(default, int):
        return default if default < VOCABULARY else 2
    tiny = sizes.get(name)
    if tiny is None or isinstance(default, bool):
        return default
    if isinstance(default, int):
        return min(tiny, default)
    return default


def _fields(config_cls: type) -> list[str]:
    """What a configuration is made of; before transformers 5 they are no dataclasses."""
    if dataclasses.is_dataclass(config_cls):
        return [field.name for field in dataclasses.fields(config_cls) if field.init]
    return [
        name
        for name, parameter in inspect.signature(config_cls).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]


def _children(config_cls: type, template: Any) -> list[str]:
    """The fields that hold configurations; before transformers 5 not every class names them."""
    named = list(getattr(config_cls, "sub_configs", None) or {})
    if dataclasses.is_dataclass(config_cls):
        return named
    held = [name for name, value in vars(template).items() if hasattr(value, "to_dict")]
    return list(dict.fromkeys([*named, *held]))


def config_kwargs(
    config_cls: type, overrides: Mapping[str, Any], sizes: Mapping[str, int] = TINY
) -> dict[str, Any]:
    """Keyword arguments that make a tiny `config_cls`, with `sizes` by the field's name."""
    kwargs: dict[str, Any] = {}
    template = config_cls()
    children = _children(config_cls, template)
    for name in _fields(config_cls):
        if name in children:
            continue
        default = getattr(template, name, None)
        tiny = _tiny_value(name, default, sizes)
        if tiny is not default:
            kwargs[name] = tiny
    heads = getattr(template, "num_heads", None)
    if isinstance(heads, (list, tuple)) and isinstance(getattr(template, "embed_dim", None), int):
        kwargs["embed_dim"] = 8 * heads[0]
    for name in children:
        child = getattr(template, name, None)
        nested = overrides.get(name, {})
        if child is None or not hasattr(child, "to_dict"):
            continue
        if hasattr(nested, "to_dict"):
            kwargs[name] = nested
            continue
        child_cls: Any = type(child)
        made = child_cls(**config_kwargs(child_cls, nested, sizes))
        kwargs[name] = made if dataclasses.is_dataclass(config_cls) else made.to_dict()
    kwargs.update(
        {
            name: value
            for name, value in overrides.items()
            if name not in kwargs or name not in children
        }
    )
    return kwargs


def transformers_model(entry: Entry) -> tuple[torch.nn.Module, Any]:
    """A tiny model of transformers and its configuration."""
    transformers = importlib.import_module("transformers")
    model_cls = getattr(transformers, entry.cls)
    config_cls = (
        getattr(transformers, entry.config_cls) if entry.config_cls else model_cls.config_class
    )
    overrides = entry.config() if callable(entry.config) else entry.config
    config = config_cls(**config_kwargs(config_cls, overrides))
    return model_cls(config), config


def transformers_inputs(entry: Entry, model: torch.nn.Module, config: Any) -> Inputs:
    """Inputs for every forward parameter that a builder is known for."""
    built: Inputs = {}
    for name in inspect.signature(model.forward).parameters:
        if name in entry.inputs:
            continue
        builder = INPUTS.get(name)
        if builder is not None:
            built[name] = builder(config)
    main = getattr(model, "main_input_name", "input_ids")
    if "attention_mask" in built and "input_ids" not in built and main in built:
        del built["attention_mask"]
        if main == "input_values" and built[main].dim() == 2:  # raw audio: a mask of samples
            built["attention_mask"] = padded_mask(built[main].shape[1])
    for name, value in entry.inputs.items():
        if value is not None:
            built[name] = value(config) if callable(value) else value
    return built


Builder = Callable[[Entry], tuple[torch.nn.Module, Inputs]]


def build(entry: Entry, mode: str, seed: int = 0) -> tuple[torch.nn.Module, Any]:
    """The model of `entry` in `mode` ("eval" or "train") and the inputs to call it with.

    The inputs are `Inputs`, or `Calls` where the calls differ (the steps of a sampler).
    """
    torch.manual_seed(seed)
    if entry.builder:
        model, inputs = importlib.import_module(entry.builder).build(entry, mode)
    elif entry.package == "transformers":
        model, config = transformers_model(entry)
        inputs = transformers_inputs(entry, model, config)
    else:
        module = importlib.import_module(f"benchmarks.lint_truth.build_{entry.package}")
        model, inputs = module.build(entry)
    model.train(mode == "train")
    return model, inputs
