"""One model of one copy of the package: what it computes, and where its graph breaks."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._pytree import tree_flatten_with_path

from benchmarks.fix_models.compare import Named, difference
from benchmarks.lint_truth import dynamo_breaks
from benchmarks.lint_truth.builders import Entry, build
from benchmarks.lint_truth.worker import quiet, seed_all

Report = Callable[[dict[str, Any]], None]


def _named(value: Any) -> Named:
    """The tensors in a nested value by their path, copied."""
    leaves, _ = tree_flatten_with_path(_plain(value))
    return {
        "".join(str(part) for part in path): leaf.detach().clone()
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor)
    }


def _plain(value: Any) -> Any:
    """Model outputs as dictionaries: their keys are part of what is compared."""
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _random_state() -> str:
    """A digest of the states of the generators of torch, Python and numpy."""
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    state.update(repr(random.getstate()).encode())
    state.update(repr(np.random.get_state()).encode())
    return state.hexdigest()


def _loss(outputs: Any) -> torch.Tensor | None:
    """A number from all float outputs; weights of its own keep normalised ones from cancelling."""
    leaves, _ = tree_flatten_with_path(_plain(outputs))
    generator = torch.Generator().manual_seed(1)
    parts = []
    for _, leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.requires_grad:
            weights = torch.rand(leaf.shape, generator=generator)
            parts.append((leaf.float() * weights).sum())
    return torch.stack(parts).sum() if parts else None


def _same_seed() -> contextlib.AbstractContextManager[object]:
    """Reformer asks for a fresh seed of the machine's: no two runs would be the same."""
    return mock.patch.object(torch, "seed", lambda: torch.manual_seed(1).initial_seed())


def computed(entry: Entry, mode: str) -> tuple[dict[str, Named], str]:
    """All that one eager call shows, and the random state after it.

    Parts: the model's state before, inputs before and after, outputs, the state after (buffers may
    change), and in training the gradients of a number made of all float outputs.
    """
    model, inputs = build(entry, mode)
    parts = {"state": _named(model.state_dict()), "inputs": _named(inputs)}
    seed_all()
    with _same_seed(), torch.set_grad_enabled(mode == "train"):
        outputs = model(**inputs)
    state = _random_state()
    parts["outputs"] = _named(outputs)
    parts["inputs_after"] = _named(inputs)
    parts["buffers_after"] = _named(dict(model.named_buffers()))
    loss = _loss(outputs) if mode == "train" else None
    if loss is not None:
        torch.autograd.backward(loss)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    parts["gradients"] = _named({k: g for k, g in gradients.items() if g is not None})
    return parts, state


def breaks(entry: Entry, mode: str, eager: Named) -> dict[str, Any]:
    """Every graph break of one compiled call (default mode, graphs run as they are).

    Its outputs are compared with those of the eager call.
    """
    model, inputs = build(entry, mode)
    seed_all()
    with _same_seed(), torch.set_grad_enabled(mode == "train"):
        seen = dynamo_breaks.observe(model, 1, **inputs)
    return {
        "breaks": [dataclasses.asdict(found) for found in seen.breaks],
        "graphs": seen.graphs,
        "compiled_error": _told(seen.error) if seen.error else None,
        "compiled_equal": None if seen.error else difference(eager, _named(seen.result)),
    }


def _told(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0][:160]
    return f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"


def _loaded(root: Path) -> list[str]:
    """The files of the package that are imported, relative to ``root``."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    start = f"{root}{os.sep}"
    return sorted({name[len(start) :] for name in files if name and name.startswith(start)})


def look(entry: Entry, mode: str, root: Path, before: Path, report: Report) -> None:
    """Report what one model of the copy in ``root`` computes and where it breaks, or its error.

    The copy that is not fixed keeps its results in ``before``; the others are compared with them.
    """
    record: dict[str, Any] = {"model": entry.name, "mode": mode}
    kept = before / f"{entry.name}-{mode}.pt".replace("/", "_")
    started = time.perf_counter()
    try:
        with quiet():
            parts, state = computed(entry, mode)
            if root == before:
                torch.save({"parts": parts, "state": state}, kept)
                record["files"] = _loaded(root)
            else:
                old = torch.load(kept, weights_only=True)
                record["equal"] = {
                    name: difference(old["parts"][name], parts[name]) for name in parts
                }
                record["random_state_equal"] = old["state"] == state
            record |= breaks(entry, mode, parts["outputs"])
    except Exception as error:
        record["error"] = _told(error)
    record["seconds"] = round(time.perf_counter() - started, 1)
    report(record)
