"""Training loops of frameworks: how a loop reaches its step, and what its values are there."""

from __future__ import annotations

import textwrap

import pytest

from tests.analysis.loops.test_costs import HEAD, kinds
from tests.analysis.programs import project

ENGINE = """
import torch
from torch import nn
class Logic:
    def train_step(self, batch):
        loss = self.net(batch).sum()
        loss.backward()
        return loss
class Handler:
    def __init__(self, logic: Logic) -> None:
        self._logic = logic
    def train_step(self, batch):
        self.report(self._logic.train_step(batch))
    def report(self, loss):
        self.total = loss.detach().cpu()
"""


@pytest.mark.parametrize(
    "trainer",
    [
        """
        class Trainer:
            def __init__(self, handler: Handler):
                self.handler = handler
            def run(self, loader):
                for batch in loader:
                    self.handler.train_step(batch)
        """,
        """
        class Trainer:
            def __init__(self):
                self.handler = Handler(Logic())
            def run(self, loader):
                for batch in loader:
                    self.handler.train_step(batch)
        """,
        """
        class Base:
            def __init__(self, handler: "Handler | None"):
                self.handler = handler
        class Trainer(Base):
            def run(self, loader):
                for batch in loader:
                    self.handler.train_step(batch)
        """,
        """
        def run(handler: Handler, loader):
            while not loader.done():
                handler.train_step(loader.next())
        """,
        """
        def run(handlers: list[Handler], loader):
            for batch in loader:
                for handler in handlers:
                    handler.train_step(batch)
        """,
        """
        def hand_on(handler: Handler, batch):
            handler.train_step(batch)
        def run(handler: Handler, loader):
            for batch in loader:
                hand_on(handler, batch)
        """,
    ],
)
def test_a_step_that_is_handed_on_through_files(trainer: str) -> None:
    source = "from engine import Handler, Logic\n" + textwrap.dedent(trainer)
    assert kinds(source, engine=ENGINE) == ["loop.read"]


def test_a_step_that_no_loop_reaches_is_not_handed_on() -> None:
    source = (
        "from engine import Handler\ndef run(handler: Handler, batch):\n    handler.report(batch)"
    )
    assert kinds(source, engine=ENGINE) == []


