"""Metrics: functions and modules with state."""

from __future__ import annotations

import torch
import torchmetrics
from torchmetrics import functional

from benchmarks.lint_truth_packages.programs import Call, call


def _classes() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.softmax(torch.randn(12, 4), dim=-1), torch.randint(0, 4, (12,))


def accuracy() -> Call:
    return call(functional.accuracy, *_classes(), task="multiclass", num_classes=4)


def f1_without_validation() -> Call:
    return call(functional.classification.multiclass_f1_score, *_classes(), 4, validate_args=False)


def area_under_curve() -> Call:
    return call(functional.classification.multiclass_auroc, *_classes(), num_classes=4)


def binned_precision_recall() -> Call:
    return call(
        functional.classification.binary_precision_recall_curve,
        torch.rand(12),
        torch.randint(0, 2, (12,)),
        thresholds=5,
    )


def confusion_matrix() -> Call:
    return call(functional.confusion_matrix, *_classes(), task="multiclass", num_classes=4)


def calibration_error() -> Call:
    return call(functional.calibration_error, *_classes(), task="multiclass", num_classes=4)


def retrieval() -> Call:
    target = torch.randint(0, 2, (12,))
    return call(functional.retrieval_normalized_dcg, torch.rand(12), target, top_k=5)


def structural_similarity() -> Call:
    images = torch.rand(2, 3, 24, 24)
    return call(functional.structural_similarity_index_measure, images, 0.9 * images)


def signal_distortion() -> Call:
    target = torch.randn(2, 400)
    estimate = target + 0.1 * torch.randn(2, 400)
    return call(functional.signal_distortion_ratio, estimate, target, filter_length=16)


def spearman() -> Call:
    return call(functional.spearman_corrcoef, torch.randn(12), torch.randn(12))


def perplexity() -> Call:
    target = torch.randint(0, 5, (2, 6))
    return call(functional.text.perplexity, torch.randn(2, 6, 5), target, ignore_index=1)


def module_update() -> Call:
    metric = torchmetrics.Accuracy(task="multiclass", num_classes=4)
    return Call(metric.update, _classes(), state=[metric.metric_state])


def module_forward() -> Call:
    metric = torchmetrics.MeanSquaredError()
    return Call(metric, (torch.randn(12), torch.randn(12)), state=[metric.metric_state])


def collection() -> Call:
    metrics = torchmetrics.MetricCollection(
        [torchmetrics.MeanAbsoluteError(), torchmetrics.R2Score(), torchmetrics.PearsonCorrCoef()]
    )
    states = [metric.metric_state for metric in metrics.values()]
    return Call(metrics, (torch.randn(12), torch.randn(12)), state=states)


def running_mean() -> Call:
    metric = torchmetrics.MeanMetric(nan_strategy="warn")
    return Call(metric.update, (torch.randn(12),), state=[metric.metric_state])
