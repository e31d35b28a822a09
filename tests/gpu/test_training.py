"""Training under graphs: losses, parameters and the random number generator are bit for bit what
the same compiled code gives without graphs.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import pygraph_rt
from tests.gpu.support import DEVICE, assert_same, poison_free_memory, regions
from tests.gpu.training_models import CASES, Block, Case, Recommender, Transformer, tokens, visits

Step = Callable[[Any, torch.optim.Optimizer, Any], torch.Tensor]
SMALL = Case(lambda: Recommender(), visits)


@pytest.fixture(autouse=True)
def repeatable() -> Iterator[None]:
    """Bits can only be compared where the ordinary path repeats itself."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def compiled(module: Any, graphs: str, **kwargs: Any) -> Any:
    options = {"graphs": graphs, **kwargs.pop("options", {})}
    return torch.compile(module, backend=pygraph_rt.pygraph, options=options, **kwargs)


def offset() -> int:
    return torch.cuda.default_generators[0].get_offset()


def plain_step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
    loss = model(*batch).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def train(
    module: nn.Module, model: Any, batches: list[Any], step: Step, poison: bool = False
) -> list[Any]:
    """Losses and generator offsets of each step, then all parameters and buffers."""
    torch.manual_seed(11)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    found: list[Any] = []
    for i, batch in enumerate(batches):
        if poison and i % 2:
            poison_free_memory()
        found += [step(model, optimizer, batch), torch.tensor(offset())]
    return found + [t.clone() for t in module.state_dict().values()]


def compare(
    case: Case,
    step: Step = plain_step,
    steps: int = 10,
    *,
    batches: list[Any] | None = None,
    wrap: Callable[[nn.Module], Any] = lambda module: module,
    poison: bool = False,
    served: int | None = None,
    **kwargs: Any,
) -> list[dict[str, Any]]:
    """Train one model with graphs and its twin without; returns the regions with graphs.

    `served`: how many calls of each region a graph must have served at least (None: all but four).
    """
    torch.manual_seed(5)
    module = case.model().to(DEVICE)
    twin = copy.deepcopy(module)
    batches = batches or [case.batch() for _ in range(steps)]

    def run(model: Any, optimizer: Any, batch: Any) -> torch.Tensor:
        with torch.autocast(DEVICE, case.autocast, enabled=case.autocast is not None):
            return step(model, optimizer, batch)

    actual = train(module, compiled(wrap(module), "always", **kwargs), batches, run, poison)
    found = regions()
    expected = train(twin, compiled(wrap(twin), "never", **kwargs), batches, run, poison)
    assert_same(actual, expected)
    least = len(batches) - 4 if served is None else served
    if least:
        assert found
    for region in found:
        if least:
            assert region["state"] == "serving", region["reason"]
        assert region["served"] >= least, region
    return found


@pytest.mark.parametrize("name", CASES)
def test_fifty_steps(name: str) -> None:
    found = compare(CASES[name], steps=50, poison=True)
    assert {r["name"].split()[2] for r in found} == {"forward", "backward"}