HOOKS = """
import torch
class Watch:
    def on_batch_end(self, trainer):
        self.losses.append(trainer.loss.detach().cpu())
    def on_epoch_end(self, trainer):
        self.means.append(trainer.loss.detach().cpu())
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('self._run_event("on_batch_end")', ["loop.read"]),
        ('self.notify("on_batch_end", loss=loss)', ["loop.read"]),
        ('call_hooks(self, "on_batch_end", self.callbacks)', ["loop.read"]),
        ('self.callbacks.fire(event="on_batch_end")', ["loop.read"]),
        ('for each in self.callbacks: getattr(each, "on_batch_end")(self)', ["loop.read"]),
        ("for each in self.callbacks: each.on_batch_end(self)", ["loop.read"]),
        ('self._run_event("on_sale")', []),
        ('self._run_event("batch_end")', []),
        ('if step % 10 == 0: self._run_event("on_batch_end")', []),
    ],
)
def test_hooks_that_are_called_by_their_names(call: str, expected: list[str]) -> None:
    source = f"""
    class Trainer:
        def train(self, loader):
            self.net.train()
            for step, x in enumerate(loader):
                loss = self.net(x).sum()
                loss.backward()
                {call}
            self._run_event("on_epoch_end")
    """
    assert kinds(source, hooks=HOOKS) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("run(self.train_step, loader)", ["loop.read", "loop.read"]),
        ("run(step=self.train_step, loader=loader)", ["loop.read", "loop.read"]),
        ("Engine(self.train_step).run(loader)", ["loop.read", "loop.read"]),
        ("Engine(step=self.train_step).run(loader)", ["loop.read", "loop.read"]),
        ("run(step, loader)", ["loop.read", "loop.read"]),
        ("run(self.look, loader)", ["loop.read"]),
        ("Engine(self.look).run(loader)", ["loop.read"]),
    ],
)
def test_a_step_that_is_passed_as_a_function(call: str, expected: list[str]) -> None:
    engine = """
    import torch
    def run(step, loader):
        for batch in loader:
            step(batch)
            clean()
    class Engine:
        def __init__(self, step):
            self.step_function = step
        def run(self, loader):
            for batch in loader:
                self.step_function(batch)
                clean()
    def clean():
        state.loss.detach().cpu()
    """
    source = f"""
    from engine import Engine, run
    def step(batch):
        loss = net(batch).sum()
        loss.backward()
        print(loss.item())
    class Model:
        def train_step(self, batch):
            step(batch)
        def look(self, batch):
            return batch
        def fit(self, loader):
            {call}
    """
    assert kinds(source, engine=textwrap.dedent(engine)) == expected


AGENT = """
import torch
class Agent:
    def act(self, observations: torch.Tensor):
        return self.policy(observations)
    def record(self, rewards: torch.Tensor):
        self.best.append(torch.max(rewards).item())
    def after(self, step):
        if not step % self.rollouts:
            self.update()
    def update(self):
        for batch in self.memory.sample():
            self.policy(batch).sum().backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.agent.after(step)", ["loop.read"]),
        ("if step > 10: self.agent.after(step)", ["loop.read"]),
        ("self.agent.update()", ["loop.read"]),
        ("if step % 8 == 0: self.agent.update()", ["loop.read"]),
        ("self.log(step)", []),
        ("pass", []),
    ],
)
def test_a_loop_in_an_environment_that_leads_to_training(body: str, expected: list[str]) -> None:
    source = f"""
    from agents import Agent
    class Trainer:
        def __init__(self, env, agent: Agent):
            self.env, self.agent = env, agent
        def train(self):
            seen = self.env.reset()
            for step in range(1000):
                actions = self.agent.act(seen)
                seen, rewards, done, info = self.env.step(actions)
                self.agent.record(rewards)
                {body}
    """
    assert kinds(source, agents=AGENT) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("if isinstance(x, list) and x and len(x) > 1: y = x", []),
        ("if isinstance(x, (list, tuple)) and not x: y = 0", []),
        ("if not isinstance(x, torch.Tensor) and x: y = 0", []),
        ("if not torch.is_tensor(x) and x > 0: y = 0", []),
        ("if isinstance(x, torch.Tensor) or x: y = 0", []),
        ("y = float(x) if isinstance(x, (int, float)) else x", []),
        ("y = x if isinstance(x, torch.Tensor) else float(x)", []),
        ("if isinstance(x, list) and x[0] is not None:\n        if x: y = 0", []),
        ("if isinstance(x, torch.Tensor): y = 0\n    elif x: y = 1", []),
        ("if isinstance(x, torch.Tensor): return x\n    y = float(x)", []),
        ("if x is None: return\n    elif torch.is_tensor(x): return x\n    y = float(x)", []),
        ("if not isinstance(x, torch.Tensor): return x\n    y = float(x)", ["loop.read"]),
        ("if isinstance(x, list): return x\n    y = float(x)", ["loop.read"]),
        ("if isinstance(x, torch.Tensor) and x > 0: y = 0", ["loop.branch"]),
        ("if isinstance(x, list) or x > 0: y = 0", ["loop.branch"]),
        ("if isinstance(x, torch.Tensor) and x: y = 0", []),
        ("y = float(x) if isinstance(x, torch.Tensor) else x", ["loop.read"]),
    ],
)
def test_types_that_a_test_has_ruled_out(test: str, expected: list[str]) -> None:
    source = f"""
def note(x):
    {test}
def train(net, loader):
    net.train()
    for batch in loader:
        loss = net(batch).sum()
        loss.backward()
        note(loss)
"""
    assert kinds(source) == expected


