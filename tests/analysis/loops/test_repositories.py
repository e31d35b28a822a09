"""Training loops as scripts and projects write them: what a step is, and where its values are."""

from __future__ import annotations

import pytest

from tests.analysis.loops.test_costs import kinds


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("scaler(loss, optimizer, parameters=net.parameters())", ["loop.read"]),
        ("self.backward_step(self.loss, self.optim)", ["loop.read"]),
        ("compare(loss, optimizer)", []),
        ("scaler(loss, other)", []),
        ("TrainStep(net, optimizer)", []),
    ],
)
def test_what_gets_a_loss_and_an_optimizer_computes_gradients(
    call: str, expected: list[str]
) -> None:
    source = f"""
    def train(self, net, loader, optimizer, scaler, other):
        for x in loader:
            loss = net(x).sum()
            self.loss = loss
            {call}
            print(loss.item())
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("step % 10", []),
        ("step % 10 != 0", []),
        ("world > 1 and x.size(0) % world != 0", ["loop.read"]),
    ],
)
def test_a_rare_case_that_skips_is_not_the_rule(test: str, expected: list[str]) -> None:
    source = f"""
    def train(net, loader, world):
        for step, x in enumerate(loader):
            loss = net(x).sum()
            loss.backward()
            if {test}:
                continue
            print(loss.item())
    """
    assert kinds(source) == expected


def test_what_is_made_before_the_loop_is_no_result_of_the_step() -> None:
    source = """
    opt = parser.parse_args()
    for step, x in enumerate(loader):
        loss = net(x).sum() * opt.scale
        loss.backward()
        if opt.dry_run:
            break
        if step >= opt.steps:
            break
    """
    assert kinds(source) == []


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("Tensor(np.random.rand(3))", ["loop.copy"]),
        ("Tensor([1.0, 2.0])", ["loop.copy"]),
        ("Tensor(x.shape[0], 1).fill_(1.0)", []),
        ("torch.FloatTensor(x.shape[0], 1)", []),
        ("torch.FloatTensor(data).to(device)", ["loop.copy"]),
        ("x.type(Tensor)", ["loop.copy"]),
        ("x.type('torch.cuda.FloatTensor')", ["loop.copy"]),
        ("x.type(torch.float32)", []),
    ],
)
def test_types_of_tensors_of_the_device(made: str, expected: list[str]) -> None:
    source = f"""
    import numpy as np
    Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
    def train(net, loader, device, data):
        for x in loader:
            noise = {made}
            net(noise).sum().backward()
    """
    assert kinds(source) == expected


def test_a_batch_that_is_reshaped_is_still_a_batch() -> None:
    source = """
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    for x, _ in loader:
        x = x.reshape(4, -1).to(device)
        net(x).sum().backward()
    """
    assert kinds(source) == ["loop.copy", "loop.copy"]  # the loader does not pin


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("np.random.choice(3)", []),
        ("np.random.randint(0, 3)", []),
        ("np.random.choice(3, size=[2])", ["loop.copy"]),
        ("np.random.randint(0, 3, 2)", ["loop.copy"]),
    ],
)
def test_one_random_number_is_no_array(index: str, expected: list[str]) -> None:
    source = f"""
    import numpy as np
    def train(net, loader):
        net.train()
        for x in loader:
            y = net(x)
            where = {index}
            y[where].sum().backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("bound", "expected"), [("starts[i]", ["loop.read"]), ("i", []), ("len(x)", [])]
)
def test_bounds_of_slices_that_are_tensors(bound: str, expected: list[str]) -> None:
    cut = (
        """
    def cut(x, starts):
        for i in range(4):
            x = x[:, BOUND:]
        return x
    """.replace("    def", "def")
        .replace("\n    ", "\n")
        .replace("BOUND", bound)
    )
    source = """
    from cut import cut
    def train(net, loader):
        net.train()
        for x in loader:
            y, starts = net(x)
            cut(y, starts).sum().backward()
    """
    tools = "import torch\ndef unused(x):\n    return x.item()\n" + cut
    assert kinds(source, cut=tools) == expected


def test_a_script_that_trains_by_the_methods_of_other_files() -> None:
    agent = """
import torch
import torch.nn.functional as F
class Agent:
    def choose(self, state):
        state = torch.FloatTensor(state).to(device)
        return self.actor(state).cpu().data.numpy()
    def train(self, buffer):
        x = buffer.sample(4)
        loss = F.mse_loss(self.actor(x), x)
        loss.backward()
class Slow(Agent):
    pass
    """
    buffers = """
import torch
class Buffer:
    def sample(self, n):
        return torch.FloatTensor(self.rows[n]).to(self.device)
    """
    source = """
    from agent import Agent, Slow
    if args.slow:
        agent = Slow()
    elif args.fast:
        agent = Agent()
    for step in range(steps):
        action = agent.choose(state)
        state = env.step(action)
        agent.train(buffer)
    """
    found = kinds(source, agent=agent, buffers=buffers)
    assert sorted(found) == ["loop.copy", "loop.copy", "loop.read"]


@pytest.mark.parametrize(("call", "expected"), [("env.step(a)", ["loop.read"]), ("a.sum()", [])])
def test_a_turn_in_an_environment_is_a_step(call: str, expected: list[str]) -> None:
    agent = """
import torch
class Chooser:
    def select_action(self, state):
        return self.actor(state).cpu().numpy()
    def update_parameters(self, memory):
        self.net(memory).sum().backward()
    """
    source = f"""
    from agent import Chooser
    agent = Chooser()
    while not done:
        a = agent.select_action(state)
        for i in range(updates):
            agent.update_parameters(memory)
        {call}
    """
    assert kinds(source, agent=agent) == expected


def test_a_method_of_what_a_function_gives() -> None:
    build = """
import torch
class Model:
    def prepare(self, x):
        return torch.max(x.cuda(non_blocking=True)).item()
class Other:
    def prepare(self, x):
        return x.item()
def make(args):
    return Model(), 3
    """
    source = """
    from build import make
    def train(net, loader):
        model, n = make(1)
        for x in loader:
            model.prepare(x)
            net(x).sum().backward()
    """
    assert kinds(source, build=build) == ["loop.read"]


def test_a_name_of_several_words_tells_a_method() -> None:
    models = """
import torch
class Model:
    def feed_data(self, data):
        self.lq = data["lq"].to(self.device)
    """
    source = """
    def train(model, loader):
        for data in loader:
            model.feed_data(data)
            loss = model.compute()
            loss.backward()
    """
    assert kinds(source, models=models) == ["loop.copy"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [("", ["loop.copy"]), ("torch.set_default_device('cuda')", [])],
)
def test_where_tensors_are_made_by_default(head: str, expected: list[str]) -> None:
    source = f"""
    {head}
    def train(net, loader):
        net.train()
        for x in loader:
            y = net(x)
            y[torch.randperm(4)].sum().backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("self.teacher.encoder.to(self.device)", []),
        ("x = self.teacher.encoder.to(self.device)", ["loop.copy"]),
    ],
)
def test_what_moves_in_place_is_a_module(line: str, expected: list[str]) -> None:
    source = f"""
    import pytorch_lightning as pl

    class Task(pl.LightningModule):
        def __init__(self, teacher: nn.Module, net):
            super().__init__()
            self.teacher, self.net = teacher, net

        def training_step(self, batch, index):
            x, info = batch
            {line}
            return self.net(x).mean()
    """
    assert kinds(source) == expected
