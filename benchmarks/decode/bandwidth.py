"""What the GPU's memory can do, and what a decoding step has to read of it at least."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.runtime.measure import synchronize


def _best(call: Callable[[], object], nbytes: int) -> float:
    """Bytes a second: the median of some runs of several calls."""
    found = []
    for _ in range(7):
        synchronize()
        started = time.perf_counter()
        for _ in range(4):
            call()
        synchronize()
        found.append(4 * nbytes / (time.perf_counter() - started))
    return statistics.median(found)


def measured(device: str, tiny: bool) -> dict[str, float]:
    """Bytes a second of a copy (read and written) and of sums that only read; of the sums the
    fastest of several shapes.
    """
    nbytes = 1 << 20 if tiny else 4 << 30
    source = torch.zeros(nbytes // 4, device=device)
    copy = _best(partial(torch.empty_like(source).copy_, source), 2 * nbytes)
    views = (source, source.view(1 << 8, -1), source.view(1 << 12, -1))
    read = max(_best(partial(view.sum, -1), nbytes) for view in views)
    return {"copy": copy, "read": read, "best": max(copy, read)}


def weights(model: nn.Module, batch: int) -> int:
    """Bytes of weights that a step reads: all of them once, of the embedding a row a sequence."""
    embedding = model.get_input_embeddings().weight  # type: ignore[operator]
    places = [p for _, p in model.named_parameters(remove_duplicate=False) if p is embedding]
    tied = len(places) > 1
    total = sum(p.nbytes for p in model.parameters())
    return total if tied else total - embedding.nbytes + batch * embedding[0].nbytes


def cache(config: Any, batch: int, filled: float) -> float:
    """Bytes of keys and values at the positions that are filled."""
    heads = config.num_key_value_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * batch * heads * size * filled * 2
