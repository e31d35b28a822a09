"""Training steps and changing shapes: default mode, reduce-overhead and pygraph, as
`python -m benchmarks.runtime.training --out FILE`.

Each workload is timed with all modes interleaved in one process; warm-up time and memory of each
mode are measured in a process of its own, from a cold compile cache unless `--warm` says otherwise.
`--shard` and `--resume` as in `benchmarks.runtime`.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import pygraph_rt
from benchmarks import slices
from benchmarks.runtime.__main__ import MODES, environment, left_to_do, read, run, write
from benchmarks.runtime.measure import (
    end_with_the_parent,
    gpu_busy_ms,
    shown_regions,
    spread,
    synchronize,
    turn,
)

MODULE = "benchmarks.runtime.training"
# Calls of each mode in turn before it is timed: where memory is changes with who ran before.
SETTLING_CALLS = 400


class Program(NamedTuple):
    """A module, one step of a program around it when compiled, calls until it has warmed up, calls
    that are timed together, and whether shapes are dynamic.
    """

    module: torch.nn.Module
    step: Callable[[Any], Any]
    warm_up: int = 8
    calls: int = 12
    dynamic: bool | None = None


def _ids(batch: int, length: int, top: int, device: str) -> torch.Tensor:
    return torch.randint(0, top, (batch, length), device=device)


def bert(device: str, tiny: bool) -> Program:
    """BERT with 6 layers, fp32, batch 4, 128 tokens; loss inside, no optimizer."""
    import transformers

    config = transformers.BertConfig(num_hidden_layers=1 if tiny else 6)
    module = transformers.BertForMaskedLM(config).to(device).train()

    def step(model: Any) -> Any:
        ids = _ids(4, 16 if tiny else 128, 1000, device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        for parameter in module.parameters():
            parameter.grad = None
        return loss.detach()

    return Program(module, step, calls=20)


def gpt2(device: str, tiny: bool) -> Program:
    """GPT-2, 12 layers of 1024, batch 4, 512 tokens, bf16 autocast, fused AdamW; loss outside."""
    import transformers

    sizes = {"n_embd": 64, "n_layer": 1, "n_head": 2} if tiny else {"n_embd": 1024, "n_layer": 12}
    config = transformers.GPT2Config(**{"n_head": 16, **sizes})
    module = transformers.GPT2LMHeadModel(config).to(device).train()
    optimizer = torch.optim.AdamW(module.parameters(), fused=True)

    def step(model: Any) -> Any:
        ids = _ids(4, 16 if tiny else 512, 50257, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits
        loss = F.cross_entropy(
            logits[:, :-1].reshape(-1, logits.shape[-1]).float(), ids[:, 1:].reshape(-1)
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return Program(module, step)


def mt5(device: str, tiny: bool) -> Program:
    """An MT5-like step: 4 + 4 layers of 512, vocabulary of 250112, batch 4, 128 tokens, fp32; loss
    outside, so that tangents are large.
    """
    import transformers

    config = transformers.MT5Config(
        num_layers=1 if tiny else 4,
        num_decoder_layers=1 if tiny else 4,
        vocab_size=1000 if tiny else 250112,
        decoder_start_token_id=0,
    )
    module = transformers.MT5ForConditionalGeneration(config).to(device).train()
    length = 16 if tiny else 128

    def step(model: Any) -> Any:
        ids, target = (_ids(4, length, 1000, device) for _ in range(2))
        logits = model(input_ids=ids, decoder_input_ids=target, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        for parameter in module.parameters():
            parameter.grad = None
        return loss.detach()

    return Program(module, step)


def shapes(device: str, tiny: bool) -> Program:
    """Inference of a Llama-like model, 4 layers of 1024, bf16, batch 4, six lengths in turn, with
    dynamic shapes.
    """
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=128 if tiny else 1024,
        intermediate_size=256 if tiny else 2816,
        num_hidden_layers=1 if tiny else 4,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=1000 if tiny else 32000,
    )
    module = transformers.LlamaForCausalLM(config).to(device).eval().bfloat16()
    lengths = [8, 16, 24] if tiny else [32, 64, 128, 256, 512, 1024]
    turns = iter(range(1 << 30))

    def step(model: Any) -> Any:
        length = lengths[next(turns) % len(lengths)]
        with torch.no_grad():
            return model(input_ids=_ids(4, length, 1000, device), use_cache=False).logits

    return Program(module, step, 3 * len(lengths), 2 * len(lengths), True)


PROGRAMS: dict[str, Callable[[str, bool], Program]] = {
    "bert_training": bert,
    "gpt2_training": gpt2,
    "mt5_training": mt5,
    "six_shapes": shapes,
}


def prepared(name: str, mode: str, device: str, tiny: bool) -> tuple[Program, Callable[[Any], Any]]:
    """A program, and its step compiled in a mode; the step takes an argument that it ignores."""
    torch.manual_seed(0)
    program = PROGRAMS[name](device, tiny)
    options: dict[str, Any] = {"dynamic": program.dynamic}
    if mode == "pygraph":
        options.update(backend=pygraph_rt.pygraph, options={"graphs": "always"})
    elif mode != "default":
        options["mode"] = mode
    model = torch.compile(program.module, **options)

    def step(_: Any) -> Any:
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        return program.step(model)

    return program, step


def timing(name: str, modes: list[str], device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """Milliseconds a step in each mode, interleaved, once that has gone on for a while; sum of GPU
    activities of a step.
    """
    torch._dynamo.config.cache_size_limit = 64
    with turn(lock, False):
        steps = {}
        for mode in modes:
            program, steps[mode] = prepared(name, mode, device, tiny)
            for _ in range(program.warm_up):
                steps[mode](None)
    samples: dict[str, list[float]] = {mode: [] for mode in modes}
    with turn(lock, True):
        for _ in range(0 if tiny else SETTLING_CALLS // program.calls):
            for mode in modes:
                for _ in range(program.calls):
                    steps[mode](None)
        busy = {mode: gpu_busy_ms(steps[mode], []) for mode in modes}
        for number in range(3 if tiny else 11):
            for mode in modes if number % 2 else modes[::-1]:
                synchronize()
                started = time.perf_counter()
                for _ in range(program.calls):
                    steps[mode](None)
                synchronize()
                samples[mode].append((time.perf_counter() - started) / program.calls * 1e3)
    return {
        "workload": name,
        "period_ms": {mode: spread(values) for mode, values in samples.items()},
        "gpu_busy_ms": {mode: round(value, 4) for mode, value in busy.items()},
        "regions": [
            {**shown, "reason": region["reason"], "misses": region["misses"]}
            for shown, region in zip(
                shown_regions(), pygraph_rt.report().to_dict()["regions"], strict=True
            )
        ],
    }


def memory(name: str, mode: str, device: str, tiny: bool, cache: str) -> dict[str, Any]:
    """Seconds until the program has warmed up, those of each of its steps until then, and peaks of
    memory in MiB until then and after.
    """
    gpu = torch.cuda.is_available()
    started = time.perf_counter()
    program, step = prepared(name, mode, device, tiny)
    steps = [time.perf_counter()]
    for _ in range(program.warm_up):
        step(None)
        synchronize()
        steps.append(time.perf_counter())
    warm_up = steps[-1] - started
    gc.collect()
    peak_warm_up = torch.cuda.max_memory_reserved() if gpu else 0
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    for _ in range(2 * program.calls):
        step(None)
    synchronize()
    regions = pygraph_rt.report().to_dict()["regions"]
    return {
        "workload": name,
        "mode": mode,
        "compile_cache": cache,
        "warm_up_s": round(warm_up, 2),
        "warm_up_steps_s": [round(b - a, 3) for a, b in pairwise(steps)],
        "capture_s": round(sum(r["capture_ms"] for r in regions) / 1e3, 3),
        "arena_mib": [r["arena_bytes"] >> 20 for r in regions],
        "peak_reserved_mib_warm_up": peak_warm_up >> 20,
        "peak_reserved_mib": (torch.cuda.max_memory_reserved() >> 20) if gpu else 0,
        "peak_allocated_mib": (torch.cuda.max_memory_allocated() >> 20) if gpu else 0,
    }


def one(given: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in this process."""
    end_with_the_parent()
    torch.set_float32_matmul_precision("high")
    if given.one == "timing":
        modes = given.modes.split(",")
        return timing(given.workload, modes, given.device, given.tiny, given.lock)
    with turn(given.lock, False):
        cache = "warm" if given.warm else "cold"
        return memory(given.workload, given.modes, given.device, given.tiny, cache)


