"""Training loops: what is found to cost on every step, and what is not."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.domain.region import RegionKind
from tests.analysis.programs import as_given, confirmed, project

HEAD = "import math\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
LOOP = """
def train(model, loader, optimizer, device, scheduler):
    model.train()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
{body}
{after}
"""


def kinds(source: str, **files: str) -> list[str]:
    """The kinds of events of the loops of all files, in order."""
    linked, facts = project(m=HEAD + textwrap.dedent(source), **files)
    found = [pair for each in facts.values() for pair in linked.loop_events(each)]
    assert all(region.kind is RegionKind.HOST_LOOP for region, _ in found)
    places = {(event.span, event.kind) for _, event in found}
    return [kind for _, kind in sorted(places)]


def in_loop(body: str, after: str = "") -> list[str]:
    """The kinds of events of a loop with the given lines at its end."""
    inside = textwrap.indent(textwrap.dedent(body), " " * 8)
    return kinds(LOOP.format(body=inside, after=textwrap.indent(textwrap.dedent(after), " " * 4)))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("total = loss.item()", "loop.read"),
        ("total = float(loss)", "loop.read"),
        ("total = loss.detach().cpu()", "loop.read"),
        ("total = loss.data.tolist()", "loop.read"),
        ("norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()", "loop.read"),
        ("correct = (model(x).argmax(1) == y).sum().item()", "loop.read"),
        ("print(loss)", "loop.print"),
        ('text = f"{loss:.3f}"', "loop.print"),
        ('text = "%.3f" % loss', "loop.print"),
        ('text = "{}".format(loss)', "loop.print"),
        ("loader.set_postfix(loss=loss)", "loop.print"),
        ("if torch.isnan(loss): optimizer.zero_grad()", "loop.branch"),
        ("assert torch.isfinite(loss).all()", "loop.branch"),
        ("z = y.to(device) if step else torch.tensor(step, device=device)", "loop.copy"),
        ("z = loss.new_tensor([step, 1.0])", "loop.copy"),
        ("z = model(x)[torch.arange(step)]", "loop.copy"),
        ("z = model(x)[y.eq(3) & (x[:, 0] > 1)]", "loop.read"),
        ("z = model(x)[~scheduler.pad_mask]", "loop.read"),
        ("z = unknown(x).masked_select(y > 0)", "loop.read"),
        ("torch.cuda.empty_cache()", "loop.empty-cache"),
        ("torch.cuda.synchronize()", "loop.synchronize"),
    ],
)
def test_what_costs_on_every_step(line: str, kind: str) -> None:
    assert in_loop(line) == [kind]


@pytest.mark.parametrize(
    "test",
    [
        "step < 1000",
        "step > 3",
        "optimizer < 3",
        "math < 3",
        "device in scheduler.shown",
        "x.shape[0] < 3",
        "step < device",
    ],
)
def test_a_condition_that_holds_on_most_steps_is_no_excuse(test: str) -> None:
    assert in_loop(f"if {test}:\n    print(loss.item())") == ["loop.read"]


def test_a_counter_is_known_by_what_the_loop_unpacks() -> None:
    loop = LOOP.replace("for step,", "for {name},").replace("{after}", "")
    body = "        if {name} < 3:\n            print(loss.item())\n"
    for name, expected in (("n", []), ("(n, m)", ["loop.read"])):
        text = loop.replace("{body}", body).replace("{name}", name, 1).replace("{name}", "n")
        assert kinds(text) == expected


def test_the_last_value_that_a_method_stores_counts() -> None:
    """Elsewhere: within the method each value has its time."""
    trainer = """
        def cast(on):
            return torch.autocast("cuda", enabled=bool(on))

        class Trainer:
            def setup(self):
                self.amp = torch.tensor(self.args.amp).to(self.device)
                {last}

            def train(self, loader):
                for x in loader:
                    with cast(self.amp):
                        loss = self.model(x)
                    loss.backward()
                    self.optimizer.step()
        """
    assert kinds(trainer.format(last="self.amp = bool(self.amp)")) == []
    assert kinds(trainer.format(last="pass")) == ["loop.read"]
    assert kinds(trainer.format(last="if self.fast: self.amp = True")) == ["loop.read"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ('torch.get_device_module("cuda")', []),
        ("torch.GradScaler()", []),
        ("torch.ones(3, device=device).sum()", ["loop.branch"]),
    ],
)
def test_what_torch_has_besides_tensors(made: str, expected: list[str]) -> None:
    source = f"""
        def backend(device):
            return {made}

        def train(model, loader, device):
            for x in loader:
                model(x).sum().backward()
                if backend(device).sign():
                    pass
        """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    "lines",
    [
        "if step % 10 == 0:\n    print(loss.item())",
        "if loss == None or None != y:\n    pass",
        "if step % 10:\n    continue\nprint(loss.item())",
        "log = step % 10 == 0\nif log:\n    print(loss.item())",
        "if step == 0:\n    print(loss.item())",
        "if step in scheduler.shown:\n    print(loss.item())",
        "if step < 3:\n    print(loss.item())",
        "n = step + 100 * scheduler.epoch\nif n in scheduler.shown:\n    print(loss.item())",
        "if len(optimizer.losses) == 12:\n    print(loss.item())",
        "if step % 10 == 0 and loss.item() > 3:\n    pass",
        "value = loss.item() if step % 10 == 0 else 0.0",
        "if scheduler.stop:\n    print(loss.item())\n    break",
        "if math.isnan(3.0):\n    raise ValueError(loss.item())",
        "total = loss.detach()",
        "z = loss.new_tensor(loss)",
        "z = model(x)[scheduler.order]",
        "z = model(x)[y]",
        "lr = scheduler.get_last_lr()[0]\nprint(lr, step, x.shape[0])",
        "rows = float(x.shape[0] * x.size(1))",
        "w = torch.linspace(0, 1, 10)[step].item()",
        "n = nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "assert loss.ndim == 0, f'{loss}'",
    ],
)
def test_what_does_not(lines: str) -> None:
    assert in_loop(lines) == []


def test_behind_the_loop_nothing_costs() -> None:
    assert in_loop("pass", "print(loss.item())\ntorch.cuda.synchronize()") == []


def test_batches_are_copied() -> None:
    source = """
        def train(model, loader, optimizer, device):
            for x, y in loader:
                x = x.to(device)
                y = y.cuda(non_blocking=True)
                model(x).sub(y).sum().backward()
    """
    assert kinds(source) == ["loop.copy"]


def test_what_the_step_calls_in_other_files() -> None:
    tools = """
        import torch
        class Meter:
            def update(self, value, n=1):
                self.last = float(value)
        def grad_norm(parameters):
            return sum(p.grad.norm().item() for p in parameters)
        def never(value):
            return float(value)
    """
    source = """
        from tools import Meter, grad_norm
        def train(model, loader, optimizer):
            meter = Meter()
            for x, y in loader:
                loss = model(x)
                loss.backward()
                meter.update(loss)
                meter.update(3)
                grad_norm(model.parameters())
    """
    assert kinds(source, tools=tools) == ["loop.read", "loop.read"]


def test_all_parts_of_a_sum_of_losses_are_on_the_device() -> None:
    source = """
    def update(self, memory, scaler):
        for states, returns in memory.sample():
            policy_loss, entropy = self.policy.act(states)
            value_loss = 0.5 * F.mse_loss(returns, self.value.act(states))
            scaler.scale(policy_loss + entropy.mean() - 2 * value_loss).backward()
            total = entropy.item() + value_loss.item()
    """
    assert kinds(source) == ["loop.read", "loop.read"]


def test_the_item_of_what_a_function_of_another_file_gives_is_a_read() -> None:
    other = "def adapt(learner, batch):\n    return learner(batch), learner.accuracy(batch)\n"
    source = """
    from other import adapt
    def train(learner, tasks):
        for task in tasks:
            error, accuracy = adapt(learner, task)
            error.backward()
            total = accuracy.item()
    """
    assert kinds(source, other=other) == ["loop.read"]


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
            schedule.start(loss)
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
    ("call", "expected"),
    [
        ("net(x, lengths)", ["loop.read"]),
        ("net.losses(x, lengths)", ["loop.read"]),
        ("aim.losses(net, x, lengths)", []),
    ],
)
def test_an_object_that_gets_a_model_moves_what_the_model_gets(
    call: str, expected: list[str]
) -> None:
    source = f"""
    def train(net, aim, loader, optimizer):
        net.train()
        optimizer.add(aim.parameters())
        for x, lengths in loader:
            loss = {call}
            loss.sum().backward()
            total = lengths.sum().item()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("target", "expected"), [("device", ["loop.copy"] * 3), ("torch.float64", [])]
)
def test_batches_with_a_move_of_their_own(target: str, expected: list[str]) -> None:
    source = f"""
    class Pair:
        def to(self, device):
            return Pair(self.x.to(device), self.y.to(device))
    def train(net, loader, device):
        for batch in loader:
            batch = batch.to({target})
            net(batch).sum().backward()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("(np.ndarray, np.number)", []),
        ("float", []),
        ("torch.Tensor", ["loop.read"]),
        ("(float, torch.Tensor)", ["loop.read"]),
    ],
)
def test_a_method_of_one_class_is_told_by_its_name(types: str, expected: list[str]) -> None:
    hub = f"""
    import torch
    class Hub:
        def update_scalar(self, value):
            if isinstance(value, {types}):
                value = value.item()
            self.last = value
        def note(self, value):
            return value.item()
    class Other:
        def note(self, step, value=None):
            return value.item()
    """
    source = """
    def train(net, loader, hubs):
        for x in loader:
            loss = net(x).sum()
            loss.backward()
            hubs.current.update_scalar(loss)
            hubs.current.note(loss)
            hubs.other.update_scalar(3)
    """
    assert kinds(source, hub=textwrap.dedent(hub)) == expected


def test_a_function_of_torch_that_an_object_keeps() -> None:
    source = """
    class Updater:
        def __init__(self):
            self.clip = torch.nn.utils.clip_grad_norm_
        def update_core(self, x):
            self.net(x).sum().backward()
            norm = self.clip(self.net.parameters(), 1.0)
            if math.isnan(norm):
                self.skip()
    """
    assert kinds(source) == ["loop.read"]


def test_a_loader_that_evaluates_is_not_asked_to_pin() -> None:
    source = """
        from torch.utils.data import DataLoader
        def train(model, data, device):
            {} = DataLoader(data)
            for x in DataLoader(data, pin_memory=True):
                loss = model(x.to(device))
                loss.backward()
    """
    assert "loop.copy" in kinds(source.replace("{}", "loader"))
    assert kinds(source.replace("{}", "loader")) != kinds(source.replace("{}", "val_loader"))


def test_what_only_looks_like_a_tensor_in_a_step() -> None:
    trainer = """
        class MyTrainer(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                loss = model(**inputs).loss
                return (loss, 1) if return_outputs else loss
    """
    assert kinds(trainer) == []
    step = """
        class Net:
            def __init__(self, opt, device):
                self.criterion = build(opt).to(device)
            def train_step(self, x, {}):
                loss = self.net(x)
                if self.criterion:
                    loss = self.criterion(loss)
                shown = 1 if y.flag() else 2
                loss.backward()
    """
    assert kinds(step.replace("{}", "y: KeyedJaggedTensor")) == []
    assert kinds(step.replace("{}", "y: torch.Tensor")) == ["loop.branch"]


def test_functions_that_give_each_others_results_end() -> None:
    source = """
    import torch
    class Model(torch.nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.step = first(kind)
        def forward(self, x):
            return self.step(x)
    def first(kind):
        return second(kind)
    def second(kind):
        return first(kind)
    """
    linked, facts = project(m=source)
    assert confirmed(linked, facts["m"]) == []


def test_a_program_that_names_no_device_waits_for_none() -> None:
    source = HEAD + "def train(model, optimizer, loader):\n    for x in loader:\n"
    source += "        loss = model(x).sum()\n        loss.backward()\n        print(loss.item())\n"
    user = "from m import train\ntrain(model.cuda(), optimizer, loader)\n"
    for files, reads in (({}, 0), ({"run": user}, 1)):
        linked, facts = as_given(m=source, **files)
        found = [event.kind for _, event in linked.loop_events(facts["m"])]
        assert found.count("loop.read") == reads


def test_a_running_metric_waits_where_its_package_trains_on_a_device() -> None:
    metric = textwrap.dedent("""
    import torch
    class Accuracy:
        def reset(self):
            self.correct = 0
        def update(self, output: dict):
            found = torch.max(output["scores"], dim=1)[1]
            self.correct += torch.sum(torch.eq(found, output["target"])).item()
    """)
    step = (
        "def step(net, x, optimizer):\n    net(x.cuda()).mean().backward()\n    optimizer.step()\n"
    )
    linked, facts = as_given(a__metrics=metric, b__metrics=metric, a__engine=step)
    found = {name: [*linked.loop_events(each)] for name, each in facts.items()}
    assert len(found["a.metrics"]) == 1
    assert not found["b.metrics"]
