"""The models of transformers, found in its own tables of automatic classes."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch

from benchmarks.lint_truth import catalogue_transformers
from benchmarks.lint_truth.builders import MODES, Entry, Inputs
from benchmarks.lint_truth.families import HEAD
from benchmarks.lint_truth.newer import recipes

#: Folders of transformers/models in 5.4.0: a model from another folder is new.
_KNOWN = Path(__file__).with_name("families_5_4_0.txt")

_BASE = "MODEL_MAPPING_NAMES"

#: Tables of heads, those with the most code of their own first.
_HEADS = (
    "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_INSTANCE_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "MODEL_FOR_MASK_GENERATION_MAPPING_NAMES",
    "MODEL_FOR_KEYPOINT_DETECTION_MAPPING_NAMES",
    "MODEL_FOR_KEYPOINT_MATCHING_MAPPING_NAMES",
    "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_NORMAL_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_POSE_ESTIMATION_MAPPING_NAMES",
    "MODEL_FOR_TABLE_RECOGNITION_MAPPING_NAMES",
    "MODEL_FOR_TEXT_RECOGNITION_MAPPING_NAMES",
    "MODEL_FOR_RNNT_MAPPING_NAMES",
    "MODEL_FOR_TDT_MAPPING_NAMES",
    "MODEL_FOR_CTC_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_WAVEFORM_MAPPING_NAMES",
    "MODEL_FOR_TEXT_TO_SPECTROGRAM_MAPPING_NAMES",
    "MODEL_FOR_AUDIO_XVECTOR_MAPPING_NAMES",
    "MODEL_FOR_TIME_SERIES_PREDICTION_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_IMAGE_MODELING_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
)

#: Tables of models that are put together from others.
_COMPOSED = ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES")

#: How many of these a family has measured: all its rare heads, else the first.
_RARE = _HEADS[: _HEADS.index("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES")]
_HEADS_OF_NEW = 2


def _classes(value: Any) -> list[str]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _by_type(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(model type, table, class name) of the base model and then of the heads of each type."""
    for name in (_BASE, *_HEADS):
        for kind, value in tables.get(name, {}).items():
            for cls in _classes(value):
                yield kind, name, cls


def _wanted(found: list[tuple[str, str]], new: bool) -> list[str]:
    """The classes to measure of one model type: (table, class) in the order of the tables."""
    base = [cls for table, cls in found if table == _BASE]
    rare = [cls for table, cls in found if table in _RARE]
    other = [cls for table, cls in found if table != _BASE and table not in _RARE]
    kept = rare or other[: _HEADS_OF_NEW if new else 0]
    return list(dict.fromkeys([*base[:1], *kept]))


def entries() -> list[Entry]:
    """The measured models of families that are new, the simple ones first."""
    auto = vars(importlib.import_module("transformers.models.auto.modeling_auto"))
    composed = {kind for table in _COMPOSED for kind in auto.get(table, {})}
    last = {cls for kind, _, cls in _by_type(auto) if kind in composed}
    return sorted(_found()[0], key=lambda entry: entry.cls in last)


def rest() -> list[Entry]:
    """Models of the other families.

    They come in an order that says nothing about them, so that any first part is a fair sample.
    """
    return sorted(_found()[1], key=lambda entry: hashlib.sha256(entry.cls.encode()).digest())


@cache
def _found() -> tuple[list[Entry], list[Entry]]:
    """Models of new families, and of others."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    names: Any = importlib.import_module("transformers.models.auto.configuration_auto")
    known = set(_KNOWN.read_text().split())
    by_type: dict[str, list[tuple[str, str]]] = {}
    for kind, table, cls in _by_type(vars(auto)):
        by_type.setdefault(kind, []).append((table, cls))
    described: dict[str, Entry] = {}
    for entry in catalogue_transformers.entries():
        described.setdefault(entry.cls, entry)
        if entry.config:  # what makes a base model tiny makes its heads tiny, too
            described.setdefault(f"family {HEAD.sub('', entry.cls)}", entry)
    new: dict[str, Entry] = {}
    old: dict[str, Entry] = {}
    for kind, found in by_type.items():
        is_new = names.model_type_to_module_name(kind) not in known
        wanted = _wanted(found, is_new)
        for cls in wanted:
            modes = MODES if len(wanted) == 1 else _one_mode(cls, found)
            (new if is_new else old).setdefault(cls, _entry(cls, described, modes))
    return list(new.values()), [entry for cls, entry in old.items() if cls not in new]


def _one_mode(cls: str, found: list[tuple[str, str]]) -> tuple[str, ...]:
    """The mode for one of several classes of a family: its heads are trained."""
    return ("eval",) if (_BASE, cls) in found else ("train",)


def _entry(cls: str, described: Mapping[str, Entry], modes: tuple[str, ...]) -> Entry:
    """An entry by introspection, with what is written down about the class."""
    known = described.get(cls) or described.get(f"family {HEAD.sub('', cls)}")
    return Entry(
        cls,
        "transformers",
        cls,
        config=known.config if known else {},
        inputs=known.inputs if known else {},
        modes=modes,
        builder=__name__,
    )


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Inputs]:
    """The model of `entry` and inputs that it runs on."""
    return recipes.build(entry, mode)
