"""Training loops: what a step is, and what does not run on every step."""

from __future__ import annotations

import textwrap

import pytest

from tests.analysis.loops.test_costs import HEAD, LOOP, in_loop, kinds
from tests.analysis.programs import project


def test_loops_of_tests_need_not_be_fast() -> None:
    source = HEAD + LOOP.format(body="        print(loss)", after="")
    assert kinds("", train=source) == ["loop.print"]
    assert kinds("", pkg__tests__train=source) == kinds("", test_train=source) == []


def test_steps_that_a_trainer_calls() -> None:
    source = """
        import lightning
        class Lit(lightning.LightningModule):
            def training_step(self, batch, index):
                x, y = batch
                loss = F.cross_entropy(self(x), y)
                self.log("loss", loss)
                self.log("plain", loss.item())
                return loss
            def on_train_epoch_end(self):
                print(self.total.item())
        class Weighted(transformers.Trainer):
            def compute_loss(self, model, inputs):
                out = model(**inputs)
                return print(out.loss)
    """
    assert kinds(source) == ["loop.read", "loop.print"]


def test_a_loop_around_a_step_function() -> None:
    source = """
        class Agent:
            def __init__(self, device):
                self.net = nn.Linear(3, 3).to(device)
            def act(self, state):
                return int(self.net(state).argmax())
            def learn(self, batch):
                loss = self.net(batch).sum()
                loss.backward()
        def main(device, steps):
            agent = Agent(device)
            for _ in range(steps):
                agent.act(None)
                agent.learn(None)
        def evaluate(device, steps):
            agent = Agent(device)
            for _ in range(steps):
                print(agent.net(None).sum().item())
    """
    assert kinds(source) == ["loop.read"]


def test_compiled_code_in_a_loop() -> None:
    source = """
        step = torch.compile(nn.Linear(3, 3))
        def run(batches):
            for batch in batches:
                print(step(batch).sum().item())
            print(step(batch).sum().item())
    """
    assert kinds(source) == ["loop.read"]


def test_calls_say_how_the_step_leads_to_a_line() -> None:
    source = """
        def note(loss):
            print(loss)
        def train(model, loader):
            for x in loader:
                loss = model(x)
                loss.backward()
                note(loss)
    """
    linked, facts = project(m=HEAD + textwrap.dedent(source))
    ((region, event),) = linked.loop_events(facts["m"])
    assert event.kind == "loop.print"
    assert region.call_path == (
        "m.train (computes gradients on every step, line 9)",
        "line 12 calls m.note",
    )


@pytest.mark.parametrize("test", ["interval > 0", "self.log_every is not None", "debug != 0"])
def test_a_setting_that_is_on_for_all_steps(test: str) -> None:
    assert in_loop(f"if {test}:\n    print(loss)") == ["loop.print"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("def train_step(model, x):", ["loop.read"]),
        ("def test_gradients(model, x):", []),
        ("def benchmark_backward(model, x):", []),
    ],
)
def test_a_test_trains_nothing(head: str, expected: list[str]) -> None:
    body = "    loss = model(x).square().mean()\n    loss.backward()\n    assert loss.item() > 0\n"
    assert kinds(f"{head}\n{body}") == expected


def test_a_script_that_computes_gradients_once_has_no_step() -> None:
    once = "loss = F.relu(torch.ones(3, requires_grad=True)).sum()\nloss.backward()\nloss.item()\n"
    assert kinds(once) == []
    assert kinds(f"for _ in range(9):\n{textwrap.indent(once, '    ')}") == ["loop.read"]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("for part in microbatches(x):", ["loop.copy", "loop.read", "loop.read"]),
        ("for _ in range(self.grad_accum_steps):", ["loop.copy", "loop.read", "loop.read"]),
        ("for loss in self.losses(x):", ["loop.copy", "loop.read", "loop.read"]),
        ("while self.more:", ["loop.read"]),
        ("for x in self.loader:", ["loop.read"]),
    ],
)
def test_a_loop_over_parts_of_a_step_is_no_step_of_its_own(inner: str, expected: list[str]) -> None:
    source = f"""
    def train(self, x, device):
        x = x.to(device)
        {inner}
            loss = self.loss(x) if x.ndim else loss
            loss.backward()
            print(loss.item())
        total = loss.item()
    """
    assert kinds(source) == expected


def test_a_function_that_calls_a_step_is_run_on_every_step() -> None:
    source = """
    class Agent:
        def __init__(self):
            self._update = self.update
        def update(self, x):
            loss = self.net(x).sum()
            loss.backward()
            return loss.detach()
        def learn(self, x):
            value = self._update(x)
            return value.item()
        def fit(self, loader):
            for epoch in range(9):
                for x in loader:
                    self.learn(x)
                print(self.net.weight.sum().item())
    """
    assert kinds(source) == ["loop.read"]


@pytest.mark.parametrize("call", ["step(closure)", "step(closure=closure)"])
def test_the_loop_around_a_closure_is_a_step(call: str) -> None:
    source = f"""
    def train(net, optimizer, loader):
        for x in loader:
            def closure():
                loss = net(x).sum()
                loss.backward()
                return loss
            loss = optimizer.{call}
            print(net(x).sum().item())
    """
    assert kinds(source) == ["loop.read"]


def test_a_function_may_say_that_a_step_is_rare() -> None:
    source = """
    class Trainer:
        def is_logging(self):
            return self.on and (self.count + 1) % self.frequency == 0
        def log(self, loss):
            if self.is_logging():
                self.write(loss)
        def write(self, loss):
            print(loss.item())
        def fit(self, loader):
            for x in loader:
                loss = self.net(x).sum()
                loss.backward()
                self.log(loss)
    """
    assert kinds(source) == []