@pytest.mark.parametrize(
    ("backend", "rate"),
    [
        ("CUDNN_ATTENTION", 0.0),
        *((backend, r) for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION") for r in (0, 0.1)),
    ],
)
def test_what_an_attention_leaves_unfilled_is_no_difference(backend: str, rate: float) -> None:
    """Without dropout, seed and offset are memory that nobody wrote to. Deterministic algorithms,
    which fill such memory, are off.
    """
    torch.use_deterministic_algorithms(False)
    module = Transformer(causal=True, inside=rate).to(DEVICE)
    model = compiled(module, "always")
    (batch,) = tokens()
    losses = []
    with sdpa_kernel(getattr(SDPBackend, backend)), torch.autocast(DEVICE, torch.bfloat16):
        for i in range(8):
            if i % 2:
                poison_free_memory()
            torch.manual_seed(11)
            loss = model(batch).float().square().mean()
            loss.backward()
            losses.append(loss.detach())
            module.zero_grad()
    assert all(torch.equal(loss, losses[0]) for loss in losses)
    (forward,) = [r for r in regions() if "forward" in r["name"]]
    assert (forward["state"], forward["served"]) == ("serving", 6), forward["reason"]


def test_four_alternating_shapes() -> None:
    lengths = [16, 32, 48, 64]
    batches = [(tokens()[0][:, : lengths[i % 4]],) for i in range(32)]
    compare(
        Case(lambda: Transformer(), tokens),
        batches=[(b.contiguous(),) for (b,) in batches],
        dynamic=True,
        served=16,
    )


@pytest.mark.parametrize("to_none", [True, False])
def test_gradient_accumulation(to_none: bool) -> None:
    count = iter(range(1_000_000))

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        loss = model(*batch).square().mean()
        (loss / 2).backward()
        if next(count) % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=to_none)
        return loss.detach()

    compare(SMALL, step, 20)


