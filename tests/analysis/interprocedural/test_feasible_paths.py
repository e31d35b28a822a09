"""Lines under tests of parameters: which call paths let them run."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, kinds, project

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x: torch.Tensor{more}):
        return self.step(x, {given})

    def step(self, x, mode, extra=None):
        if mode in ("dev", "test"):
            return self.predict(x)
        if extra is not None:
            return self.look(x)
        return x

    def predict(self, x):
        return self.look(x)

    def look(self, x):
        return x.item()
"""


@pytest.mark.parametrize(
    ("more", "given", "reported"),
    [
        ("", "'train'", False),
        ("", "'test'", True),
        ("", "'train', None", False),
        ("", "'train', x", True),
        (", mode='train'", "mode", False),
        (", mode='test'", "mode", True),
        (", mode", "mode", True),
        (", *others", "*others", True),
    ],
)
def test_what_calls_pass_decides_whether_a_later_call_is_made(
    more: str, given: str, reported: bool
) -> None:
    source = MODEL.format(more=more, given=given)
    assert kinds(source) == ["sync.item"] * reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["sync.item"]


def test_tests_in_several_functions_have_to_hold_on_one_path() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return self.run(x, "a", False) + self.run(x, "b", True)
            def run(self, x, mode, flag):
                if mode == "a":
                    return self.read(x, flag)
                return x
            def read(self, x, flag):
                if flag:
                    return x.item()
                return x
    """
    assert kinds(source) == []
    assert kinds(source.replace('"a", False', '"a", True')) == ["sync.item"]


def test_the_call_path_that_is_shown_is_one_on_which_the_line_runs() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return self.one(x) + self.two(x)
            def one(self, x):
                return self.read(x, False)
            def two(self, x):
                return self.read(x, True)
            def read(self, x, flag):
                if flag:
                    return x.item()
                return x
    """
    linked, facts = project(m=source)
    (event,) = confirmed(linked, facts["m"])
    region = linked.region("m.M.read", event.needs)
    assert region is not None
    assert region.call_path[1:] == ("line 5 calls M.two", "line 9 calls M.read")


def test_functions_that_only_call_each_other_are_not_left_out() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return self.walk(x, 3)
            def walk(self, x, depth):
                if depth == 0:
                    return x.item()
                return self.walk(x, depth - 1)
    """
    assert kinds(source) == ["sync.item"]


def test_what_may_be_left_out_does_not_decide_the_other_half_of_a_test() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return self.run(x)
            def run(self, x, label=None, update=True):
                if label is not None and update:
                    return x
                return self.read(x)
            def read(self, x):
                return x.item()
    """
    assert kinds(source) == ["sync.item"]


LOOP = """
import torch

def train(model, loader, optimizer, device):
    model.to(device)
    for x in loader:
        loss = step(model, x.to(device, non_blocking=True), {given})
        loss.backward()
        optimizer.step()

def step(model, x, mode: str = "dev"):
    {test}
        return look(model(x))
    return model(x).sum()

def look(y):
    return y.sum().item()
"""


@pytest.mark.parametrize(
    ("test", "given", "reported"),
    [
        ("if mode == 'dev':", "mode='train'", False),
        ("if mode == 'dev':", "mode='dev'", True),
        ("if mode == 'dev':", "'dev'", True),
        ("if mode == 'dev':", "", True),
        ("if mode == 'dev':", "mode=device", True),
        ("if mode != 'dev':", "", False),
        ("if mode != 'dev':\n        return model(x).sum()\n    with device:", "'train'", False),
        ("if mode != 'dev':\n        return model(x).sum()\n    with device:", "'dev'", True),
    ],
)
def test_what_a_training_loop_passes_decides_what_it_leads_to(
    test: str, given: str, reported: bool
) -> None:
    linked, facts = project(m=LOOP.format(test=test, given=given))
    found = list(linked.loop_events(facts["m"]))
    assert [event.kind for _, event in found] == ["loop.read"] * reported
    for region, _ in found:
        assert [step.rpartition(" ")[2] for step in region.call_path[1:]] == ["m.step", "m.look"]
    linked, facts = project(RegionOptions(every=True), m=LOOP.format(test=test, given=given))
    assert [event.kind for _, event in linked.loop_events(facts["m"])] == ["loop.read"]


