"""Seconds until calls 1 to 500: what a row holds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from benchmarks.first_calls import __main__ as command
from benchmarks.first_calls import measure
from benchmarks.first_calls.models import MODELS, Model


def test_a_row_holds_medians_and_parts_of_default_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(arguments: list[str], cache: str, seconds: int, module: str) -> Any:
        mode = arguments[arguments.index("--mode") + 1]
        asked.append((mode, cache))
        if mode == "reduce-overhead":
            return {"error": "exit status 1"}
        turn = len([a for a in asked if a[0] == mode])
        seconds_ = {"default": 10.0, "pygraph": 5.0}.get(mode, 20.0)
        return {"s": {"1": seconds_ + turn}}

    monkeypatch.setattr(command, "run", run)
    row = command.measure("a model", [], "", 1)
    assert row["medians"]["default"] == {"cold": {"1": 13.0}, "warm": {"1": 14.0}}
    assert row["beside"]["pygraph"] == {"cold": {"1": round(8 / 13, 3)}, "warm": {"1": 0.643}}
    assert row["beside"]["reduce-overhead"] == {}
    folders = [cache for mode, cache in asked if mode == "default"]
    assert folders[0] == folders[1] != folders[2]


def test_an_error_of_another_mode_is_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "run", lambda *_: {"error": "exit status 1"})
    assert command.measure("a model", [], "", 1) == {"error": "exit status 1", "mode": "default"}


def test_ten_models_and_every_call_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(MODELS) == 10
    numbers: list[int] = []
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    model = Model(torch.nn.Identity(), lambda function, number: numbers.append(number))
    found = measure.seconds_until(model, "default", 12)
    assert list(found) == ["1", "10"]
    assert numbers == list(range(12))


def test_hits_of_the_cache_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Counter({"autograd_cache_hit": 2, "inline_call": 3})
    monkeypatch.setitem(counters, "aot_autograd", found)
    assert measure.cached_graphs() == {"hit": 2, "miss": 0, "bypass": 0}
