"""What costs on every step of a training loop, by where the tensors in it are."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.loops.test_costs import kinds
from tests.analysis.programs import project


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("weights.to(x.device)", []),  # where another tensor is
        ("weights.to(strategy.device)", ["loop.copy"]),
        ("weights.to(torch.device)", ["loop.copy"]),
        ("torch.from_numpy(weights).to(x.device)", ["loop.copy"]),
    ],
)
def test_a_move_to_where_another_tensor_is(call: str, expected: list[str]) -> None:
    source = f"""
    def weighted(x, weights, strategy):
        strategy.model.train()
        return x * {call}
    def train(model, loader, strategy, weights):
        for x in loader:
            x = x.to(strategy.device, non_blocking=True)
            loss = model(x).sum()
            loss.backward()
            weighted(loss, weights, strategy)
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("place", "expected"), [("self.steps.device", []), ("self.net.device", ["loop.copy"])]
)
def test_a_move_to_where_a_tensor_of_an_object_is(place: str, expected: list[str]) -> None:
    source = f"""
    class Schedule:
        def __init__(self, net):
            self.net = net
            self.steps = torch.arange(10)
        def start(self, step: torch.Tensor):
            step = step.to({place})
            return step + 1
    def train(model, loader, schedule: Schedule):
        for x in loader:
            loss = model(x).sum()
            loss.backward()
            schedule.start(x)
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x", ["loop.copy"]),
        ("torch.utils.data.default_collate(found)", ["loop.copy"]),
        ("loss", []),
        ("scale", []),
    ],
)
@pytest.mark.parametrize("hint", ["", ": torch.Tensor"])
def test_a_helper_that_moves_what_a_step_passes(given: str, hint: str, expected: list[str]) -> None:
    source = f"""
    def expand(value{hint}, device):
        return value.to(device)
    def train(model, loader, device, found):
        scale = torch.ones(1, device=device)
        for x in loader:
            loss = model(x).sum()
            loss.backward()
            expand({given}, device)
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("(~make_mask(x)).float().unsqueeze(-1)", []),
        ("make_mask(x, 3)", []),
        ("make_mask(3)", ["loop.copy"]),
        ("make_mask(batch)", ["loop.copy"]),
    ],
)
def test_what_is_made_of_tensors_of_the_device_is_there(made: str, expected: list[str]) -> None:
    source = f"""
    from masks import make_mask
    def train(model, loader, device):
        for batch in loader:
            x = batch.x.to(device, non_blocking=True)
            loss = model({made}.to(device)).sum()
            loss.backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [("device", ["loop.copy"]), ("beside.device", []), ("'cpu'", ["loop.read"])],
)
def test_an_annotation_does_not_say_where_a_tensor_is(place: str, expected: list[str]) -> None:
    helper = f"""
    from torch import Tensor
    def moved(x: Tensor, device: str, beside: Tensor) -> Tensor:
        x = x.to({place})
        return x
    """
    source = """
    from helper import moved
    def train(model, loader, device, weights):
        for x in loader:
            loss = model(moved(x, device, weights)).sum()
            loss.backward()
    """
    assert kinds(source, helper=helper) == expected


def test_what_the_trainer_moved_is_on_the_device_in_spite_of_an_annotation() -> None:
    source = """
    import torch
    from lightning import LightningModule
    class Model(LightningModule):
        def training_step(self, batch: torch.Tensor, step: int):
            return self.net(batch.to(self.device)).sum()
    """
    assert kinds(source) == []


@pytest.mark.parametrize(
    ("storage", "expected"),
    [("device=device", []), ("device='cpu'", ["loop.copy"]), ("size=8", ["loop.copy"])],
)
def test_what_an_object_on_the_device_gives_is_there(storage: str, expected: list[str]) -> None:
    source = f"""
    from buffers import Buffer, Storage
    def train(model, device):
        buffer = Buffer(storage=Storage({storage}))
        for step in range(100):
            sample = buffer.sample(32)
            sample = sample.to(device)
            model(sample).sum().backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("rows", "expected"), [("x", ["loop.read"]), ("x.detach().cpu()", ["loop.read"])]
)
def test_bounds_of_what_is_on_the_host_are_numbers(rows: str, expected: list[str]) -> None:
    source = f"""
    def first(x, count):
        return {rows}[:count, :]
    def train(net, loader):
        for batch in loader:
            out, bound = net(batch)
            out.sum().backward()
            first(out, bound)
    """
    assert kinds(source) == expected


def test_arrays_of_numpy_are_no_tensors_of_the_device() -> None:
    helper = """
    def score(action, state):
        print(action.shape, state[:, 0].mean().item())
        return int(action[0]), float(state[0, 0])
    """
    source = """
    from helper import score
    def train(model, loader):
        for x, action, state in loader:
            model(x).sum().backward()
            score(action, state)
    """
    assert kinds(source, helper=textwrap.dedent(helper)) == []


