"""How a model is spread over ranks: one program for each case, the same for all modes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
import torch.distributed as distributed
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from benchmarks.distributed.models import Model, Shape, loss_of

Compile = Callable[[nn.Module], Any]


@dataclass(frozen=True)
class Case:
    """A program. spread: how, a name of SPREADS; dims: sizes of the mesh's inner dimensions (the
    outer one takes the other ranks); settings: of the spread; batch: sequences of a step and rank.
    """

    name: str
    spread: str
    shape: Shape = field(default_factory=Shape)
    batch: int = 1
    dims: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        """The number of ranks must be a multiple of this."""
        found = 1
        for size in self.dims:
            found *= size
        return found

    def of(self, shape: Shape, batch: int = 1) -> Case:
        """The same case of another size."""
        kept = replace(shape, kind=self.shape.kind, key_heads=0)
        return replace(self, shape=kept, batch=batch)


class Program(NamedTuple):
    """step: one step of the program, by its number: what it computed, a loss or logits. state: what
    it has changed by now, of this rank. reads: bytes of this rank's memory that each step reads at
    least, where that limits it.
    """

    step: Callable[[int], torch.Tensor]
    state: Callable[[], list[torch.Tensor]]
    reads: int = 0


@dataclass(frozen=True)
class Job:
    """What a spread is given. device: this rank's."""

    case: Case
    compile: Compile
    device: torch.device
    mesh: DeviceMesh

    def model(self, **part: Any) -> Model:
        """The case's model, the same on all ranks."""
        torch.manual_seed(0)
        dtype = getattr(torch, self.case.settings.get("dtype", "float32"))
        return Model(self.case.shape, **part).to(self.device, dtype)

    def tokens(self, number: int, replica: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a step: (batch, length) each, other ones on each replica."""
        shape = self.case.shape
        source = torch.Generator().manual_seed(1000 * number + replica)
        size = (self.case.batch, shape.length + 1)
        ids = torch.randint(0, shape.vocabulary, size, generator=source).to(self.device)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def local(value: Any) -> torch.Tensor:
    """This rank's part of a parameter."""
    found = value.to_local() if hasattr(value, "to_local") else value
    return found.detach().clone()


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Parameters and what the optimizer keeps for them."""
    found = [local(p) for p in model.parameters()]
    for kept in optimizer.state.values():
        found += [local(v) for v in kept.values() if isinstance(v, torch.Tensor)]
    return found


def adam(model: nn.Module, foreach: bool = True) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=foreach)


def ddp(job: Job) -> Program:
    """DistributedDataParallel. settings: optimize_ddp; accumulate: micro-steps under no_sync."""
    from torch.nn.parallel import DistributedDataParallel

    settings = job.case.settings
    torch._dynamo.config.optimize_ddp = settings.get("optimize_ddp", True)
    inner = job.model()
    ids = [job.device.index] if job.device.type == "cuda" else None
    group = job.mesh.get_group(0) if job.mesh.ndim > 1 else None
    outer = DistributedDataParallel(
        inner, ids, process_group=group, bucket_cap_mb=settings.get("bucket_mb", 25)
    )
    model, optimizer = job.compile(outer), adam(inner)
    accumulate, replica = settings.get("accumulate", 1), job.mesh.get_local_rank(0)

    def step(number: int) -> torch.Tensor:
        for part in range(accumulate):
            x, target = job.tokens(accumulate * number + part, replica)
            last = part == accumulate - 1
            with contextlib.nullcontext() if last else outer.no_sync():
                loss = loss_of(model(x), target)
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Program(step, lambda: state_of(inner, optimizer))


def fsdp(job: Job) -> Program:
    """FSDP2 with one compiled block a layer. settings: reshard; bf16: a mixed precision policy;
    checkpointing: of activations; hooks: on modules; clip: gradients' norm; save: a checkpoint is
    saved after this step, and loaded two steps later; offload: parameters to the CPU.
    """
    model = job.model()
    shard(job, model, job.mesh["fsdp"] if job.mesh.ndim > 1 else job.mesh)
    return training(job, model, job.mesh.get_local_rank("fsdp" if job.mesh.ndim > 1 else 0))


def shard(job: Job, model: Model, mesh: DeviceMesh) -> None:
    """Compile each block, and shard it and the model over a mesh."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    settings = job.case.settings
    options: dict[str, Any] = {"mesh": mesh}
    if settings.get("bf16"):
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    if settings.get("offload"):
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=job.device.type == "cuda")
    for name, block in model.blocks.items():
        if settings.get("checkpointing"):
            block = checkpoint_wrapper(block, preserve_rng_state=False)
        model.blocks[name] = job.compile(block)
        fully_shard(
            model.blocks[name], reshard_after_forward=settings.get("reshard", True), **options
        )
    fully_shard(model, **options)


