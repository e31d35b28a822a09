"""One row, such as `batch1_max_autotune`, in a process of its own: prints one JSON object.

Each way generates with transformers' own loop (greedy, static cache) until it is warm; the step is
what that loop calls, called again with the arguments it got in the middle of a generation, and with
the chosen token as its next input. Steps of all ways are timed in turn, then whole generations.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import torch

import pygraph_rt
from benchmarks.decode import bandwidth
from benchmarks.decode.ways import GROUPS, settings
from benchmarks.rows import add_row_options, without_paths
from benchmarks.runtime.measure import end_with_the_parent, gpu_busy_ms, spread, synchronize, turn

PROMPT, NEW = 32, 512
# New tokens before the step that is timed, steps that are timed together, rounds.
_BEFORE, _STEPS, _ROUNDS, _GENERATIONS = 200, 64, 9, 3


def llama(device: str, tiny: bool, layers: int | None) -> Any:
    """Llama 3.1 8B's shape, random bf16 weights."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=256 if tiny else 128256,
        hidden_size=64 if tiny else 4096,
        intermediate_size=128 if tiny else 14336,
        num_hidden_layers=layers or (2 if tiny else 32),
        num_attention_heads=4 if tiny else 32,
        num_key_value_heads=2 if tiny else 8,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        eos_token_id=None,
        pad_token_id=0,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return transformers.LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