def test_numbers_that_a_loss_is_computed_with_are_no_tensors() -> None:
    source = """
    def train(trainer, loader, tasks):
        count = getattr(trainer, "count", 1)
        trainer = make(trainer)
        for x, y in loader:
            size = min(count, tasks.size)
            if count == 1 and trainer.step > size:
                pass
            losses = [trainer.criterion(x[:, i], y[:, i]) for i in range(count)]
            loss = trainer.weigh(sum(losses), size)
            loss.backward()
    """
    assert kinds(source) == []


@pytest.mark.parametrize(
    ("made", "expected"), [("self.policy(x).logits", ["loop.copy"]), ("self.settings().rows", [])]
)
def test_what_the_result_has_that_a_loss_is_computed_from(made: str, expected: list[str]) -> None:
    source = f"""
    import numpy as np
    class Agent:
        def update(self, memory):
            for x, actions, returns in memory.sample():
                q = {made}
                q = q[np.arange(4), actions]
                loss = (returns - q).pow(2).mean()
                loss.backward()
    """
    assert kinds(source) == expected


def test_what_is_moved_later_is_still_on_the_host() -> None:
    source = """
    def step(self, device):
        sample = self.sample()
        x, y, task = sample[0], sample[1], sample[-1]
        x, y = x.to(device), y.to(device)
        loss = self.criterion(self.net(x, task), y)
        loss.backward()
    """
    assert kinds(source) == ["loop.copy", "loop.copy"]


def test_functions_inside_a_function_and_objects_that_are_called() -> None:
    source = """
    class Accuracy:
        def __call__(self, scores):
            self.total += scores.sum().item()
    def unpack(batch, device):
        def moved(x):
            return None if x is None else x.to(device)
        return [moved(batch.x), moved(batch.y)]
    def train(net, loader, device):
        bar, accuracy = tqdm(loader), Accuracy()
        for batch in bar:
            x, y = unpack(batch, device)
            loss = net(x).sub(y).sum()
            loss.backward()
            accuracy(loss)
    """
    assert kinds(source) == ["loop.read", "loop.copy"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("meters.update(loss=loss, step=3)", ["loop.read"]),
        ("meters.update(**net(x))", ["loop.read"]),
        ("meters.update(**losses(net(x)))", ["loop.read"]),
        ("meters.update(step=3, lr=optimizer.lr)", []),
        ("meters.update(prefix=loss)", []),
    ],
)
def test_keywords_that_are_tensors_of_the_device(call: str, expected: list[str]) -> None:
    source = f"""
    class Meters:
        def update(self, prefix="", **values):
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    value = value.item()
                self.meters[name].update(value)
    def losses(found):
        return {{name: value for name, value in found.items()}}
    def train(net, loader, optimizer):
        net.train()
        meters = Meters()
        for x in loader:
            loss = net(x).sum()
            loss.backward()
            {call}
    """
    assert kinds(source) == expected


def test_buffers_and_parameters_are_on_the_device() -> None:
    source = """
    class Trainer(nn.Module):
        def __init__(self):
            self.register_buffer("steps", torch.tensor(0))
            self.alpha = nn.Parameter(torch.ones(()))
            self.count = torch.tensor(0)
        def update(self, x):
            (self.net(x).sum() * self.alpha).backward()
            print(self.steps, self.alpha, self.count)
    """
    assert kinds(source) == ["loop.print", "loop.print"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("net.train()", ["loop.read"]),
        ("net.train(); x = x.to(device, non_blocking=True)", []),
        ("net = torch.nn.DataParallel(net); net.train()", []),
    ],
)
def test_what_a_model_gets_as_it_is_is_on_the_device(head: str, expected: list[str]) -> None:
    source = f"""
    def train(net, loader, device):
        for x, lengths in loader:
            {head}
            loss = net(x, lengths).sum()
            loss.backward()
            total = lengths.sum().item()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("Optional[dict]", []),
        ("'dict | None'", []),
        ("typing.Mapping[str, torch.Tensor]", []),
        ("list[torch.Tensor]", []),
        ("Any", ["loop.branch"]),
        ("list_of_masks", ["loop.branch"]),
    ],
)
def test_a_container_is_asked_how_much_it_holds(hint: str, expected: list[str]) -> None:
    source = f"""
    import torch
    def loss(model, x, given: {hint}):
        kwargs = {{}} if not given else given
        return model(x, **kwargs).mean()
    def train(model, loader, optimizer):
        for x in loader:
            x = x.cuda(non_blocking=True)
            loss(model, x, x).backward()
            optimizer.step()
    """
    linked, facts = project(RegionOptions(every=True), m=textwrap.dedent(source))
    assert [event.kind for _, event in linked.loop_events(facts["m"])] == expected