def training(job: Job, model: Model, replica: int, whole: bool = False) -> Program:
    """Training steps of a model that is spread already; `whole`: it is compiled as one."""
    settings = job.case.settings
    parameters = {type(p) for p in model.parameters()}
    optimizer = adam(model, foreach=len(parameters) == 1)
    seen: list[torch.Tensor] = []
    if settings.get("hooks"):
        first = next(iter(model.blocks.values()))
        first.register_forward_hook(lambda block, args, out: seen.append(out.detach().sum()))
        first.register_full_backward_hook(lambda block, into, out: seen.append(out[0].sum()))
    forward = job.compile(model) if whole else model
    saved = Checkpoint(model, optimizer, settings.get("save", -10))

    def step(number: int) -> torch.Tensor:
        x, target = job.tokens(number, replica)
        loss = loss_of(forward(x), target)
        loss.backward()
        if settings.get("clip"):
            norm = nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
            seen.append(local(norm))
        optimizer.step()
        optimizer.zero_grad()
        saved.after(number)
        return loss.detach()

    return Program(step, lambda: [*state_of(model, optimizer), *seen])


class Checkpoint:
    """Saves a program's state after a step, and loads it again two steps later."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        self._model, self._optimizer, self._step = model, optimizer, step
        self._saved: Any = None

    def after(self, number: int) -> None:
        from torch.distributed.checkpoint import state_dict as states

        if number == self._step:
            model, optimizer = states.get_state_dict(self._model, self._optimizer)
            self._saved = [_copies(model), _copies(optimizer)]
        if number == self._step + 2:
            model, optimizer = self._saved
            states.set_state_dict(
                self._model, self._optimizer, model_state_dict=model, optim_state_dict=optimizer
            )


def _copies(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copies(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copies(item) for item in value)
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def split(model: Model, mesh: DeviceMesh, sequence: bool) -> None:
    """Tensor parallel: heads and the MLP's width over ranks; `sequence`: norms, too."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    layout = Shard(1) if sequence else Replicate()
    whole = PrepareModuleInput(input_layouts=(layout,), desired_input_layouts=(Replicate(),))
    attention = PrepareModuleInput(
        input_layouts=(layout, None, None, None),
        desired_input_layouts=(Replicate(), None, None, None),
    )
    for block in model.blocks.values():
        plan: dict[str, Any] = {
            f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")
        }
        plan |= {f"mlp.{name}": ColwiseParallel() for name in ("gate", "up")}
        plan |= {
            name: RowwiseParallel(output_layouts=layout) for name in ("attention.out", "mlp.down")
        }
        if sequence:
            plan |= {"attention_norm": SequenceParallel(), "mlp_norm": SequenceParallel()}
            plan |= {"attention": attention, "mlp": whole}
        parallelize_module(block, mesh, plan)
    if sequence:
        ends = {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        }
        parallelize_module(model, mesh, ends)


def tensor_parallel(job: Job) -> Program:
    """Training with tensor parallel, and FSDP2 or DDP around it. settings: sequence: sequence
    parallel, with the model compiled as one where nothing is around it: torch 2.13's default mode
    fails with blocks compiled one by one.
    """
    model, mesh = job.model(), job.mesh
    sequence = job.case.settings.get("sequence", False)
    split(model, mesh["tp"], sequence)
    if "fsdp" in (mesh.mesh_dim_names or ()):
        shard(job, model, mesh["fsdp"])
        return training(job, model, mesh.get_local_rank("fsdp"))
    outer = "ddp" in (mesh.mesh_dim_names or ())
    if outer:
        from torch.distributed._composable.replicate import replicate

        replicate(model, device_mesh=mesh["ddp"])
    if not sequence:
        for name, block in model.blocks.items():
            model.blocks[name] = job.compile(block)
    return training(job, model, mesh.get_local_rank("ddp") if outer else 0, whole=sequence)