@pytest.mark.parametrize(("held", "expected"), [("net(batch)", ["loop.copy"]), ("['a']", [])])
def test_what_a_mapping_has_for_a_key(held: str, expected: list[str]) -> None:
    source = f"""
    import numpy as np
    class Scaler:
        def normalise(self, window, rows):
            return window["x"][np.append(rows, 1)]
        def training_step(self, net, batch, rows):
            window = {{"x": {held}}}
            window = self.normalise(window, rows)
            net(window).mean().backward()
            net.train()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("count", []), ("n_samples", []), ("extra", ["loop.branch"])],
)
def test_a_number_beside_a_loss(name: str, expected: list[str]) -> None:
    source = f"""
    def losses(net, batch):
        return net(batch)
    def train(net, loader):
        for batch in loader:
            loss, {name} = losses(net, batch)
            loss.backward()
            if {name} > 0:
                print("a batch")
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("if not losses: continue", []),
        ("if losses: step()", []),
        ("while losses: break", []),
        ("print(len(losses))", []),
        ("seen = bool(losses)", []),
        ('if losses["box"] > 2: step()', ["loop.branch"]),
        ("print([each.item() for each in losses.values()])", ["loop.read"]),
        ("for name, each in losses.items(): log(name, float(each))", ["loop.read"]),
    ],
)
def test_a_mapping_of_losses_is_no_tensor(use: str, expected: list[str]) -> None:
    source = f"""
    def train(net, loader, losses_of):
        for batch in loader:
            losses = losses_of(net, batch)
            {use}
            loss = sum(losses.values())
            loss.backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("[0, 2, 1]", ["loop.copy"]),
        ("random.sample(range(8), 4)", ["loop.copy"]),
        ("[int(i) for i in order]", ["loop.copy"]),
        ("np.random.permutation(8)", ["loop.copy"]),
        ("np.arange(8)", ["loop.copy"]),
        ("torch.randperm(8)", ["loop.copy"]),
        ("torch.randperm(8, device=device)", []),
        ("0", []),
        ("(0, 1)", []),
        ("random.randrange(8)", []),
    ],
)
def test_rows_that_the_host_chooses(index: str, expected: list[str]) -> None:
    source = f"""
    import random
    import numpy as np
    def train(net, loader, device, order):
        net.train()
        for x in loader:
            y = net(x)
            where = {index}
            y[where].sum().backward()
    """
    assert kinds(source) == expected


def test_rows_that_a_sampler_chooses() -> None:
    source = """
    from torch.utils.data.sampler import BatchSampler, SubsetRandomSampler
    def train(net, x, device):
        net.train()
        values = net(x)
        for indices in BatchSampler(SubsetRandomSampler(range(8)), 4, drop_last=True):
            values[indices].sum().backward()
    """
    assert kinds(source) == ["loop.copy"]


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        ("to_device(y, device)", []),
        ("move_to_device(y, device)", []),
        ("y.to(device, non_blocking=True)", []),
        ("utils.to_gpu(y)", []),
        ("y.cuda(non_blocking=True)", []),
        ("y", ["loop.branch"]),
    ],
)
def test_what_goes_to_the_device_later_is_on_the_host(move: str, expected: list[str]) -> None:
    source = f"""
    def losses_of(net, x, y, device):
        active = y.detach() != -1
        if active.any():
            return F.cross_entropy(net(x), {move})
    def train(net, loader, device):
        net.train()
        for x, y in loader:
            losses_of(net, x, y, device).backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("y = out[: batch.batch_size]", []),
        ("if batch.num_graphs > 3: step()", []),
        ("n = int(batch.num_nodes)", []),
        ('text = f"{batch.num_graphs} graphs"', []),
        ("n = math.sqrt(batch.num_nodes)", []),
        ("n = batch.y.sum().item()", ["loop.read"]),
        ("y = batch.y.cpu()", ["loop.read"]),
        ("if batch.y.any(): step()", ["loop.branch"]),
        ("y = out[: batch.y.sum()]", ["loop.read"]),
    ],
)
def test_what_a_moved_object_holds_may_be_a_number(use: str, expected: list[str]) -> None:
    source = f"""
    def train(net, loader, device):
        net.train()
        for batch in loader:
            batch = batch.to(device, non_blocking=True)
            out = net(batch.x, batch.edge_index)
            out.sum().backward()
            {use}
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        ("y = out[: out.argmax()]", ["bound"]),
        ("y = out[out > 0]", ["mask"]),
        ("y = out[[0, 2]]", ["index"]),
        ("if out.sum() > 0: step()", []),
        ("while out.sum() > 0: out = net(out)", ["inner"]),
        ("while True:\n            if out.sum() > 0: break", ["inner"]),
    ],
)
def test_notes_for_advice_that_fits(line: str, notes: list[str]) -> None:
    source = f"""
def train(net, loader):
    net.train()
    for x in loader:
        out = net(x)
        out.sum().backward()
        {line}
"""
    linked, facts = project(m=HEAD + source)
    events = [event for each in facts.values() for _, event in linked.loop_events(each)]
    assert [name for event in events for name, _ in event.notes] == notes


def test_evidence_names_all_that_may_be_a_tensor() -> None:
    source = """
    def search(f, t, slope):
        if f > t * slope:
            return t
    def train(net, loader):
        net.train()
        for x in loader:
            loss = net(x).sum()
            loss.backward()
            search(1.0, 0.1, loss)
    """
    linked, facts = project(m=HEAD + textwrap.dedent(source))
    (event,) = [event for each in facts.values() for _, event in linked.loop_events(each)]
    assert event.evidence == ("a caller passes a tensor of the device as `f` or `t` or `slope`",)