def test_grad_scaler() -> None:
    scalers: WeakKeyDictionary[torch.optim.Optimizer, torch.amp.GradScaler] = WeakKeyDictionary()

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        scaler = scalers.setdefault(optimizer, torch.amp.GradScaler(DEVICE, growth_interval=3))
        loss = F.cross_entropy(model(*batch).flatten(0, 1).float(), batch[0].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    compare(Case(lambda: Transformer(), tokens, torch.float16), step, 16)


class Checkpointed(nn.Module):
    def __init__(self, inside: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.block = Block(64, False, inside, False)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.block, self.embed(batch), use_reentrant=False)


@pytest.mark.parametrize("inside", [0.0, 0.1])
def test_activation_checkpointing(inside: float) -> None:
    found = compare(Case(lambda: Checkpointed(inside), tokens), served=0 if inside else None)
    assert all(r["state"] == "serving" or r["reason"] for r in found)


def test_evaluation_and_averages_between_steps() -> None:
    averages: dict[int, nn.Module] = {}

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        loss = plain_step(model, optimizer, batch)
        module = model._orig_mod
        average = averages.setdefault(id(module), copy.deepcopy(module))
        with torch.no_grad():
            for mean, value in zip(average.parameters(), module.parameters(), strict=True):
                mean.lerp_(value, 0.1)
            model.eval()
            score = model(*batch).float().sum()
            model.train()
        return torch.stack([loss, score])

    compare(CASES["transformer"], step, 14)


def test_hooks_on_tensors_and_modules() -> None:
    seen: list[torch.Tensor] = []

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        result = model(*batch)
        result.register_hook(lambda g: g * 2)
        weight = optimizer.param_groups[0]["params"][0]
        handle = weight.register_hook(lambda g: seen.append(g.clone()))
        loss = result.square().mean()
        loss.backward()
        handle.remove()
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack([loss.detach(), seen[-1].sum()])

    def hooked(module: nn.Module) -> nn.Module:
        module.deep.register_forward_hook(lambda m, args, out: out * 1.5)
        return module

    compare(SMALL, step, 12, wrap=hooked)


def test_optimizer_steps_inside_the_backward() -> None:
    """A hook per parameter that uses and frees its gradient as soon as it is there."""

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        def update(parameter: torch.Tensor) -> None:
            with torch.no_grad():
                parameter -= 1e-2 * parameter.grad
            parameter.grad = None

        parameters = optimizer.param_groups[0]["params"]
        handles = [p.register_post_accumulate_grad_hook(update) for p in parameters]
        loss = model(*batch).square().mean()
        loss.backward()
        for handle in handles:
            handle.remove()
        return loss.detach()

    compare(CASES["transformer"], step, 12)


def test_saved_tensors_that_wait_on_the_cpu() -> None:
    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu():
            loss = model(*batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    # Not a transformer: its attention saves slices of one product, which come back from the CPU
    # with other strides, and Inductor's code refuses those with or without graphs.
    compare(CASES["recommender"], step, 12, served=0)
    assert regions("serving")


def test_double_backward_fails_as_without_graphs() -> None:
    def errors(graphs: str) -> list[str]:
        module = compiled(nn.Linear(8, 8).to(DEVICE), graphs)
        found = []
        for _ in range(4):
            value = torch.randn(4, 8, device=DEVICE, requires_grad=True)
            with pytest.raises(RuntimeError) as caught:
                (first,) = torch.autograd.grad(module(value).pow(3).sum(), value, create_graph=True)
                first.sum().backward()
            found.append(str(caught.value).split("\n")[0])
        return found

    assert errors("always") == errors("never")


def test_a_graph_kept_for_a_second_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._functorch.config

    monkeypatch.setattr(torch._functorch.config, "donated_buffer", False)

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        loss = model(*batch).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compare(CASES["transformer"], step, 12)


def test_two_forwards_before_their_backwards() -> None:
    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        first, second = model(*batch).square().mean(), model(*batch).sin().mean()
        first.backward()
        second.backward()
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack([first.detach(), second.detach()])

    compare(CASES["transformer"], step, 12)


def test_a_switch_changed_between_forward_and_backward() -> None:
    """A served forward whose backward takes the ordinary path, and the other way round."""
    count = iter(range(1_000_000))

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        turn = next(count) % 4
        torch.backends.cuda.matmul.allow_tf32 = turn == 3
        loss = model(*batch).square().mean()
        torch.backends.cuda.matmul.allow_tf32 = turn >= 2
        loss.backward()
        torch.backends.cuda.matmul.allow_tf32 = False
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compare(CASES["transformer"], step, 32, served=4)


def test_distributed_data_parallel_in_one_process() -> None:
    import torch.distributed as dist

    with tempfile.NamedTemporaryFile() as file:
        dist.init_process_group("nccl", init_method=f"file://{file.name}", rank=0, world_size=1)
        try:
            wrap = nn.parallel.DistributedDataParallel
            compare(CASES["transformer"], steps=12, wrap=wrap, served=0)
            assert regions("serving")
        finally:
            dist.destroy_process_group()


def test_beside_a_data_loader_with_workers() -> None:
    data = torch.utils.data.TensorDataset(
        torch.randint(0, 1000, (640,)), torch.randint(0, 500, (640,)), torch.randn(640, 8)
    )
    loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=2, pin_memory=True)

    def step(model: Any, optimizer: torch.optim.Optimizer, epoch: int) -> torch.Tensor:
        losses = [
            plain_step(model, optimizer, [t.to(DEVICE, non_blocking=True) for t in batch])
            for batch in loader
        ]
        return torch.stack(losses)

    found = compare(SMALL, step, batches=[0, 1], served=0)
    assert all(r["served"] >= 16 or r["reason"] for r in found), found
    assert any(r["served"] >= 16 for r in found), found


@pytest.mark.parametrize("how", ["assign", "data", "to"])
def test_parameters_that_are_replaced(how: str) -> None:
    count = iter(range(1_000_000))

    def replace(module: nn.Module) -> None:
        if how == "assign":
            state = {k: v.clone() for k, v in module.state_dict().items()}
            module.load_state_dict(state, assign=True)
        elif how == "data":
            for parameter in module.parameters():
                parameter.data = parameter.data.clone()
        else:
            module.cpu()
            module.to(DEVICE)

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        loss = model(*batch).square().mean()
        loss.backward()
        if next(count) % 4 == 3:
            replace(model._orig_mod)
        with torch.no_grad():
            for parameter in model._orig_mod.parameters():
                if parameter.grad is not None:
                    parameter -= 1e-2 * parameter.grad
                parameter.grad = None
        return loss.detach()

    found = compare(CASES["transformer"], step, 24, served=0)
    assert all(r["state"] == "serving" and r["served"] >= 12 for r in found), found


def test_storages_that_are_freed_and_filled_again() -> None:
    """As FSDP does: a parameter has memory only while somebody computes with it, each time
    somewhere else.
    """
    held: list[torch.Tensor] = []

    def free(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
        kept = [p.detach().clone() for p in parameters]
        for parameter in parameters:
            parameter.untyped_storage().resize_(0)
        return kept

    def fill(parameters: list[torch.Tensor], kept: list[torch.Tensor]) -> None:
        held[:] = [torch.full((1 << 18,), torch.nan, device=DEVICE) for _ in range(len(held) % 5)]
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.untyped_storage().resize_(value.untyped_storage().nbytes())
            with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(parameter):
                parameter.copy_(value)

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        parameters = list(model._orig_mod.parameters())
        fill(parameters, free(parameters))
        loss = model(*batch).square().mean()
        fill(parameters, free(parameters))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    compare(CASES["transformer"], step, 16)


def test_a_compiled_optimizer() -> None:
    updates: dict[int, Any] = {}

    def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        loss = model(*batch).square().mean()
        loss.backward()
        graphs = "always" if len(updates) == 0 or id(optimizer) in updates else "never"
        update = updates.setdefault(id(optimizer), compiled(optimizer.step, graphs))
        update()
        optimizer.zero_grad()
        return loss.detach()

    compare(SMALL, step, 16, served=0)


# -- random numbers


def noisy(value: torch.Tensor) -> torch.Tensor:
    return F.dropout(value, 0.3) * torch.rand_like(value) + torch.randn(64, device=DEVICE)


@pytest.mark.parametrize("fallback", [False, True])
def test_random_numbers_without_gradients(fallback: bool) -> None:
    options = {"fallback_random": fallback}
    fast, plain = (compiled(noisy, g, options=options) for g in ("always", "never"))
    found: list[list[Any]] = []
    with torch.no_grad():
        for run in (fast, plain):
            torch.manual_seed(3)
            found.append([])
            for i in range(16):
                if i == 9:
                    torch.manual_seed(2**63 + 1)
                if i == 11:
                    state = torch.cuda.get_rng_state()
                if i == 13:
                    torch.cuda.set_rng_state(state)
                with torch.random.fork_rng(devices=[0], enabled=i % 5 == 4):
                    found[-1] += [run(torch.ones(8, 64, device=DEVICE)), torch.tensor(offset())]
    assert_same(*found)
    assert not torch.equal(found[0][0], found[0][2])
    (region,) = regions()
    assert region["state"] == "serving", region["reason"]
    assert region["served"] >= 14


def test_random_numbers_on_two_streams_without_waiting() -> None:
    fast, plain = compiled(noisy, "always"), compiled(noisy, "never")
    value = torch.ones(8, 64, device=DEVICE)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    with torch.no_grad():
        for _ in range(3):
            fast(value), plain(value)
        torch.cuda.synchronize()
        torch.manual_seed(1)
        kept = []
        for i in range(40):
            with torch.cuda.stream(streams[i % 2]):
                kept.append(fast(value))
        torch.cuda.synchronize()
        torch.manual_seed(1)
        assert_same(kept, [plain(value) for _ in range(40)])
    (region,) = regions()
    assert region["served"] >= 40


def test_another_generator_is_not_taken_for_the_default_one() -> None:
    generator = torch.Generator(DEVICE).manual_seed(4)

    def work(value: torch.Tensor) -> torch.Tensor:
        return value * torch.rand(64, device=DEVICE, generator=generator)

    found = []
    with torch.no_grad():
        for run in (compiled(work, "always"), compiled(work, "never")):
            generator.manual_seed(4)
            found.append([run(torch.ones(8, 64, device=DEVICE)) for _ in range(6)])
    assert_same(*found)
