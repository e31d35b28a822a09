"""Labels for the heads of transformers, by the name of the class and what its forward takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.lint_truth.builders import Inputs
from benchmarks.lint_truth.shapes import BATCH, VOCABULARY, config_value, image_size

LabelMaker = Callable[[Any, Inputs], Inputs]
BOXES = 3


def _one_a_row(config: Any, inputs: Inputs) -> Inputs:
    return {"labels": torch.randint(0, _classes(config), (BATCH,))}


def _one_a_token(config: Any, inputs: Inputs) -> Inputs:
    shape = inputs["input_ids"].shape if "input_ids" in inputs else (BATCH, 12)
    return {"labels": torch.randint(0, _classes(config), shape)}


def _tokens(config: Any, inputs: Inputs) -> Inputs:
    """The ids themselves, with some positions left out of the loss."""
    ids = inputs.get("decoder_input_ids", inputs.get("input_ids"))
    labels = ids.clone() if ids is not None else torch.randint(3, VOCABULARY, (BATCH, 6))
    labels[:, :2] = -100
    return {"labels": labels}


def _spans(config: Any, inputs: Inputs) -> Inputs:
    return {
        "start_positions": torch.randint(0, 4, (BATCH,)),
        "end_positions": torch.randint(4, 8, (BATCH,)),
    }


def _transcripts(config: Any, inputs: Inputs) -> Inputs:
    return {"labels": torch.randint(1, 20, (BATCH, 3))}


def _boxes(config: Any, inputs: Inputs) -> Inputs:
    """Detection targets: a list of dictionaries, one an image, of unlike numbers of boxes."""
    classes = _classes(config)
    rows = []
    for row in range(BATCH):
        count = BOXES - row
        centres = 0.3 + 0.4 * torch.rand(count, 2)
        sizes = 0.1 + 0.2 * torch.rand(count, 2)
        rows.append(
            {
                "class_labels": torch.randint(0, classes, (count,)),
                "boxes": torch.cat([centres, sizes], dim=-1),
            }
        )
    return {"labels": rows}


def _boxes_and_masks(config: Any, inputs: Inputs) -> Inputs:
    rows = _boxes(config, inputs)["labels"]
    for row in rows:
        shape = (len(row["boxes"]), *image_size(config))
        row["masks"] = (torch.rand(shape) > 0.5).float()
    return {"labels": rows}


def _masks(config: Any, inputs: Inputs) -> Inputs:
    """Targets of universal segmentation: masks and classes, a list of each."""
    counts = [BOXES - row for row in range(BATCH)]
    shape = image_size(config)
    return {
        "mask_labels": [(torch.rand(count, *shape) > 0.5).float() for count in counts],
        "class_labels": [torch.randint(0, _classes(config), (count,)) for count in counts],
    }


def _pixels(config: Any, inputs: Inputs) -> Inputs:
    labels = torch.randint(0, _classes(config), (BATCH, *image_size(config)))
    labels[:, :4] = 255
    return {"labels": labels}


def _depths(config: Any, inputs: Inputs) -> Inputs:
    return {"labels": torch.rand(BATCH, *image_size(config))}


def _classes(config: Any) -> int:
    return int(config_value(config, ("num_labels",), 2))


#: Part of a class name -> its labels. First match wins.
_HEADS: tuple[tuple[str, LabelMaker], ...] = (
    ("ForTokenClassification", _one_a_token),
    ("ForAudioFrameClassification", _one_a_token),
    ("Classification", _one_a_row),
    ("ForXVector", _one_a_row),
    ("ForObjectDetection", _boxes),
    ("ForUniversalSegmentation", _masks),
    ("ForInstanceSegmentation", _masks),
    ("ForSemanticSegmentation", _pixels),
    ("ForSegmentation", _boxes_and_masks),
    ("ForDepthEstimation", _depths),
    ("ForQuestionAnswering", _spans),
    ("ForCTC", _transcripts),
    ("ForRNNT", _transcripts),
    ("ForTDT", _transcripts),
    ("For", _tokens),
    ("LMHead", _tokens),
)


def labels_for(cls: str, names: Sequence[str], config: Any, inputs: Inputs) -> Inputs:
    """Labels that `cls` can be trained with, as far as its forward (`names`) takes them."""
    for part, make in _HEADS:
        if part in cls:
            return {name: value for name, value in make(config, inputs).items() if name in names}
    return {}
