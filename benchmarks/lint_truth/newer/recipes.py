"""Tiny models and inputs for classes that nobody described: a few guesses, the first that runs.

A guess is a way to shrink the configuration and a way to make the inputs. Which one runs is found
by calling the model eagerly; it is remembered, so that every stage builds the same model.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.lint_truth.builders import Entry, Inputs, transformers_inputs
from benchmarks.lint_truth.newer.labels import labels_for
from benchmarks.lint_truth.newer.shrink import WAYS, fit
from benchmarks.lint_truth.shapes import (
    BATCH,
    MELS,
    TEXT_LENGTH,
    config_value,
    image_size,
    text_with_images,
    video,
)

Guess = tuple[int, int]

#: A model with more parameters than this is not tiny: its configuration was not understood.
MOST_PARAMETERS = 80_000_000

#: Seconds of processor time for guessing; then the model counts as one that cannot be built.
GUESSING_SECONDS = 4.0

#: (entry, mode) -> the guess that ran; all stages of a model run in one process.
_RAN: dict[tuple[str, str], Guess] = {}


def _model(entry: Entry, shrunk: int) -> tuple[torch.nn.Module, Any]:
    """Model and configuration. Raises _ModelFailed."""
    transformers = importlib.import_module("transformers")
    try:
        model_cls = getattr(transformers, entry.cls)
        overrides = entry.config() if callable(entry.config) else entry.config
        config = WAYS[shrunk](model_cls.config_class, overrides)
        fit(config)
        size = _parameters(model_cls, config)
        if size is not None and size > MOST_PARAMETERS:
            raise _ModelFailed(f"not tiny: {size // 10**6} million parameters")
        return model_cls(config), config
    except Exception as error:
        raise _ModelFailed(f"{type(error).__name__}: {error}") from error


def _parameters(model_cls: Any, config: Any) -> int | None:
    """How many parameters a model has, without its memory; None if that cannot be told."""
    try:
        with torch.device("meta"):
            return sum(weight.numel() for weight in model_cls(config).parameters())
    except Exception:  # some constructors read values
        return None


class _ModelFailed(Exception):
    """No model can be made of a guessed configuration."""


_MEL_FIELDS = ("num_mel_bins", "input_dim", "n_mels", "feature_size", "input_feat_per_channel")

#: Mel bins -> shapes of spectrograms beside (bins, MELS): time first, or of full length.
_SPECTROGRAMS: tuple[Callable[[int], tuple[int, ...]], ...] = (
    lambda bins: (MELS, bins),
    lambda bins: (bins, 3000),
)


def _named(model: torch.nn.Module) -> list[str]:
    return list(inspect.signature(model.forward).parameters)


def _patches(config: Any) -> Inputs:
    """Patches of images and the grid of their sizes, 16 patches an image."""
    vision = getattr(config, "vision_config", config)
    patch = config_value(vision, ("patch_size",), 14)
    depth = config_value(vision, ("temporal_patch_size",), 1)
    channels = config_value(vision, ("in_channels", "num_channels", "in_chans"), 3)
    return {
        "pixel_values": torch.randn(16 * BATCH, channels * depth * patch * patch),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * BATCH),
    }


def _grid_inputs(model: torch.nn.Module, config: Any) -> Inputs:
    """Inputs of models that take patches and a grid of sizes beside the text."""
    vision = getattr(config, "vision_config", config)
    merge = config_value(vision, ("spatial_merge_size", "merge_size"), 2)
    return {**_patches(config), **_text_of(model, config, 16 // merge**2)}


def _text_of(model: torch.nn.Module, config: Any, tokens: int) -> Inputs:
    """Token ids with places for `tokens` image features a row, and what goes beside them."""
    names = _named(model)
    length = tokens + TEXT_LENGTH
    places = torch.zeros(BATCH, length, dtype=torch.long)
    places[:, 1 : tokens + 1] = 1
    made: Inputs = {"input_ids": text_with_images(tokens)(config)}
    made["attention_mask"] = torch.ones(BATCH, length, dtype=torch.long)
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in names:
            made[name] = places
    return {name: value for name, value in made.items() if name in names}


def _image_tokens(model: torch.nn.Module, inputs: Inputs) -> int:
    """How many text positions the features of one image take, asked of the model itself."""
    ask: Any = model.get_image_features
    wanted = inspect.signature(ask).parameters
    given = {name: value for name, value in inputs.items() if name in wanted}
    with torch.no_grad():
        features: Any = ask(**given)
    features = getattr(features, "pooler_output", features)
    if isinstance(features, (list, tuple)):
        features = torch.cat([part.reshape(-1, part.shape[-1]) for part in features])
    return int(features.reshape(-1, features.shape[-1]).shape[0]) // BATCH


def _input_guesses(
    entry: Entry, model: torch.nn.Module, config: Any, mode: str
) -> Iterator[Callable[[], Inputs]]:
    """Ways to make the inputs, the fullest first."""
    names = _named(model)

    def plain() -> Inputs:
        return transformers_inputs(entry, model, config)

    def labelled(make: Callable[[], Inputs]) -> Callable[[], Inputs]:
        def build() -> Inputs:
            inputs = make()
            return {**inputs, **labels_for(entry.cls, names, config, inputs)}

        return build

    def pictured() -> Inputs:
        if "image_grid_thw" in names:
            return {**plain(), **_grid_inputs(model, config)}
        inputs = plain()
        if "image_sizes" in names:
            inputs["image_sizes"] = torch.tensor([image_size(config)] * BATCH)
        return {**inputs, **_text_of(model, config, _image_tokens(model, inputs))}

    def pictured_in_patches() -> Inputs:
        inputs = pictured()
        patch = config_value(getattr(config, "vision_config", config), ("patch_size",), 14)
        inputs["pixel_values"] = inputs["pixel_values"].reshape(16 * BATCH, -1, patch, patch)
        return inputs

    def without(*left_out: str) -> Callable[[], Inputs]:
        return lambda: {name: value for name, value in plain().items() if name not in left_out}

    def heard(shape: Callable[[int], tuple[int, ...]]) -> Callable[[], Inputs]:
        def build() -> Inputs:
            inputs = plain()
            bins = config_value(config, _MEL_FIELDS, 80)
            inputs["input_features"] = torch.randn(BATCH, *shape(bins))
            frames = max(shape(bins))
            for name in ("attention_mask", "input_features_mask", "feature_attention_mask"):
                if name in names and "input_ids" not in names:
                    inputs[name] = torch.ones(BATCH, frames, dtype=torch.long)
            return inputs

        return build

    def gridded() -> Inputs:
        made = _patches(config)
        first = "hidden_states" if "hidden_states" in names else "pixel_values"
        return {first: made["pixel_values"], "grid_thw": made["image_grid_thw"]}

    def filmed() -> Inputs:
        return {**plain(), "pixel_values": video(config)}

    both = "input_ids" in names and "pixel_values" in names
    fullest = pictured if both and not entry.inputs else plain
    pictures = {"pixel_values", "pixel_mask"} & set(names)
    masks = {"attention_mask"} & set(names)
    if mode == "train":
        yield labelled(fullest)
        if "image_grid_thw" in names:
            yield labelled(pictured_in_patches)
        if both:
            yield labelled(without(*pictures))
    yield fullest
    if "image_grid_thw" in names:
        yield pictured_in_patches
    if fullest is not plain:
        yield plain
    if both:
        yield without(*pictures)
    if masks:
        yield without(*masks)
    if masks and both:
        yield without(*masks, *pictures)
    if "input_features" in names:
        for shape in _SPECTROGRAMS:
            yield heard(shape)
    if "pixel_values" in names and not both:
        yield filmed
    if "grid_thw" in names:
        yield gridded


def _attempt(entry: Entry, mode: str, guess: Guess) -> tuple[torch.nn.Module, Inputs]:
    """Model and inputs of one guess. Raises StopIteration where there is no such guess."""
    torch.manual_seed(0)
    model, config = _model(entry, guess[0])
    model.train(mode == "train")
    guesses = _input_guesses(entry, model, config, mode)
    make = next(itertools.islice(guesses, guess[1], None))
    torch.manual_seed(0)
    return model, make()


def _runs(entry: Entry, mode: str) -> Guess:
    """The first guess that runs. If none does: raises the first error of a model that was made,
    or else of the first configuration.
    """
    failures: list[BaseException] = []
    started = time.process_time()
    for shrunk in range(len(WAYS)):
        for number in itertools.count():
            if failures and time.process_time() - started > GUESSING_SECONDS:
                break
            try:
                model, inputs = _attempt(entry, mode, (shrunk, number))
                with torch.set_grad_enabled(mode == "train"):
                    model(**inputs)
            except StopIteration:
                break
            except _ModelFailed as error:
                failures.append(error)
                break
            except Exception as error:
                failures.append(error)
                continue
            return shrunk, number
    made = [error for error in failures if not isinstance(error, _ModelFailed)]
    raise (made or failures)[0]


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Inputs]:
    """The tiny model of `entry` and inputs that it runs on in `mode`."""
    key = (entry.name, mode)
    if key not in _RAN:
        _RAN[key] = _runs(entry, mode)
    return _attempt(entry, mode, _RAN[key])