def test_a_step_that_is_tried_again_is_one_step() -> None:
    source = """
    def train(self, x, device):
        x = x.to(device)
        while True:
            try:
                self.net(x).sum().backward()
            except MemoryError:
                continue
            return x
    """
    assert kinds(source) == ["loop.copy"]


@pytest.mark.parametrize("name", ["after_backward", "before_update", "_after_train_iter"])
def test_hooks_that_say_when_they_are_called(name: str) -> None:
    source = f"""
    class Projection({{base}}):
        def {name}(self, strategy):
            norm = torch.cat([p.grad.flatten() for p in strategy.model.parameters()]).norm()
            if norm < 1:
                self.count += 1
        def after_training(self, strategy):
            torch.cuda.synchronize()
    """
    assert kinds(source.format(base="SupervisedPlugin")) == ["loop.branch"]
    assert kinds(source.format(base="Projector")) == []


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("not torch.isfinite(loss)", ["loop.branch", "loop.copy"]),
        ("torch.isnan(loss).any()", ["loop.branch", "loop.copy"]),
        ("scheduler is None or torch.isfinite(loss)", ["loop.branch", "loop.print"]),
    ],
)
def test_what_is_done_for_values_that_are_not_finite_is_rare(
    test: str, expected: list[str]
) -> None:
    body = f"if {test}:\n    print(loss)\nelse:\n    z = loss.new_tensor([step])"
    assert in_loop(body) == expected


@pytest.mark.parametrize(
    ("name", "after", "expected"),
    [
        ("attribute", "", []),
        ("attribute", "net.zero_grad()", []),
        ("attribute", "self.optimizer.step()", ["loop.read"]),
        ("update", "", ["loop.read"]),
    ],
)
def test_gradients_that_change_no_weights(name: str, after: str, expected: list[str]) -> None:
    source = f"""
    def {name}(self, net, x):
        loss = net(x).sum()
        loss.backward()
        {after}
        return loss.item()
    """
    assert kinds(source) == expected


@pytest.mark.parametrize(
    ("test", "runs"),
    [
        ("train", True),
        ("not train", False),
        ("not self.training", False),
        ("not train and loss is not None", False),
        ("not train or loss is not None", True),
    ],
)
def test_what_only_evaluation_runs_is_no_step_of_training(test: str, runs: bool) -> None:
    assert in_loop(f"if {test}:\n    total = loss.item()") == ["loop.read"] * runs
    if runs and test == "train":
        assert in_loop(f"if {test}:\n    pass\nelse:\n    total = loss.item()") == []


def test_loops_of_tests_are_no_training() -> None:
    source = HEAD + LOOP.format(body="        total = loss.item()", after="")
    assert kinds("", pkg__tests__steps=source) == []
    assert kinds("", pkg__steps=source) == ["loop.read"]


def test_numbers_of_numpy_are_on_the_host() -> None:
    line = "        loss.backward()\n        eps = np.finfo(np.float32).eps.item()\n"
    source = "import numpy as np\n" + HEAD + LOOP.format(body=line, after="")
    assert kinds(source) == kinds(HEAD + LOOP.format(body="        loss.backward()\n", after=""))


@pytest.mark.parametrize(
    ("test", "setter", "runs"),
    [
        ("hasattr(self, 'words')", "find", True),
        ("not hasattr(self, 'words')", "__init__", True),
        ("not hasattr(self, 'other')", "find", True),
    ],
)
def test_what_runs_before_an_object_is_set_up(test: str, setter: str, runs: bool) -> None:
    source = f"""
    import torch
    class Trainer:
        def {setter}(self, words):
            self.words = words
        def fit(self, loader):
            for x in loader:
                loss = self.model(x.to("cuda", non_blocking=True)).sum()
                loss.backward()
                self.optimizer.step()
                if {test}:
                    total = loss.item()
    """
    assert kinds(source) == ["loop.read"] * runs


@pytest.mark.parametrize(
    ("made", "test", "runs"),
    [
        ("aggregator = make(names).to('cuda')", "aggregator", False),
        ("aggregator = make(names).to('cuda')", "aggregator.sum() > 0", True),
        ("aggregator = make(names).to('cuda') > 0", "aggregator", True),
    ],
)
def test_the_bare_truth_of_what_is_moved_is_mostly_that_of_an_object(
    made: str, test: str, runs: bool
) -> None:
    source = f"""
    def fit(model, loader, optimizer, names):
        {made}
        for x in loader:
            loss = model(x.to("cuda", non_blocking=True)).sum()
            loss.backward()
            optimizer.step()
            if {test}:
                model.note()
    """
    assert kinds(source) == ["loop.branch"] * runs


def test_an_option_may_be_of_another_kind_than_its_default() -> None:
    source = """
    import torch
    class Trainer:
        def __init__(self, model, norm=False):
            self.model, self.norm = model, norm
        def fit(self, loader):
            for x in loader:
                loss = self.model(x.to("cuda", non_blocking=True)).sum()
                loss.backward()
                self.optimizer.step()
                if not isinstance(self.norm, bool):
                    total = loss.item()
    """
    assert kinds(source) == ["loop.read"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("transform.backward(mean[j], x)", []),
        ("fabric.backward(loss, model)", ["loop.read"]),
        ("mean.backward()", ["loop.read"]),
    ],
)
def test_the_way_back_of_a_transform_computes_no_gradients(call: str, found: list[str]) -> None:
    source = f"""
    def predict(model, data, transform, fabric, loss):
        for x, j in data:
            mean = model(x.cuda(non_blocking=True))
            {call}
            kept = mean.cpu()
    """
    assert kinds(source) == found
