"""Training loops: what is found to cost on every step, and what is not."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.domain.region import RegionKind
from pygraph_lint.analysis.loops.calls import says_tensor
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
    ("test", "expected"), [("kind == 'log'", []), ("kind == 3", ["loop.branch"])]
)
def test_a_tensor_is_equal_to_no_text(test: str, expected: list[str]) -> None:
    source = f"""
    class Loss(nn.Module):
        def forward(self, x, kind: torch.Tensor):
            return x.log() if {test} else x
    def train(model, loader, device):
        loss = Loss()
        for x in loader:
            x = x.to(device, non_blocking=True)
            loss(model(x), x.sum()).sum().backward()
    """
    assert kinds(source) == expected


def test_the_hint_of_a_function_that_gives_tensors_names_none() -> None:
    assert says_tensor("torch.Tensor | None")
    assert not says_tensor("Union[str, Callable[..., torch.Tensor]]")


def test_a_size_that_an_object_keeps_is_none() -> None:
    source = """
    class Density(nn.Module):
        def __init__(self, shape):
            super().__init__()
            self._shape = torch.Size(shape)
        @property
        def shape(self):
            return self._shape
        def log_prob(self, x: torch.Tensor):
            if x.shape[1:] != self.shape:
                raise ValueError
            return x
    def train(loader, device):
        density = Density(device)
        for x in loader:
            x = x.to(device, non_blocking=True)
            density.log_prob(x).sum().backward()
    """
    assert kinds(source) == []
    of_tensors = source.replace("torch.Size(shape)", "torch.ones(3, device=shape)")
    assert kinds(of_tensors) == ["loop.branch"]


def test_as_tensor_of_what_a_method_computes_on_the_device_copies_nothing() -> None:
    source = """
    class Policy:
        def bend(self, p, u):
            return p * u
        def learn(self, model, loader, device):
            for x in loader:
                p = self.bend(torch.zeros(3, device=device), 2)
                p = torch.as_tensor(p, device=device)
                model(x * p).sum().backward()
    """
    assert kinds(source) == []
    assert kinds(source.replace("p * u", "[p[0], u]")) == ["loop.copy"]


def test_what_a_function_has_copied_to_the_host_is_read_there_once() -> None:
    source = """
    def on_host(value):
        return value.detach().cpu()
    def train(model, loader, log):
        for x in loader:
            loss = model(x).sum()
            loss.backward()
            log(on_host(loss).item())
    """
    assert kinds(source) == ["loop.read"]
    assert kinds(source.replace(".cpu()", ".abs()")) == ["loop.read"]


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


@pytest.mark.parametrize(
    ("reads", "copies"),
    [
        ("x = next(iter(batches)).to(device)\nfor _ in range(9):\n    {}", 0),
        ("for _ in range(9):\n    x = next(iter(batches)).to(device)\n    {}", 2),
        ("x = next(iter(batches)).to(device)\nfor x in batches:\n    x = x.to(device)\n    {}", 2),
    ],
)
def test_a_loader_of_which_one_batch_is_read(reads: str, copies: int) -> None:
    step = "model(x).sum().backward()\n    optimizer.step()"
    body = "batches = torch.utils.data.DataLoader(data, shuffle=True)\n" + reads.format(step)
    source = "def fit(model, data, optimizer, device):\n" + textwrap.indent(body, "    ")
    assert kinds(source) == ["loop.copy"] * copies