PASS = """
import torch

class Base:
    def learn(self, epochs):
        for epoch in range(epochs):
            self._update()

    def _update(self):
        for x in self.dataloader:
            self._update_actor(x)
        kl = torch.zeros(3, device="cuda").mean()
        self.store(kl.item())

    def _update_actor(self, x):
        loss = self.model(x).sum()
        loss.backward()
        self.optimizer.step()

class Whole(Base):
    def _update(self):
        self._update_actor(self.x)

    def _update_actor(self, x):
        loss = self.model(x.to("cuda")).sum()
        loss.backward()
        self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "reported"), [("for x in self.dataloader:", False), ("with self.timer as x:", True)]
)
def test_what_stands_beside_a_loop_over_batches_runs_once_per_pass(
    loop: str, reported: bool
) -> None:
    linked, facts = project(m=PASS.replace("for x in self.dataloader:", loop))
    found = [event.kind for _, event in linked.loop_events(facts["m"])]
    assert ("loop.read" in found) is reported
    linked, facts = project(
        RegionOptions(every=True), m=PASS.replace("for x in self.dataloader:", loop)
    )
    assert "loop.read" in [event.kind for _, event in linked.loop_events(facts["m"])]


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ("self.forward(x, features_only=True)", False),
        ("self(x, True)", False),
        ("self(x, features_only=others)", True),
        ("self(x)", True),
        ("x", True),  # nothing calls forward: users do
    ],
)
def test_a_forward_that_the_project_calls_gets_what_it_passes(call: str, reported: bool) -> None:
    source = f"""
        import torch
        class Encoder(torch.nn.Module):
            def forward(self, x: torch.Tensor, features_only=False):
                if features_only:
                    return x
                return x.item()
            def features(self, x, others):
                return {call}
    """
    assert kinds(source) == ["sync.item"] * reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["sync.item"]


KEPT = """
import torch

class Trainer:
    def __init__(self, model, optimizer, head):
        self.model, self.optimizer = model, optimizer
        self._reader = torch.compile(model.reader)
        self._head = model.head
        self._given = head

    def fit(self, loader, device):
        for x in loader:
            y = self.model(x.to(device, non_blocking=True))
            loss = step(y, {given})
            loss.backward()
            self.optimizer.step()

def step(y, reader=None, head=None):
    if {test}:
        return reader(y, head)
    return look(y)

def look(y):
    return y.sum() / y.max().item()
"""


@pytest.mark.parametrize(
    ("test", "given", "reported"),
    [
        ("reader is not None and head is not None", "self._reader, self._head", False),
        ("not (reader is None or head is None)", "self._reader, head=self._head", False),
        ("reader is not None and head is not None", "self._reader", True),
        ("reader is not None and head is not None", "self._reader, self._given", True),
        ("reader is not None and loader(head)", "self._reader, self._head", True),
        ("isinstance(head, int)", "head=3", False),
        ("isinstance(head, int)", "head=device", True),
        ("isinstance(head, dict)", "head=x", True),
    ],
)
def test_what_a_step_keeps_is_something(test: str, given: str, reported: bool) -> None:
    linked, facts = project(m=KEPT.format(test=test, given=given))
    found = [event.kind for _, event in linked.loop_events(facts["m"])]
    assert found == ["loop.read"] * reported


@pytest.mark.parametrize(
    ("more", "decorator", "reported"),
    [("x, 3", "@staticmethod", False), ("x", "@staticmethod", True), ("M(), x, 3", "", True)],
)
def test_a_method_without_an_object_gets_what_its_class_is_called_with(
    more: str, decorator: str, reported: bool
) -> None:
    first = "" if decorator else "self, "
    source = f"""
        import torch
        class Tools:
            {decorator}
            def read({first}x: torch.Tensor, kept=None):
                if kept is None:
                    return x.item()
                return x
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return Tools.read({more})
    """
    assert kinds(source) == ["sync.item"] * reported
