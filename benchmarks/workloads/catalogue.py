"""All workloads, in order of interest: what today's CUDA graphs handle worst comes first."""

from __future__ import annotations

from benchmarks.workloads.base import Workload
from benchmarks.workloads.zoo import (
    alexnet,
    bert_pytorch,
    blenderbot,
    dalle2,
    dcgan,
    deberta,
    deeprecommender,
    densenet,
    diffusion_step,
    distilgpt2,
    dlrm,
    dynamic_detector,
    efficientdet,
    gpt_training,
    lcnet,
    llama_decode,
    maskrcnn,
    mixture_of_experts,
    mobilebert,
    mt5,
    multimodal_clip,
    pyhpc_equation_of_state,
    pyhpc_turbulent_kinetic_energy,
    speech2text2,
    speech_transformer,
    xlnet,
)

_MODULES = (
    llama_decode,
    multimodal_clip,
    speech_transformer,
    deeprecommender,
    xlnet,
    dlrm,
    diffusion_step,
    dynamic_detector,
    mixture_of_experts,
    pyhpc_turbulent_kinetic_energy,
    pyhpc_equation_of_state,
    mt5,
    gpt_training,
    alexnet,
    distilgpt2,
    bert_pytorch,
    speech2text2,
    dcgan,
    deberta,
    dalle2,
    lcnet,
    mobilebert,
    blenderbot,
    densenet,
    efficientdet,
    maskrcnn,
)

WORKLOADS: tuple[Workload, ...] = tuple(
    workload for module in _MODULES for workload in module.WORKLOADS
)


def named(name: str) -> Workload:
    """The workload of that name. Raises ``KeyError`` with the names there are."""
    for workload in WORKLOADS:
        if workload.name == name:
            return workload
    known = ", ".join(workload.name for workload in WORKLOADS)
    raise KeyError(f"no workload is called {name!r}; there are: {known}")


def describe(workload: Workload) -> str:
    """The first sentence of what the workload stands for."""
    for module in _MODULES:
        if workload in module.WORKLOADS:
            return " ".join((module.__doc__ or "").split("\n\n")[0].split())
    raise KeyError(workload.name)
