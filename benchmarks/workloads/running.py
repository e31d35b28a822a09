"""One variant of one workload, built and ready to be called."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from typing import Any

import torch
from torch._dynamo import pgo

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.variants import Variant, compiled

_SEED = 0


@dataclasses.dataclass
class Running:
    """A case with its compiled module.

    ``call`` is one inference, or one forward, loss, backward and (where there is an optimizer)
    update.
    """

    workload: Workload
    variant: Variant
    case: Case
    function: Any
    device: torch.device

    def forward(self, batch: Batch) -> Any:
        """The module's outputs, under autocast where the workload wants it."""
        with self._precision():
            return self.function(*batch.args, **batch.kwargs)

    def call(self, batch: Batch) -> Any:
        """One call as it is timed; returns the outputs (inference) or the loss (training)."""
        if self.variant.marks_steps:
            torch.compiler.cudagraph_mark_step_begin()
        if not self.workload.training:
            with torch.no_grad():
                return self.forward(batch)
        loss = self.gradients(batch)[1]
        if self.case.optimizer is not None:
            self.case.optimizer.step()
        self.case.module.zero_grad(set_to_none=True)
        return loss

    def gradients(self, batch: Batch) -> tuple[Any, torch.Tensor]:
        """Outputs and loss, with the gradients left in the parameters."""
        if self.case.loss is None:
            raise ValueError(f"workload {self.workload.name} has no loss")
        outputs = self.forward(batch)
        loss = self.case.loss(outputs, batch.target)
        loss.backward()
        return outputs, loss.detach()

    def reset(self) -> None:
        """Puts mutable state back to where timing starts."""
        if self.case.reset is not None:
            self.case.reset()

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self.workload.autocast:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()


def build(workload: Workload, variant: Variant, device: torch.device, tiny: bool) -> Running:
    """Builds a variant with the weights that every variant of this workload has."""
    case = build_case(workload, Setting(device, workload.dtype, tiny))
    # Each variant finds out for itself which sizes change, as in a process of its own. One that
    # knew it from another's calls would compile other code, from the first call on.
    pgo.reset_code_state()
    function = compiled(case.module, variant, workload.dynamic)
    return Running(workload, variant, case, function, device)


def build_case(workload: Workload, setting: Setting) -> Case:
    """Builds the case from a fixed seed."""
    torch.manual_seed(_SEED)
    return workload.build(setting)


def draw_batches(running: Running, count: int, seed: int) -> list[Batch]:
    """``count`` batches, made beforehand; call ``i`` of a sequence uses the batch ``i % count``."""
    draw = Draw(running.device, seed)
    return [running.case.draw_batch(draw, index) for index in range(count)]


def pool_size(running: Running, wanted: int, limit_bytes: float = 4e9) -> int:
    """How many batches to keep: ``wanted`` if they fit, at least three, a multiple of the input
    shapes.
    """
    shapes = running.workload.distinct_shapes
    size = max(1, running.case.draw_batch(Draw(running.device, 0), 0).nbytes())
    count = max(3, min(wanted, int(limit_bytes / size)))
    return -(-count // shapes) * shapes


def synchronize(device: torch.device) -> None:
    """Waits for the device; nothing to do on the CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def free_memory(device: torch.device) -> None:
    """Collects garbage and returns cached device memory."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
