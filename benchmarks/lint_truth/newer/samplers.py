"""The schedulers of diffusers: `step`, `add_noise` and their kin, called as pipelines call them.

Plain classes, no modules. `set_timesteps` runs before what is measured.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.lint_truth.builders import Calls, Entry
from benchmarks.lint_truth.newer.called import Sampler
from benchmarks.lint_truth.shapes import BATCH

STEPS = 6
#: Solvers of higher order take another way on their first steps.
CALLS = 3
LATENT = (BATCH, 4, 8, 8)
CODES = 16
TOKENS = 10

Maker = Callable[[], Any]


def _latents() -> torch.Tensor:
    return torch.randn(*LATENT)


@dataclass(frozen=True)
class _Case:
    """A scheduler, how it is constructed, and what a step is given beside its time."""

    cls: str
    made_with: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Maker] = field(
        default_factory=lambda: {"model_output": _latents, "sample": _latents}
    )
    more: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=lambda: {"num_inference_steps": STEPS})
    method: str = "step"
    timed: str = "timestep"
    batched: bool = False
    name: str = ""

    @property
    def label(self) -> str:
        return f"sampler/{self.name or self.cls}.{self.method}"


def _tokens(high: int) -> Maker:
    return lambda: torch.randint(0, high, (BATCH, TOKENS))


def _logits(high: int) -> Maker:
    return lambda: torch.randn(BATCH, TOKENS, high)


_TWO_CHANNELS: dict[str, Maker] = {
    "model_output": lambda: torch.randn(BATCH, 8, 8, 8),
    "sample": _latents,
}
_TEXT: dict[str, Maker] = {"model_output": _logits(CODES), "sample": _tokens(CODES)}

_STEPS = (
    _Case("DDIMScheduler"),
    _Case("DDIMScheduler", {"thresholding": True}, more={"eta": 0.5}, name="DDIMThresholding"),
    _Case("DDIMInverseScheduler"),
    _Case("DDIMParallelScheduler", more={"eta": 0.5}),
    _Case("DDPMScheduler"),
    _Case(
        "DDPMScheduler",
        {"variance_type": "learned_range", "thresholding": True},
        _TWO_CHANNELS,
        name="DDPMLearned",
    ),
    _Case("DDPMParallelScheduler"),
    _Case("DDPMWuerstchenScheduler", batched=True),
    _Case("DEISMultistepScheduler"),
    _Case("DEISMultistepScheduler", {"use_karras_sigmas": True}, name="DEISKarras"),
    _Case("DPMSolverMultistepScheduler"),
    _Case(
        "DPMSolverMultistepScheduler",
        {"algorithm_type": "sde-dpmsolver++", "thresholding": True, "use_karras_sigmas": True},
        name="DPMSolverSDEKarras",
    ),
    _Case("DPMSolverMultistepScheduler", {"solver_order": 3}, name="DPMSolverThird"),
    _Case("DPMSolverMultistepInverseScheduler"),
    _Case("DPMSolverSinglestepScheduler"),
    _Case("DPMSolverSDEScheduler"),
    _Case("CosineDPMSolverMultistepScheduler"),
    _Case("EDMDPMSolverMultistepScheduler"),
    _Case("EDMEulerScheduler"),
    _Case("EulerAncestralDiscreteScheduler"),
    _Case("EulerDiscreteScheduler"),
    _Case("EulerDiscreteScheduler", more={"s_churn": 0.5}, name="EulerChurn"),
    _Case("FlowMapEulerDiscreteScheduler"),
    _Case("FlowMatchEulerDiscreteScheduler"),
    _Case("FlowMatchEulerDiscreteScheduler", {"stochastic_sampling": True}, name="FlowMatchSDE"),
    _Case("FlowMatchHeunDiscreteScheduler"),
    _Case("FlowMatchLCMScheduler"),
    _Case("HeliosScheduler", settings={"num_inference_steps": STEPS, "stage_index": 0}),
    _Case("HeliosDMDScheduler", settings={"num_inference_steps": STEPS, "stage_index": 0}),
    _Case("HeunDiscreteScheduler"),
    _Case("IPNDMScheduler"),
    _Case("KDPM2AncestralDiscreteScheduler"),
    _Case("KDPM2DiscreteScheduler"),
    _Case("LCMScheduler"),
    _Case("LMSDiscreteScheduler"),
    _Case("LTXEulerAncestralRFScheduler"),
    _Case("MiniMaxH3Scheduler"),
    _Case("PNDMScheduler"),
    _Case("PNDMScheduler", {"skip_prk_steps": True}, name="PNDMWithoutRungeKutta"),
    _Case(
        "PiflowScheduler",
        given={"model_output": lambda: torch.randn(BATCH, 40, 8, 8), "sample": _latents},
    ),
    _Case("RFD4ProteinaScheduler"),
    _Case(
        "RePaintScheduler",
        given={
            "model_output": _latents,
            "sample": _latents,
            "original_image": _latents,
            "mask": lambda: torch.ones(*LATENT),
        },
        settings={"num_inference_steps": 10, "jump_length": 2, "jump_n_sample": 2},
    ),
    _Case("SASolverScheduler"),
    _Case("SCMScheduler", settings={"num_inference_steps": 4, "intermediate_timesteps": None}),
    _Case("TCDScheduler", more={"eta": 0.3}),
    _Case("UnCLIPScheduler"),
    _Case("UniPCMultistepScheduler"),
    _Case(
        "UniPCMultistepScheduler",
        {"use_flow_sigmas": True, "prediction_type": "flow_prediction"},
        name="UniPCFlow",
    ),
    _Case("CMStochasticIterativeScheduler", settings={"num_inference_steps": 4}),
    _Case("CogVideoXDDIMScheduler"),
    _Case(
        "CogVideoXDPMScheduler",
        given={
            "model_output": _latents,
            "sample": _latents,
            "old_pred_original_sample": _latents,
        },
        more={"timestep_back": 990},
    ),
    _Case("ScoreSdeVeScheduler", method="step_pred"),
    _Case("ScoreSdeVeScheduler", method="step_correct", timed=""),
    _Case(
        "KarrasVeScheduler",
        given={"model_output": _latents, "sample_hat": _latents},
        more={"sigma_hat": 1.5, "sigma_prev": 1.0},
        timed="",
    ),
    _Case(
        "AmusedScheduler",
        {"mask_token_id": CODES - 1},
        {
            "model_output": lambda: torch.randn(BATCH, CODES, 4, 4),
            "sample": lambda: torch.full((BATCH, 4, 4), CODES - 1),
        },
    ),
    _Case(
        "VQDiffusionScheduler",
        {"num_vec_classes": CODES},
        {
            "model_output": lambda: torch.randn(BATCH, CODES - 1, TOKENS).log_softmax(1),
            "sample": _tokens(CODES),
        },
    ),
    _Case(
        "BlockRefinementScheduler",
        given=_TEXT,
        more={"mask_token_id": CODES - 1, "temperature": 0.5, "top_k": 4, "top_p": 0.9},
    ),
    _Case("DiscreteDDIMScheduler", given=_TEXT),
    _Case("EntropyBoundScheduler", given=_TEXT),
)

#: Schedulers whose `add_noise` takes times, one a sample.
_NOISED = (
    "DDIMScheduler",
    "DDPMScheduler",
    "DDPMWuerstchenScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "EDMEulerScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LCMScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "TCDScheduler",
    "UniPCMultistepScheduler",
    "CMStochasticIterativeScheduler",
)
_VELOCITIES = ("DDPMScheduler", "EulerDiscreteScheduler")
_SCALED_NOISE = ("FlowMatchEulerDiscreteScheduler", "FlowMatchLCMScheduler")
_SCALED_INPUT = (
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "LMSDiscreteScheduler",
    "EDMEulerScheduler",
    "CMStochasticIterativeScheduler",
)


def _several() -> list[_Case]:
    """Cases of the methods other than `step`."""
    noise: dict[str, Maker] = {"original_samples": _latents, "noise": _latents}
    scaled: dict[str, Maker] = {"sample": _latents, "noise": _latents}
    sample: dict[str, Maker] = {"sample": _latents}
    velocity: dict[str, Maker] = {"sample": _latents, "noise": _latents}
    return [
        *(_Case(cls, given=noise, method="add_noise", timed="timesteps") for cls in _NOISED),
        *(
            _Case(cls, given=velocity, method="get_velocity", timed="timesteps")
            for cls in _VELOCITIES
        ),
        *(_Case(cls, given=scaled, method="scale_noise", batched=True) for cls in _SCALED_NOISE),
        *(_Case(cls, given=sample, method="scale_model_input") for cls in _SCALED_INPUT),
    ]


_CASES = {case.label: case for case in (*_STEPS, *_several())}


class _Batched(Sampler):
    """A method that takes one time a sample of the batch."""

    def prepare(self, device: torch.device) -> None:
        """Choose the times, and one of them for each sample."""
        super().prepare(device)
        times = self.scheduler.timesteps
        self.times = [times[step : step + 1].repeat(BATCH) for step in range(CALLS)]


def entries() -> list[Entry]:
    """All measured methods of schedulers; a scheduler is a family."""
    return [
        Entry(
            label,
            "diffusers",
            case.cls,
            family=f"diffusers/{case.cls}",
            modes=("eval",),
            builder=__name__,
        )
        for label, case in _CASES.items()
    ]


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Calls]:
    """The scheduler's method and the arguments of three calls, as in the first steps of a loop."""
    case = _CASES[entry.name]
    scheduler = getattr(importlib.import_module("diffusers"), case.cls)(**case.made_with)
    batched = case.batched or case.timed == "timesteps"
    kind = _Batched if batched else Sampler
    calls: Calls = [
        {"step": step, **{name: make() for name, make in case.given.items()}, **case.more}
        for step in range(CALLS)
    ]
    return kind(scheduler, case.method, case.settings, case.timed), calls