class Recorder:
    """Stands in for the call that `generate` makes at each step, and keeps the arguments of one."""

    def __init__(self, call: Callable[..., Any], at: int) -> None:
        self.call, self.arguments = call, dict[str, Any]()
        self._left = at

    def __call__(self, **arguments: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self.arguments = dict(arguments)
        return self.call(**arguments)


class Way:
    """A model's decoding, compiled in one way."""

    def __init__(self, name: str, model: Any, prompt: torch.Tensor, new: int) -> None:
        self.name, self.row, self.error = name, dict[str, Any](), ""
        self._model, self._prompt, self._new = model, prompt, new
        self._arguments: dict[str, Any] = {}
        self._call: Callable[..., Any] = model.__call__
        self.tokens: torch.Tensor | None = None
        self._start: list[torch.Tensor] = []

    def _options(self) -> dict[str, Any]:
        """How `generate` is told."""
        from transformers import CompileConfig

        given = settings(self.name)
        if given is None:
            return {"disable_compile": True}
        config = CompileConfig(**given)
        if self._prompt.device.type != "cuda":
            config._compile_all_devices = True
        return {"compile_config": config}

    def generate(self) -> torch.Tensor:
        """All new tokens, by transformers' own loop."""
        with torch.no_grad():
            found = self._model.generate(
                self._prompt,
                attention_mask=torch.ones_like(self._prompt),
                max_new_tokens=self._new,
                do_sample=False,
                cache_implementation="static",
                **self._options(),
            )
        self.tokens = found[:, self._prompt.shape[1] :]
        return self.tokens

    def begin(self) -> None:
        """Compile and warm up by a whole generation, and keep what a step in the middle of it is
        called with.
        """
        place, options = "forward", self._options()
        if "compile_config" in options:
            place = "_compiled_call"
            self._model.get_compiled_call(options["compile_config"])
        held = self._model.__dict__.get(place)
        self._call = getattr(self._model, place)
        recorder = Recorder(self._call, min(_BEFORE, self._new // 2))
        object.__setattr__(self._model, place, recorder)
        started = time.perf_counter()
        try:
            self.generate()
        finally:
            if held is None:
                self._model.__dict__.pop(place, None)
            else:
                object.__setattr__(self._model, place, held)
        synchronize()
        self.row["first_generation_s"] = round(time.perf_counter() - started, 2)
        self._arguments = recorder.arguments
        layers = self._arguments["past_key_values"].layers
        self._start = [layer.cumulative_length for layer in layers]

    def rewind(self) -> None:
        """Put the cache back to the middle."""
        for length in self._start:
            length.fill_(PROMPT + min(_BEFORE, self._new // 2))

    def step(self, *_: Any) -> None:
        """One step, with its own token as the next input."""
        with torch.no_grad():
            logits = self._call(**self._arguments).logits
            self._arguments["input_ids"] = logits[:, -1].argmax(-1, keepdim=True)

    def period(self) -> float:
        """Milliseconds a step, over some steps."""
        steps = min(_STEPS, self._new // 4)
        self.rewind()
        synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            self.step()
        synchronize()
        return (time.perf_counter() - started) / steps * 1e3

    def generation(self) -> float:
        """Milliseconds a new token, of a whole generation."""
        synchronize()
        started = time.perf_counter()
        self.generate()
        synchronize()
        return (time.perf_counter() - started) / self._new * 1e3


def begin(name: str, model: Any, prompt: torch.Tensor, new: int) -> Way:
    """A way that is warm, or has failed."""
    way = Way(name, model, prompt, new)
    gc.collect()
    try:
        way.begin()
    except Exception as error:  # what this way does with the model is what is measured
        lines = str(error).strip().splitlines() or [""]
        told = f"{type(error).__name__}: {without_paths(lines[0])}"
        way.error = way.row["error"] = told[:300]
    return way


def timed(ways: list[Way], tiny: bool) -> None:
    """Steps of all ways in turn, then whole generations in turn; GPU time of a step. Eager, which
    is many times slower, takes part in the first ones only.
    """
    steps: dict[str, list[float]] = {way.name: [] for way in ways}
    whole: dict[str, list[float]] = {way.name: [] for way in ways}
    for number in range(2 if tiny else _ROUNDS):
        for way in ways if number % 2 else ways[::-1]:
            if number < 2 or way.name != "eager":
                steps[way.name].append(way.period())
    for number in range(1 if tiny else _GENERATIONS):
        for way in ways if number % 2 else ways[::-1]:
            if number < 1 or way.name != "eager":
                whole[way.name].append(way.generation())
    for way in ways:
        way.rewind()
        way.row["step_ms"] = spread(steps[way.name])
        way.row["generate_ms"] = spread(whole[way.name])
        way.row["gpu_busy_ms"] = round(gpu_busy_ms(way.step, []), 4)


def judge(row: dict[str, Any], least_ms: dict[str, float]) -> None:
    """Shares of the limit; how much of a step the GPU waits."""
    if "step_ms" not in row:
        return
    step, busy = row["step_ms"]["median"], row["gpu_busy_ms"]
    row["step_share_of_limit"] = round(least_ms["step"] / step, 4)
    row["generate_share_of_limit"] = round(least_ms["generate"] / row["generate_ms"]["median"], 4)
    if busy:
        row["kernels_share_of_limit"] = round(least_ms["step"] / busy, 4)
        row["idle_share_of_step"] = round(1 - busy / step, 4)


def limits(model: Any, batch: int, new: int, device: str, tiny: bool) -> dict[str, Any]:
    """The bandwidth, and milliseconds that it takes to read what has to be read."""
    found = bandwidth.measured(device, tiny)
    read = bandwidth.weights(model, batch)
    middle = PROMPT + min(_BEFORE, new // 2) + min(_STEPS, new // 4) / 2
    least = {
        "step": read + bandwidth.cache(model.config, batch, middle),
        "generate": read + bandwidth.cache(model.config, batch, PROMPT + new / 2),
    }
    return {
        "gbytes_a_second": {name: round(value / 1e9, 1) for name, value in found.items()},
        "weights_mib": read >> 20,
        "least_ms": {name: round(v / found["best"] * 1e3, 5) for name, v in least.items()},
    }


def tokens_in_common(one: Way, other: Way) -> int:
    """How many tokens two ways choose alike, in all sequences, before the first difference."""
    assert one.tokens is not None
    same = (one.tokens == other.tokens).all(0)
    return int(same.long().cumprod(0).sum())


def one(name: str, device: str, tiny: bool, lock: str, layers: int | None) -> dict[str, Any]:
    """All ways of one row."""
    place, _, group = name.partition("_")
    batch, new = int(place.removeprefix("batch")), 16 if tiny else NEW
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64
    model = llama(device, tiny, layers)
    source = torch.Generator().manual_seed(1)
    shape = (batch, PROMPT)
    prompt = torch.randint(1, model.config.vocab_size, shape, generator=source).to(device)
    with turn(lock, False):
        ways = [begin(way, model, prompt, new) for way in GROUPS[group]]
    with turn(lock, True):
        known = limits(model, batch, new, device, tiny)
        timed([way for way in ways if not way.error], tiny)
    done = [way for way in ways if way.tokens is not None]
    compiled = [way for way in done if way.name != "eager"]
    for way in ways:
        judge(way.row, known["least_ms"])
    for name, among in (("same_tokens", done), ("same_tokens_compiled", compiled)):
        for way in among:
            way.row[name] = tokens_in_common(way, among[0])
    states = [(r["state"], r["nodes"]) for r in pygraph_rt.report().to_dict()["regions"]]
    return {**known, "ways": {way.name: way.row for way in ways}, "regions": states[:8]}


def main() -> None:
    """Measure one row and print it."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    add_row_options(parser)
    parser.add_argument("--layers", type=int, help="fewer layers, to try it out")
    given = parser.parse_args()
    print(json.dumps(one(given.name, given.device, given.tiny, given.lock, given.layers)))


if __name__ == "__main__":
    main()
