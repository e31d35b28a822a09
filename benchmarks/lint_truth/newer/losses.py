"""Losses and other functions of training, called with tensors and lists of targets."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.lint_truth.builders import Entry, Inputs
from benchmarks.lint_truth.newer.called import Called
from benchmarks.lint_truth.shapes import BATCH

QUERIES = 6
CLASSES = 5
TOKENS = 10
MASK = 16
LOSSES = ["labels", "boxes", "cardinality"]

Make = Callable[[Any, torch.device], Callable[..., Any]]


@dataclass(frozen=True)
class _Case:
    """A loss: the module it is in, how it is made from that module, what it is called with."""

    module: str
    make: Make
    inputs: Callable[[], Inputs]
    positional: tuple[str, ...] = ()


def _targets(masks: bool = False) -> list[dict[str, torch.Tensor]]:
    """Boxes of two images, three in one and two in the other."""
    rows = []
    for row in range(BATCH):
        count = 3 - row
        centres, sizes = 0.3 + 0.4 * torch.rand(count, 2), 0.1 + 0.2 * torch.rand(count, 2)
        target = {
            "class_labels": torch.randint(0, CLASSES, (count,)),
            "boxes": torch.cat([centres, sizes], dim=-1),
        }
        if masks:
            target["masks"] = (torch.rand(count, MASK, MASK) > 0.5).float()
        rows.append(target)
    return rows


def _detected(classes: int = CLASSES, queries: int = QUERIES) -> dict[str, torch.Tensor]:
    """What a detection model predicts: logits and boxes of each query."""
    boxes = 0.2 + 0.3 * torch.rand(BATCH, queries, 4)
    return {
        "logits": torch.randn(BATCH, queries, classes, requires_grad=True),
        "pred_boxes": boxes.requires_grad_(),
    }


def _detection(classes: int = CLASSES, queries: int = QUERIES) -> Callable[[], Inputs]:
    return lambda: {"outputs": _detected(classes, queries), "targets": _targets()}


def _with_auxiliary() -> Inputs:
    outputs: dict[str, Any] = _detected(CLASSES + 1)
    outputs["auxiliary_outputs"] = [_detected(CLASSES + 1), _detected(CLASSES + 1)]
    return {"outputs": outputs, "targets": _targets()}


def _with_masks() -> Inputs:
    outputs = _detected(CLASSES + 1)
    outputs["pred_masks"] = torch.randn(BATCH, QUERIES, MASK, MASK, requires_grad=True)
    return {"outputs": outputs, "targets": _targets(masks=True)}


def _config(name: str, **changed: Any) -> Any:
    """A configuration of transformers, from which detection losses take their weights."""
    config = getattr(importlib.import_module("transformers"), name)()
    for field, value in {"num_labels": CLASSES, **changed}.items():
        setattr(config, field, value)
    return config


def _matcher(m: Any, name: str) -> Any:
    return getattr(m, name)(class_cost=1.0, bbox_cost=5.0, giou_cost=2.0)


def _detr(losses: list[str]) -> Make:
    return lambda m, device: m.ImageLoss(_matcher(m, "HungarianMatcher"), CLASSES, 0.1, losses).to(
        device
    )


def _scores() -> Inputs:
    return {
        "x": torch.randn(BATCH, CLASSES, requires_grad=True),
        "y": torch.randint(0, CLASSES, (BATCH,)),
    }


def _many_labels() -> Inputs:
    labels = (torch.rand(BATCH, CLASSES) > 0.5).float()
    return {"x": torch.randn(BATCH, CLASSES, requires_grad=True), "y": labels}


def _soft_labels() -> Inputs:
    labels = torch.rand(BATCH, CLASSES).softmax(-1)
    return {"x": torch.randn(BATCH, CLASSES, requires_grad=True), "y": labels}


def _split_scores() -> Inputs:
    return {
        "x": torch.randn(6, CLASSES, requires_grad=True),
        "y": torch.randint(0, CLASSES, (6,)),
    }


def _sequence() -> Inputs:
    labels = torch.randint(0, CLASSES, (BATCH, TOKENS))
    labels[:, :3] = -100
    logits = torch.randn(BATCH, TOKENS, CLASSES, requires_grad=True)
    return {"logits": logits, "labels": labels}


def _language() -> Inputs:
    return {**_sequence(), "vocab_size": CLASSES, "num_items_in_batch": torch.tensor(14)}


def _classified() -> Inputs:
    config = _config("BertConfig", problem_type=None)
    labels = torch.randint(0, CLASSES, (BATCH,))
    scores = torch.randn(BATCH, CLASSES, requires_grad=True)
    return {"labels": labels, "pooled_logits": scores, "config": config}


def _answers() -> Inputs:
    return {
        "start_logits": torch.randn(BATCH, TOKENS, requires_grad=True),
        "end_logits": torch.randn(BATCH, TOKENS, requires_grad=True),
        "start_positions": torch.randint(0, TOKENS, (BATCH, 1)),
        "end_positions": torch.randint(0, TOKENS, (BATCH, 1)),
    }


def _segments() -> Inputs:
    return {
        "logits": torch.randn(BATCH, CLASSES, 8, 8, requires_grad=True),
        "labels": torch.randint(0, CLASSES, (BATCH, MASK, MASK)),
        "auxiliary_logits": torch.randn(BATCH, CLASSES, 8, 8, requires_grad=True),
    }


def _transcribed() -> Inputs:
    labels = torch.randint(1, CLASSES, (BATCH, 4))
    labels[1, 2:] = -100
    return {
        "logits": torch.randn(BATCH, 20, CLASSES, requires_grad=True),
        "labels": labels,
        "logit_lengths": torch.tensor([20, 15]),
        "blank_token_id": 0,
    }


def _transduced() -> Inputs:
    return {
        "token_logits": torch.randn(BATCH, 6, 4, CLASSES + 1, requires_grad=True),
        "duration_logits": torch.randn(BATCH, 6, 4, 3, requires_grad=True),
        "targets": torch.randint(0, CLASSES, (BATCH, 3)),
        "logit_lengths": torch.tensor([6, 5]),
        "target_lengths": torch.tensor([3, 2]),
        "blank_token_id": CLASSES,
        "durations": [0, 1, 2],
    }


def _moe() -> Inputs:
    return {
        "gate_logits": tuple(torch.randn(BATCH * TOKENS, 4, requires_grad=True) for _ in range(2)),
        "num_experts": 4,
        "top_k": 2,
        "attention_mask": torch.ones(BATCH, TOKENS, dtype=torch.long),
    }


def _contrasted() -> Inputs:
    return {"logits": torch.randn(BATCH, BATCH, requires_grad=True)}


def _confident() -> Inputs:
    return {**_sequence(), "lambda_conf": 0.5, "temperature": 0.7}


def _noised() -> Inputs:
    return {"timesteps": torch.randint(0, 1000, (BATCH,))}


def _snr(m: Any, device: torch.device) -> Callable[..., Any]:
    scheduler = importlib.import_module("diffusers").DDPMScheduler()
    return lambda timesteps: m.compute_snr(scheduler, timesteps)


def _of(name: str, *arguments: Any, **named: Any) -> Make:
    """A loss class of the module, made with these arguments and moved to the device."""
    return lambda m, device: getattr(m, name)(*arguments, **named).to(device)


def _function(name: str) -> Make:
    return lambda m, device: getattr(m, name)  # type: ignore[no-any-return]


_TIMM = "timm.loss"
_LOSS = "transformers.loss"
_XY = ("x", "y")
_CASES: dict[str, _Case] = {
    "DetrLoss": _Case(f"{_LOSS}.loss_for_object_detection", _detr(LOSSES), _with_auxiliary),
    "DetrMaskLoss": _Case(
        f"{_LOSS}.loss_for_object_detection", _detr([*LOSSES, "masks"]), _with_masks
    ),
    "HungarianMatcher": _Case(
        f"{_LOSS}.loss_for_object_detection",
        lambda m, device: _matcher(m, "HungarianMatcher"),
        _detection(CLASSES + 1),
    ),
    "DeformableDetrLoss": _Case(
        f"{_LOSS}.loss_deformable_detr",
        lambda m, device: m.DeformableDetrImageLoss(
            _matcher(m, "DeformableDetrHungarianMatcher"), CLASSES, 0.25, LOSSES
        ).to(device),
        _detection(),
    ),
    "LwDetrLoss": _Case(
        f"{_LOSS}.loss_lw_detr",
        lambda m, device: m.LwDetrImageLoss(
            _matcher(m, "LwDetrHungarianMatcher"), CLASSES, 0.25, LOSSES, 2
        ).to(device),
        _detection(queries=2 * QUERIES),
    ),
    "RTDetrLoss": _Case(
        f"{_LOSS}.loss_rt_detr",
        lambda m, device: m.RTDetrLoss(_config("RTDetrConfig")).to(device),
        _detection(),
    ),
    "ForCausalLMLoss": _Case(f"{_LOSS}.loss_utils", _function("ForCausalLMLoss"), _language),
    "ForMaskedLMLoss": _Case(f"{_LOSS}.loss_utils", _function("ForMaskedLMLoss"), _language),
    "ForSequenceClassificationLoss": _Case(
        f"{_LOSS}.loss_utils", _function("ForSequenceClassificationLoss"), _classified
    ),
    "ForQuestionAnsweringLoss": _Case(
        f"{_LOSS}.loss_utils", _function("ForQuestionAnsweringLoss"), _answers
    ),
    "ForSemanticSegmentationLoss": _Case(
        f"{_LOSS}.loss_utils", _function("ForSemanticSegmentationLoss"), _segments
    ),
    "ForCTCLoss": _Case(f"{_LOSS}.loss_ctc", _function("ForCTCLoss"), _transcribed),
    "tdt_loss": _Case(f"{_LOSS}.loss_tdt", _function("tdt_loss"), _transduced),
    "load_balancing_loss": _Case(
        "transformers.models.mixtral.modeling_mixtral",
        _function("load_balancing_loss_func"),
        _moe,
    ),
    "clip_contrastive_loss": _Case(
        "transformers.models.clip.modeling_clip", _function("contrastive_loss"), _contrasted
    ),
    "AsymmetricLossMultiLabel": _Case(
        _TIMM, _of("AsymmetricLossMultiLabel"), _many_labels, positional=_XY
    ),
    "AsymmetricLossSingleLabel": _Case(
        _TIMM, _of("AsymmetricLossSingleLabel"), _scores, positional=_XY
    ),
    "BinaryCrossEntropy": _Case(
        _TIMM, _of("BinaryCrossEntropy", target_threshold=0.2), _scores, positional=_XY
    ),
    "LabelSmoothingCrossEntropy": _Case(
        _TIMM, _of("LabelSmoothingCrossEntropy"), _scores, positional=_XY
    ),
    "SoftTargetCrossEntropy": _Case(
        _TIMM, _of("SoftTargetCrossEntropy"), _soft_labels, positional=_XY
    ),
    "JsdCrossEntropy": _Case(_TIMM, _of("JsdCrossEntropy"), _split_scores, positional=_XY),
    "PolyCrossEntropy": _Case(
        f"{_TIMM}.poly_loss", _of("PolyCrossEntropy", smoothing=0.1), _scores, positional=_XY
    ),
    "PolyBinaryCrossEntropy": _Case(
        f"{_TIMM}.poly_loss",
        _of("PolyBinaryCrossEntropy", gamma=2.0, alpha=0.25),
        _many_labels,
        positional=_XY,
    ),
    "TwoWayLoss": _Case(f"{_TIMM}.two_way_loss", _of("TwoWayLoss"), _many_labels, positional=_XY),
    "ZlprLoss": _Case(f"{_TIMM}.zlpr_loss", _of("ZlprLoss"), _many_labels, positional=_XY),
    "DistributionBalancedLoss": _Case(
        f"{_TIMM}.distribution_balanced_loss",
        _of("DistributionBalancedLoss", [10.0, 5.0, 3.0, 2.0, 1.0], 21),
        _many_labels,
        positional=_XY,
    ),
    "confidence_aware_loss": _Case(
        "diffusers.training_utils", _function("compute_confidence_aware_loss"), _confident
    ),
    "compute_snr": _Case("diffusers.training_utils", _snr, _noised),
}


def entries() -> list[Entry]:
    """All measured losses, each a family of its own, in train mode."""
    return [
        Entry(
            f"loss/{name}",
            case.module.partition(".")[0],
            name,
            family=f"loss/{name}",
            modes=("train",),
            builder=__name__,
        )
        for name, case in _CASES.items()
    ]


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Inputs]:
    """The loss and its inputs."""
    case = _CASES[entry.cls]
    module = importlib.import_module(case.module)
    return Called(lambda device: case.make(module, device), case.positional), case.inputs()