def plan(wanted: list[str], names: list[str]) -> list[tuple[str, list[str]]]:
    """(section, arguments) of every measurement."""
    every = ",".join(MODES)
    groups = [("timing", name, every) for name in names if "timing" in wanted]
    groups += [("memory", name, m) for name in names for m in MODES if "memory" in wanted]
    return [
        (section, ["--one", section, "--workload", name, "--modes", modes])
        for section, name, modes in groups
    ]


def measure(section: str, arguments: list[str], cache: str, seconds: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    if section == "memory" and "--warm" not in arguments:
        with tempfile.TemporaryDirectory() as cold:
            row = run(arguments, cold, seconds, MODULE)
    else:
        row = run(arguments, cache, seconds, MODULE)
    shown = {k: v for k, v in row.items() if k != "regions"}
    print(json.dumps(shown), *(r for r in row.get("regions", [])), sep="\n  ", flush=True)
    return {**row, "date": datetime.date.today().isoformat(), **slices.stamp()}


def main() -> None:
    """Run one measurement, or all that were asked for and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/training.json"))
    parser.add_argument("--only", default="timing,memory")
    parser.add_argument("--workloads", default=",".join(PROGRAMS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script out")
    parser.add_argument("--warm", action="store_true", help="measure memory with a shared cache")
    slices.add_options(parser)
    parser.add_argument("--jobs", type=int, default=1, help="how many to start together")
    parser.add_argument("--seconds", type=int, default=400, help="limit of one measurement")
    parser.add_argument("--one", choices=["timing", "memory"], help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    parser.add_argument("--modes", help=argparse.SUPPRESS)
    parser.add_argument("--lock", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given)))
        return
    extra = ["--device", given.device]
    extra += [flag for flag in ("--tiny", "--warm") if getattr(given, flag[2:])]
    old = read(given.out)
    planned = plan(given.only.split(","), given.workloads.split(","))
    planned = left_to_do(planned, given.shard, old, given.resume)
    result: dict[str, Any] = {"environment": {**environment(), "started_together": given.jobs}}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", folder)
        if given.jobs > 1:
            extra += ["--lock", str(Path(folder) / "turn")]
        tasks = [
            (section, pool.submit(measure, section, [*arguments, *extra], cache, given.seconds))
            for section, arguments in planned
        ]
        for _ in as_completed(task for _, task in tasks):
            done: dict[str, Any] = {"timing": [], "memory": []}
            for section, task in tasks:
                if task.done():
                    done[section].append(task.result())
            write(given.out, {**result, **done}, old)  # a run cut short leaves its part


if __name__ == "__main__":
    main()
