"""Attribution of a model's output to its inputs."""

from __future__ import annotations

from typing import Any

import torch
from captum import attr, metrics, robust
from torch import nn

from benchmarks.lint_truth_packages.programs import Call


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def _attribute(kind: str, *more: Any, **named: Any) -> Call:
    model = _model()
    method = getattr(attr, kind)(model, *more)
    return Call(method.attribute, (torch.randn(4, 6),), {"target": 1, **named}, state=model)


def saliency() -> Call:
    return _attribute("Saliency")


def integrated_gradients() -> Call:
    return _attribute("IntegratedGradients", n_steps=5, return_convergence_delta=True)


def input_times_gradient() -> Call:
    return _attribute("InputXGradient")


def deep_lift() -> Call:
    return _attribute("DeepLift", baselines=torch.zeros(4, 6))


def gradient_shap() -> Call:
    return _attribute("GradientShap", baselines=torch.zeros(2, 6), n_samples=3, stdevs=0.1)


def feature_ablation() -> Call:
    return _attribute("FeatureAblation", feature_mask=torch.tensor([[0, 0, 1, 1, 2, 2]]))


def feature_permutation() -> Call:
    return _attribute("FeaturePermutation")


def occlusion() -> Call:
    return _attribute("Occlusion", sliding_window_shapes=(2,), strides=2)


def shapley_values() -> Call:
    return _attribute("ShapleyValueSampling", n_samples=2)


def kernel_shap() -> Call:
    return _attribute("KernelShap", n_samples=8)


def noise_tunnel() -> Call:
    model = _model()
    method = attr.NoiseTunnel(attr.Saliency(model))
    named = {"target": 1, "nt_samples": 3, "nt_type": "smoothgrad_sq"}
    return Call(method.attribute, (torch.randn(4, 6),), named, state=model)


def layer_conductance() -> Call:
    model = _model()
    method = attr.LayerConductance(model, model[0])
    return Call(method.attribute, (torch.randn(4, 6),), {"target": 1, "n_steps": 4}, state=model)


def layer_grad_cam() -> Call:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
    method = attr.LayerGradCam(model, model[0])
    return Call(method.attribute, (torch.randn(2, 1, 8, 8),), {"target": 1}, state=model)


def infidelity() -> Call:
    model = _model()

    def perturb(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noise = 0.1 * torch.randn_like(x)
        return noise, x - noise

    x = torch.randn(4, 6)
    named = {"target": 1, "n_perturb_samples": 3, "normalize": True}
    return Call(lambda: metrics.infidelity(model, perturb, x, torch.ones_like(x), **named))


def projected_gradient_descent() -> Call:
    model = _model()
    attack = robust.PGD(model, nn.CrossEntropyLoss(reduction="none"))
    named = {"radius": 0.1, "step_size": 0.05, "step_num": 2, "target": torch.tensor([0, 1, 2, 0])}
    return Call(attack.perturb, (torch.randn(4, 6),), named, state=model)
