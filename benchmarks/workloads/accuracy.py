"""Outputs and gradients against the same weights run eagerly in higher precision."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.workloads import running
from benchmarks.workloads.base import Batch, Setting, Workload
from benchmarks.workloads.variants import Variant

_CALLS = 2


@dataclasses.dataclass(frozen=True)
class Answer:
    """What one sequence of calls gave, copied out."""

    outputs: list[torch.Tensor]
    gradients: list[torch.Tensor]


def reference(live: running.Running, batches: list[Batch], tiny: bool) -> Answer:
    """The answers in the workload's reference precision, from ``live``'s weights, without
    autocast.
    """
    workload = live.workload
    setting = Setting(live.device, workload.reference_dtype, tiny)
    case = running.build_case(workload, setting)
    case.module.load_state_dict(live.case.module.state_dict())
    exact = dataclasses.replace(workload, precision="fp32")
    eager = running.Running(exact, Variant("reference", None), case, case.module, live.device)
    with _full_precision():
        return answer(eager, [_cast(batch, workload, setting.dtype) for batch in batches])


def answer(live: running.Running, batches: list[Batch]) -> Answer:
    """Outputs of the first calls after a reset, and (training) the gradients of the first of
    them.
    """
    live.reset()
    outputs: list[torch.Tensor] = []
    gradients: list[torch.Tensor] = []
    for index, batch in enumerate(batches[:_CALLS]):
        if live.variant.marks_steps:
            torch.compiler.cudagraph_mark_step_begin()
        if live.workload.training:
            result, _ = live.gradients(batch)
            if index == 0:
                gradients = _copied_gradients(live.case.module)
            live.case.module.zero_grad(set_to_none=True)
        else:
            with torch.no_grad():
                result = live.forward(batch)
        outputs += [tensor.detach().float().clone() for tensor in live.workload.compared(result)]
        del result
    return Answer(outputs, gradients)


def errors(found: Answer, wanted: Answer) -> dict[str, float | None]:
    """Largest relative error of any output, and the relative error of all gradients together.

    Relative error is ``|found - wanted| / |wanted|`` in the Euclidean norm. Infinite where shapes
    differ or a value is not finite though it should be; None for gradients of inference.
    """
    if [t.shape for t in found.outputs] != [t.shape for t in wanted.outputs]:
        return {"outputs": math.inf, "gradients": None}
    largest = max(
        (_relative([a], [b]) for a, b in zip(found.outputs, wanted.outputs, strict=True)),
        default=0.0,
    )
    if not wanted.gradients:
        return {"outputs": largest, "gradients": None}
    return {"outputs": largest, "gradients": _relative(found.gradients, wanted.gradients)}


def agrees(
    found: dict[str, float | None],
    eager: dict[str, float | None],
    from_default: dict[str, float | None] | None,
    tolerance: float,
) -> bool:
    """Whether no error exceeds both the tolerance and twice eager's own.

    Where eager itself is further from the reference than the tolerance, that says little; then the
    difference from default mode, which runs the same kernels, has to be within the tolerance.
    """
    for name, value in found.items():
        own = eager[name]
        if value is None or own is None:
            continue
        if not value <= max(tolerance, 2 * own):
            return False
        apart = from_default[name] if from_default is not None else None
        if own > tolerance and apart is not None and not apart <= tolerance:
            return False
    return True


def _relative(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    if len(found) != len(wanted):
        return math.inf
    difference = size = 0.0
    for one, other in zip(found, wanted, strict=True):
        good = other.isfinite()
        one, other = one.double()[good], other.double()[good]
        difference += (one - other).square().sum().item()
        size += other.square().sum().item()
    if math.isnan(difference):
        return math.inf
    return math.sqrt(difference / size) if size else math.sqrt(difference)


def _copied_gradients(module: torch.nn.Module) -> list[torch.Tensor]:
    return [
        parameter.grad.detach().float().clone()
        for parameter in module.parameters()
        if parameter.grad is not None
    ]


def _cast(batch: Batch, workload: Workload, dtype: torch.dtype) -> Batch:
    """The same values in the reference's precision."""

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(dtype) if value.dtype == workload.dtype else value
        if isinstance(value, (tuple, list)):
            return type(value)(cast(item) for item in value)
        return value

    kwargs = {name: cast(value) for name, value in batch.kwargs.items()}
    return Batch(cast(batch.args), kwargs, batch.target)


@contextlib.contextmanager
def _full_precision() -> Iterator[None]:
    """Matrix products and convolutions without TF32."""
    products = torch.get_float32_matmul_precision()
    convolutions = torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions
