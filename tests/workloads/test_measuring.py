"""The measuring parts: probes, timing, profiles, errors, compiler events, child processes."""

from __future__ import annotations

import dataclasses
import importlib
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import output_code

from benchmarks.workloads import (
    accuracy,
    catalogue,
    decisions,
    gpu_profile,
    host_profile,
    jobs,
    observe,
    probe,
    running,
    schedule,
    timing,
    variants,
)
from benchmarks.workloads.accuracy import Answer
from pygraph_rt.inductor import torch_support
from pygraph_rt.options import Options, split_options
from tests.workloads.support import CPU


def _no_note(step: str) -> None:
    del step


def test_a_probe_counts_calls_and_graphs() -> None:
    workload = catalogue.named("deeprecommender_inference")
    torch._dynamo.reset()
    found = probe.measure(workload, variants.named("aot_eager"), CPU, True, _no_note)
    assert found["warm_up_calls"] == variants.named("aot_eager").warm_calls
    assert found["first_call_s"] > found["steady_call_s"] > 0
    assert 0 < found["warm_up_s"] < 2 * found["first_call_s"]
    assert found["compiler"]["graphs"] == 1
    assert found["compiler"]["graph_breaks"] == 0


def test_calls_that_are_slow_until_all_is_decided_count_as_warm_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = catalogue.named("deeprecommender_inference")
    variant = variants.Variant("deciding", None, settled="benchmarks.workloads.decisions:made")
    live = running.build(workload, variant, CPU, True)
    function, called = live.function, []
    slow = variant.warm_calls + probe.SETTLING_BLOCK

    def slow_until_decided(*args: object) -> object:
        called.append(1)
        if len(called) <= slow:
            time.sleep(0.01)
        return function(*args)

    live.function = slow_until_decided
    monkeypatch.setattr(running, "build", lambda *_: live)
    monkeypatch.setattr(decisions, "made", lambda: len(called) >= slow)
    found = probe.measure(workload, variant, CPU, True, _no_note)
    assert found["warm_up_calls"] == slow
    assert found["warm_up_s"] > 0.9 * 0.01 * slow


def test_a_variant_that_decides_while_running_is_called_until_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = catalogue.named("deeprecommender_inference")
    variant = variants.Variant("deciding", None, settled="benchmarks.workloads.decisions:made")
    live = running.build(workload, variant, CPU, True)
    batches = running.draw_batches(live, 3, seed=1)
    answers = iter([False, False, True])
    monkeypatch.setattr(decisions, "made", lambda: next(answers))
    calls, seconds = probe.settle(live, batches)
    assert calls == 2 * probe.SETTLING_BLOCK
    assert seconds > 0
    monkeypatch.setattr(decisions, "made", lambda: False)
    assert probe.settle(live, batches)[0] <= probe.SETTLING_CALLS
    assert probe.settle(running.build(workload, variants.named("eager"), CPU, True), batches) == (
        0,
        0,
    )


@pytest.mark.parametrize("name", [v.name for v in variants.VARIANTS if v.backend])
def test_the_options_of_a_variant_are_known(name: str) -> None:
    variant = variants.named(name)
    assert variant.compile is not None
    own, rest = split_options(variant.compile.get("options"), torch_support.option_names())
    assert not rest
    assert (own == Options()) == ("options" not in variant.compile)
    tuned = torch_support.mode_options(variant.compile.get("mode")).get("max_autotune", False)
    assert tuned == name.endswith("max-autotune")


def test_timing_covers_all_variants_and_keeps_a_failing_one_out() -> None:
    workload = catalogue.named("deeprecommender_training")
    broken = variants.Variant("broken", {"backend": "no_such_backend"})
    chosen = [variants.named("eager"), broken, variants.named("aot_eager")]
    torch._dynamo.reset()
    prepared = timing.prepare(workload, chosen, CPU, True, _no_note)
    assert "no_such_backend" in prepared.failed["broken"]
    assert all(check["agrees"] for check in prepared.checked.values())
    plan = timing.Plan(rounds=3, round_seconds=0.01)
    timed = timing.time_rounds(prepared, plan, _no_note)
    assert set(timed) == {"eager", "aot_eager"}
    for figures in timed.values():
        assert len(figures["ms"]) == 3
        assert figures["calls_a_round"] >= plan.least
        assert all(
            0 < host <= total for host, total in zip(figures["host_ms"], figures["ms"], strict=True)
        )


def test_the_fastest_get_more_rounds_while_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = timing.Prepared([], [], {}, {})
    usual = {"slow": 2.0, "first": 1.0, "second": 1.1}
    for name in usual:
        variant = dataclasses.replace(variants.named("eager"), name=name)
        workload = catalogue.named("deeprecommender_training")
        prepared.live.append(running.Running(workload, variant, None, None, CPU))  # type: ignore[arg-type]
    ran = dict.fromkeys(usual, 0)
    noise = 0.0

    def one_round(live: Any, batches: Any, calls: int) -> tuple[float, float]:
        name = live.variant.name
        ran[name] += 1
        ms = usual[name] * (1 + noise * (ran[name] % 5 - 2))
        return ms, ms / 2

    monkeypatch.setattr(timing, "_round", one_round)
    monkeypatch.setattr(timing, "_calls", lambda *_: 5)
    plan = timing.Plan(rounds=9, most_rounds=60)

    def rounds() -> dict[str, int]:
        timed = timing.time_rounds(prepared, plan, _no_note)
        for figures in timed.values():
            assert len(figures["ms"]) == len(figures["host_ms"])
        return {name: len(figures["ms"]) for name, figures in timed.items()}

    assert rounds() == {"slow": 9, "first": 9, "second": 9}
    noise = 0.02
    few = rounds()
    assert few["slow"] == 9 < few["first"] == few["second"] < 60
    noise = 0.2
    assert rounds() == {"slow": 9, "first": 60, "second": 60}
    plan = dataclasses.replace(plan, more_seconds=-1.0)
    assert set(rounds().values()) == {9}


def test_answers_come_from_the_same_weights_however_long_a_variant_warmed_up() -> None:
    pytest.importorskip("transformers")
    workload = catalogue.named("gpt_training_adamw")
    longer = dataclasses.replace(variants.named("eager"), name="longer", warm_calls=30)
    prepared = timing.prepare(workload, [variants.named("eager"), longer], CPU, True, _no_note)
    assert prepared.checked["longer"]["errors"] == prepared.checked["eager"]["errors"]


def test_errors_name_no_folder_of_this_machine() -> None:
    text = f'File "{timing._ROOT}/benchmarks/x.py" and "/opt/venv/lib/site-packages/torch/y.py"'
    assert timing.without_folders(text) == 'File "benchmarks/x.py" and "torch/y.py"'
    region = {"source": f"forward at {timing.__file__}:1-2", "cuts": [{"place": "/x/y.py"}], "n": 1}
    seen = timing.shown([region])
    assert seen[0]["source"] == "forward at benchmarks/workloads/timing.py:1-2"
    assert seen[0]["cuts"] == [{"place": "/x/y.py"}]
    assert seen[0]["n"] == 1


def test_a_dead_child_is_a_result_with_its_step(tmp_path: Path) -> None:
    task = jobs.Task("probe", "no_such_workload", ("eager",), tmp_path, ("--device", "cpu"))
    child = jobs.Child(task, tmp_path, compile_threads=1, limit_s=120)
    outcome = child.outcome()
    assert "exit status 1" in outcome["error"]
    assert "no_such_workload" in outcome["error"]
    assert outcome["failed_step"] == "starting"


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ("warming up reduce-overhead", "reduce-overhead"),
        ("timing pygraph", "pygraph"),
        ("profiling default", "default"),
        ("checking answers", None),
        ("waiting", None),
    ],
)
def test_the_crashed_variant_is_read_from_the_step(step: str, wanted: str | None) -> None:
    outcome = {"error": "process died", "failed_step": step}
    assert schedule.crashed_variant(outcome) == wanted
    assert schedule.crashed_variant({"step": "done"}) is None


def test_profile_summary_counts_overlap_once() -> None:
    events = [
        {"cat": "kernel", "name": "gemm", "ts": 0.0, "dur": 100.0},
        {"cat": "kernel", "name": "multi_tensor_apply_kernel<Copy>", "ts": 50.0, "dur": 100.0},
        {
            "cat": "gpu_memcpy",
            "name": "Memcpy DtoD",
            "ts": 400.0,
            "dur": 50.0,
            "args": {"bytes": 8},
        },
        {
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD",
            "ts": 500.0,
            "dur": 50.0,
            "args": {"bytes": 4},
        },
        {"cat": "cpu_op", "name": "aten::add", "ts": 0.0, "dur": 9999.0},
        {"cat": "kernel", "name": "no duration"},
    ]
    found = gpu_profile.summarise(events, calls=2)
    assert found["busy_ms"] == pytest.approx(0.125)
    assert found["kernels"] == 1
    assert found["copy_ms"] == pytest.approx(0.1)
    assert found["device_to_device_bytes"] == 4
    assert found["host_to_device_bytes"] == 2
    assert found["device_to_host_bytes"] == 0


class Work:
    """Stands in for a function of the compiler's."""

    def inner(self) -> None:
        time.sleep(0.002)

    def outer(self) -> None:
        self.inner()
        self.inner()


class Calls:
    """What host_profile asks of a running variant."""

    device = CPU
    case = SimpleNamespace(calls_per_reset=4)

    def __init__(self, fails: bool = False) -> None:
        self.calls, self.resets, self._fails = 0, 0, fails

    def reset(self) -> None:
        self.resets += 1

    def call(self, batch: Any) -> None:
        self.calls += 1
        Work().outer()
        if self._fails and self.calls > 1:
            raise RuntimeError("broken")


def work_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [host_profile.Layer(n, __name__, "Work", n) for n in ("outer", "inner")]
    layers += [host_profile.Layer("gone", __name__, "Work", "gone")]
    layers += [host_profile.Layer("unloaded", "no.such.module", "Work", "inner")]
    monkeypatch.setattr(host_profile, "LAYERS", layers)


def test_host_time_by_layer_is_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    work_layers(monkeypatch)
    live: Any = Calls()
    before = Work.inner
    found = host_profile.measure(live, [None])
    assert (live.calls, live.resets) == (4, 1)  # one to begin with, and no more than may follow
    assert {name: layer["times"] for name, layer in found.items()} == {"outer": 1, "inner": 2}
    assert 4000 <= found["inner"]["us"] <= found["outer"]["us"]
    assert Work.inner is before


def test_host_layers_are_taken_off_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    work_layers(monkeypatch)
    before = Work.inner
    live: Any = Calls(fails=True)
    with pytest.raises(RuntimeError, match="broken"):
        host_profile.measure(live, [None])
    assert Work.inner is before


@pytest.mark.parametrize("layer", host_profile.LAYERS, ids=lambda layer: layer.function)
def test_host_layers_exist(layer: host_profile.Layer) -> None:
    owner = getattr(importlib.import_module(layer.module), layer.owner)
    assert callable(getattr(owner, layer.function))


def test_errors_are_relative_and_never_hide_a_nan() -> None:
    right = Answer([torch.tensor([3.0, 4.0])], [torch.tensor([1.0])])
    near = Answer([torch.tensor([3.0, 4.5])], [torch.tensor([1.0])])
    assert accuracy.errors(near, right) == {"outputs": pytest.approx(0.1), "gradients": 0.0}
    bad = Answer([torch.tensor([3.0, math.nan])], [torch.tensor([1.0])])
    assert accuracy.errors(bad, right)["outputs"] == math.inf
    short = Answer([torch.tensor([3.0])], [torch.tensor([1.0])])
    assert accuracy.errors(short, right)["outputs"] == math.inf


@pytest.mark.parametrize(
    ("found", "eager", "apart", "wanted"),
    [
        (0.01, 0.001, None, True),
        (0.06, 0.001, None, False),
        (0.15, 0.1, None, True),
        (0.15, 0.1, 0.01, True),
        (0.15, 0.1, 0.2, False),
        (math.inf, 0.1, 0.0, False),
        (math.nan, 0.1, 0.0, False),
    ],
)
def test_agreement(found: float, eager: float, apart: float | None, wanted: bool) -> None:
    def as_errors(value: float) -> dict[str, float | None]:
        return {"outputs": value, "gradients": None}

    from_default = None if apart is None else as_errors(apart)
    assert (
        accuracy.agrees(as_errors(found), as_errors(eager), from_default, tolerance=0.05) is wanted
    )


def test_compiler_events_are_recorded_and_hooks_taken_back() -> None:
    report, copy = output_code.log_cudagraph_skip_and_bump_counter, torch._foreach_copy_
    with observe.recording() as record:
        output_code.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to /a/b/c.py: cpu")
        torch._foreach_copy_([torch.zeros(4)], [torch.ones(4)])
        summary = record.summary()
    assert summary["cudagraph_skips"] == 1
    assert summary["cudagraph_skip_reasons"] == {"skipping cudagraphs due to c.py: cpu": 1}
    assert record.copied_bytes == 16
    assert output_code.log_cudagraph_skip_and_bump_counter is report
    assert torch._foreach_copy_ is copy


def test_a_missing_package_is_a_reason_and_not_an_error() -> None:
    absent = variants.Variant("absent", {}, needs="no_such_package_anywhere")
    assert (
        variants.reason_missing(absent) == "the package no_such_package_anywhere is not installed"
    )
    assert variants.reason_missing(variants.named("default")) is None
