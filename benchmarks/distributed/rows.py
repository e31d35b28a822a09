"""What is judged: the cases, and what is done with each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.distributed.cases import Case
from benchmarks.distributed.models import Shape

GPT2 = Shape("gpt2", 768, 12, 12, vocabulary=50304)
LLAMA = Shape("llama", 768, 12, 12)
# Large enough for every way of splitting, small enough for a CPU.
TINY = Shape("llama", 16, 2, 2, vocabulary=32, length=8)

RIGHT = (
    Case("ddp", "ddp", GPT2),
    Case("ddp, optimize_ddp off", "ddp", GPT2, settings={"optimize_ddp": False}),
    Case("ddp, small buckets", "ddp", LLAMA, settings={"bucket_mb": 1}),
    Case("ddp, no_sync", "ddp", LLAMA, settings={"accumulate": 2}),
    Case("fsdp", "fsdp", LLAMA),
    Case("fsdp, no reshard", "fsdp", GPT2, settings={"reshard": False}),
    Case("fsdp, bf16", "fsdp", LLAMA, settings={"bf16": True}),
    Case("fsdp, checkpointing", "fsdp", LLAMA, settings={"checkpointing": True}),
    Case("fsdp, hooks and clipping", "fsdp", LLAMA, settings={"hooks": True, "clip": 0.1}),
    Case("fsdp, saved and loaded", "fsdp", LLAMA, settings={"save": 3}),
    Case("fsdp, offload", "fsdp", LLAMA, settings={"offload": True}),
    Case("tp", "tp", LLAMA),
    Case("tp, sequence parallel", "tp", LLAMA, settings={"sequence": True}),
    Case("tp decode", "decode", LLAMA),
    Case("pipeline", "pipeline", LLAMA, batch=4),
    Case("two models on two devices", "two models", GPT2),
)
"""Compared with default mode, bit for bit."""

MESHES = (
    Case("fsdp x tp", "fsdp x tp", LLAMA, dims=(2,), settings={"sequence": True}),
    Case("ddp x tp", "ddp x tp", LLAMA, dims=(2,)),
    Case("pipeline x fsdp", "pipeline x fsdp", LLAMA, batch=4, dims=(2,)),
)
"""Meshes of two dimensions, for four ranks or more."""


def sized(shape: Shape, hidden: int) -> Shape:
    """A model of another width, with as many layers as one GPU trains beside two others."""
    layers = {768: 12, 2048: 12, 4096: 6}[hidden]
    return replace(shape, hidden=hidden, layers=layers, heads=hidden // 64)


TRAINING = tuple(
    Case(
        f"{spread}, {shape.kind} {hidden}, batch {batch}{'' if reshard else ', no reshard'}",
        spread,
        sized(shape, hidden),
        batch,
        settings={"reshard": reshard, "bf16": True},
    )
    for spread, reshards in (("fsdp", (True, False)), ("ddp", (True,)))
    for shape in (GPT2, LLAMA)
    for hidden in (768, 2048, 4096)
    for batch in (1, 8)
    for reshard in reshards
)
_8B = Shape("llama", 4096, 32, 32, 128256, 2048, inner=14336, key_heads=8)
_1B = replace(_8B, hidden=2048, layers=16, inner=8192)
_BF16 = {"dtype": "bfloat16"}
_TRAINING_1B = Case("training, llama 1B", "fsdp", _1B, settings={"bf16": True})
TIMED = (
    *TRAINING,
    Case("ddp, gpt2 768, 512 tokens, fp32", "ddp", replace(GPT2, length=512)),
    Case(
        "tp decode, 8 layers of 2048",
        "decode",
        replace(sized(LLAMA, 2048), layers=8),
        settings=_BF16,
    ),
    Case("tp decode, llama 8B", "decode", _8B, settings=_BF16),
    Case("tp, llama 2048", "tp", sized(LLAMA, 2048), settings=_BF16),
    Case(
        "tp, sequence parallel, llama 2048",
        "tp",
        sized(LLAMA, 2048),
        settings={"sequence": True, **_BF16},
    ),
    Case("model on a GPU that is not current", "other device", GPT2),
    Case("pipeline, llama 2048", "pipeline", sized(LLAMA, 2048), batch=4, settings=_BF16),
    _TRAINING_1B,
    Case("training, llama 8B", "fsdp", _8B, settings={"bf16": True, "checkpointing": True}),
)
"""Timed in all modes."""


@dataclass(frozen=True)
class Row:
    """One measurement. kind: a name of `worker.KINDS`; steps: of it; seconds: what all ranks may
    take.
    """

    kind: str
    case: Case
    steps: int
    seconds: int = 500
    fault: str = ""

    @property
    def name(self) -> str:
        """What the result file calls it."""
        return ": ".join(filter(None, (self.kind, self.fault, self.case.name)))

    @property
    def apart(self) -> bool:
        """Whether each mode runs in processes of its own beside default mode: where ranks wait for
        each other in the middle of a step, one that fails leaves the others waiting.
        """
        return self.kind == "speed" and self.case.spread.startswith("pipeline")

    def tiny(self) -> Row:
        """The same for a CPU: a few steps of a tiny model."""
        case = replace(
            self.case, shape=replace(TINY, kind=self.case.shape.kind), batch=min(self.case.batch, 4)
        )
        return replace(self, case=case, steps=min(self.steps, 12))


def _seconds(case: Case) -> int:
    """What a row's ranks may take; twice that where modes run apart."""
    if case.spread.startswith("pipeline"):
        return 200
    return 1200 if case.shape is _8B else 500


FAULTS = ("none", "killed", "raising", "late", "out of memory")
SMALL = {case.name: case for case in RIGHT}
ROWS = (
    *(Row("right", case, 50) for case in (*RIGHT, *MESHES, _TRAINING_1B)),
    *(Row("speed", case, 40, _seconds(case)) for case in (*TIMED, *MESHES)),
    *(Row("soak", SMALL[name], 2000) for name in ("ddp", "fsdp", "tp")),
    *(Row("freed", SMALL[name], 400) for name in ("fsdp", "ddp")),
    *(Row("faults", SMALL[name], 60, 300, fault) for name in ("fsdp", "ddp") for fault in FAULTS),
    Row("layers", SMALL["tp decode"], 60),
)
"""All of them, in the order they are measured."""
