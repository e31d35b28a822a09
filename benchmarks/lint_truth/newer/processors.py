"""Generation utilities of transformers: logits processors and stopping criteria, step by step."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.lint_truth.builders import Calls, Entry
from benchmarks.lint_truth.newer.called import Called
from benchmarks.lint_truth.shapes import BATCH

WORDS = 40
LENGTH = 8
END = 2
#: A processor keeps state from token to token.
CALLS = 3

Make = Callable[[Any, torch.device], Callable[..., Any]]


def _with(name: str, *arguments: Any, **named: Any) -> Make:
    return lambda m, device: getattr(m, name)(*arguments, **named)  # type: ignore[no-any-return]


def _on(name: str, *arguments: Any, **named: Any) -> Make:
    """A processor that is told the device."""
    return lambda m, device: getattr(m, name)(*arguments, device=device, **named)  # type: ignore[no-any-return]


def _after(name: str, argument: Any) -> Make:
    """A processor that keeps the encoder's ids, which are on the device."""

    def make(m: Any, device: torch.device) -> Callable[..., Any]:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(3, WORDS, (BATCH, LENGTH), generator=generator).to(device)
        return getattr(m, name)(argument, ids)  # type: ignore[no-any-return]

    return make


def _whisper(m: Any, device: torch.device) -> Callable[..., Any]:
    config = SimpleNamespace(
        no_timestamps_token_id=20,
        eos_token_id=END,
        bos_token_id=1,
        max_initial_timestamp_index=10,
        forced_decoder_ids=None,
        is_multilingual=False,
        _detect_timestamp_from_logprob=True,
    )
    return m.WhisperTimeStampLogitsProcessor(config, begin_index=3)  # type: ignore[no-any-return]


def _several(m: Any, device: torch.device) -> Callable[..., Any]:
    """The list that `generate` makes for ordinary sampling."""
    return m.LogitsProcessorList(  # type: ignore[no-any-return]
        [
            m.MinLengthLogitsProcessor(12, END, device=device),
            m.RepetitionPenaltyLogitsProcessor(1.2),
            m.TemperatureLogitsWarper(0.7),
            m.TopKLogitsWarper(10),
            m.TopPLogitsWarper(0.9),
        ]
    )


_KEYS = [654, 400, 836, 123, 340, 443, 597, 160, 57, 29]

_CASES: dict[str, Make] = {
    "MinLength": _on("MinLengthLogitsProcessor", 12, END),
    "MinNewTokensLength": _on("MinNewTokensLengthLogitsProcessor", 4, 8, END),
    "Temperature": _with("TemperatureLogitsWarper", 0.7),
    "RepetitionPenalty": _with("RepetitionPenaltyLogitsProcessor", 1.2),
    "RepetitionPenaltyPrompt": _with(
        "RepetitionPenaltyLogitsProcessor", 1.2, prompt_ignore_length=4
    ),
    "EncoderRepetitionPenalty": _after("EncoderRepetitionPenaltyLogitsProcessor", 1.2),
    "TopP": _with("TopPLogitsWarper", 0.9),
    "TopK": _with("TopKLogitsWarper", 10),
    "TopH": _with("TopHLogitsWarper", 0.4),
    "MinP": _with("MinPLogitsWarper", 0.1),
    "Typical": _with("TypicalLogitsWarper", 0.9),
    "Epsilon": _with("EpsilonLogitsWarper", 0.02),
    "Eta": _on("EtaLogitsWarper", 0.02),
    "NoRepeatNGram": _with("NoRepeatNGramLogitsProcessor", 2),
    "EncoderNoRepeatNGram": _after("EncoderNoRepeatNGramLogitsProcessor", 2),
    "SequenceBias": _with("SequenceBiasLogitsProcessor", [[[4, 5], -2.0], [[7], 1.5]]),
    "NoBadWords": _with("NoBadWordsLogitsProcessor", [[4, 5], [9]], END),
    "PrefixConstrained": _with(
        "PrefixConstrainedLogitsProcessor", lambda batch, ids: [3, 4, 5, batch], 1
    ),
    "ForcedBOSToken": _with("ForcedBOSTokenLogitsProcessor", 1),
    "ForcedEOSToken": _on("ForcedEOSTokenLogitsProcessor", LENGTH + 1, END),
    "InfNanRemove": _with("InfNanRemoveLogitsProcessor"),
    "ExponentialDecayLengthPenalty": _with("ExponentialDecayLengthPenalty", (1, 1.1), END, 4),
    "LogitNormalization": _with("LogitNormalization"),
    "SuppressTokensAtBegin": _on("SuppressTokensAtBeginLogitsProcessor", [3, 4], LENGTH),
    "SuppressTokens": _on("SuppressTokensLogitsProcessor", [3, 4]),
    "WhisperTimeStamp": _whisper,
    "AlternatingCodebooks": _with("AlternatingCodebooksLogitsProcessor", 2, 8, 16),
    "BarkEosPrioritizer": _on("BarkEosPrioritizerLogitsProcessor", END, 0.1),
    "Watermark": lambda m, device: m.WatermarkLogitsProcessor(WORDS, device),
    "SynthIDTextWatermark": lambda m, device: m.SynthIDTextWatermarkLogitsProcessor(
        3, _KEYS, 256, 0, 32, device
    ),
    "SamplingList": _several,
}

_STOPPING: dict[str, Make] = {
    "MaxLength": _with("MaxLengthCriteria", LENGTH + 1),
    "MaxTime": _with("MaxTimeCriteria", 100.0),
    "EosToken": lambda m, device: m.EosTokenCriteria(torch.tensor([END], device=device)),
    "List": lambda m, device: m.StoppingCriteriaList(
        [
            m.MaxLengthCriteria(LENGTH + 1),
            m.EosTokenCriteria(torch.tensor([END], device=device)),
        ]
    ),
}


def entries() -> list[Entry]:
    """All measured processors and criteria, each a family of its own."""
    names = [f"logits/{name}" for name in _CASES] + [f"stopping/{name}" for name in _STOPPING]
    return [
        Entry(name, "transformers", name, family=name, modes=("eval",), builder=__name__)
        for name in names
    ]


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Calls]:
    """The processor and the arguments of three calls, one token longer each."""
    kind, _, name = entry.cls.partition("/")
    modules = {"logits": "logits_process", "stopping": "stopping_criteria"}
    module = importlib.import_module(f"transformers.generation.{modules[kind]}")
    make = (_CASES if kind == "logits" else _STOPPING)[name]
    calls: Calls = [
        {
            "input_ids": torch.randint(3, WORDS, (BATCH, LENGTH + step)),
            "scores": torch.randn(BATCH, WORDS),
        }
        for step in range(CALLS)
    ]
    return Called(lambda device: make(module, device), ("input_ids", "scores")), calls