def decode(job: Job) -> Program:
    """Decoding one token a step with tensor parallel and a static cache, no gradients."""
    model, shape = job.model().eval(), job.case.shape
    split(model, job.mesh["tp"], False)
    heads = (shape.key_heads or shape.heads) // job.mesh["tp"].size()
    size = (job.case.batch, heads, shape.length, shape.head)
    dtype = next(model.parameters()).dtype
    caches = [
        tuple(torch.zeros(size, device=job.device, dtype=dtype) for _ in range(2))
        for _ in model.blocks
    ]
    compiled = job.compile(model)
    token = torch.zeros((job.case.batch, 1), dtype=torch.int64, device=job.device)

    def step(number: int) -> torch.Tensor:
        place = torch.tensor([number % shape.length], device=job.device)
        with torch.no_grad():
            logits = compiled(token, caches, place)
            token.copy_(logits.argmax(-1))
        return logits.float().clone()

    state = [t for cache in caches for t in cache]
    weights = [local(p) for name, p in model.named_parameters() if not name.startswith("embed")]
    reads = sum(t.numel() * t.element_size() for t in (*weights, *state))
    return Program(step, lambda: [local(t) for t in state], reads)


def pipeline(job: Job) -> Program:
    """A pipeline of all ranks of "pp", four microbatches a step. settings: schedule."""
    from torch.distributed import pipelining

    mesh, shape = job.mesh["pp"], job.case.shape
    stage, stages = mesh.get_local_rank(), mesh.size()
    each = -(-shape.layers // stages)
    layers = range(stage * each, min(shape.layers, (stage + 1) * each))
    model = job.model(layers=layers, first=stage == 0, last=stage == stages - 1)
    sharded = "fsdp" in (job.mesh.mesh_dim_names or ())
    if sharded:
        shard(job, model, job.mesh["fsdp"])
    compiled = model if sharded else job.compile(model)
    made = pipelining.PipelineStage(compiled, stage, stages, job.device, group=mesh.get_group())
    kind = getattr(pipelining, job.case.settings.get("schedule", "Schedule1F1B"))
    schedule = kind(made, 4, loss_fn=loss_of)
    optimizer = adam(model)
    replica = job.mesh.get_local_rank("fsdp") if sharded else 0

    def step(number: int) -> torch.Tensor:
        x, target = job.tokens(number, replica)
        losses: list[torch.Tensor] = []
        given = (x,) if stage == 0 else ()
        if stage == stages - 1:
            schedule.step(*given, target=target, losses=losses)
        else:
            schedule.step(*given)
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack(losses).mean().detach() if losses else torch.zeros(())

    return Program(step, lambda: state_of(model, optimizer))


def two_models(job: Job) -> Program:
    """Two models of one process on two devices, without other ranks."""
    second = torch.device("cuda", 1) if torch.cuda.device_count() > 1 else job.device
    programs = []
    for device in (job.device, second):
        here = replace(job, device=device)
        model = here.model()
        programs.append(training(here, job.compile(model), 0))

    def step(number: int) -> torch.Tensor:
        losses = [program.step(number) for program in programs]
        return torch.stack([loss.cpu() for loss in losses])

    return Program(step, lambda: [t for program in programs for t in program.state()])


def other_device(job: Job) -> Program:
    """A model on the GPU after the current one, without other ranks."""
    count = torch.cuda.device_count()
    device = torch.device("cuda", ((job.device.index or 0) + 1) % count) if count else job.device
    here = replace(job, device=device)
    return training(here, here.model(), 0, whole=True)


SPREADS: dict[str, tuple[Callable[[Job], Program], tuple[str, ...]]] = {
    "ddp": (ddp, ("ddp",)),
    "fsdp": (fsdp, ("fsdp",)),
    "tp": (tensor_parallel, ("tp",)),
    "fsdp x tp": (tensor_parallel, ("fsdp", "tp")),
    "ddp x tp": (tensor_parallel, ("ddp", "tp")),
    "decode": (decode, ("tp",)),
    "pipeline": (pipeline, ("pp",)),
    "pipeline x fsdp": (pipeline, ("pp", "fsdp")),
    "two models": (two_models, ("ddp",)),
    "other device": (other_device, ("ddp",)),
}
"""What makes a case's program, and the names of its mesh's dimensions, outermost first."""


def build(case: Case, compile: Compile, device: torch.device) -> Program:
    """A case's program on this rank; torch.distributed is initialised."""
    make, names = SPREADS[case.spread]
    size = distributed.get_world_size() // case.ranks
    mesh = init_device_mesh(device.type, (size, *case.dims), mesh_dim_names=names)
    return make(Job(case, compile, device, mesh))
