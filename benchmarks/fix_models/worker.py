"""One model of one copy of the package: what it computes, and where its graph breaks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from benchmarks.lint_truth import dynamo_breaks
from benchmarks.lint_truth.builders import Entry, build

Report = Callable[[dict[str, Any]], None]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what the models print to nowhere."""
    with Path(os.devnull).open("w") as sink, contextlib.redirect_stdout(sink):
        yield


def _seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def _tensors(result: Any) -> list[torch.Tensor]:
    """The tensors of a model's output, in order."""
    plain = dict(result) if hasattr(result, "keys") else result
    leaves, _ = tree_flatten(plain)
    return [item for item in leaves if isinstance(item, torch.Tensor)]


def computed(entry: Entry, mode: str) -> dict[str, list[torch.Tensor | None]]:
    """Outputs of one eager call, and in training the parameters' gradients of their sum."""
    model, inputs = build(entry, mode)
    _seed()
    with torch.set_grad_enabled(mode == "train"):
        outputs = _tensors(model(**inputs))
    if mode == "train":
        wanted = [item.float().sum() for item in outputs if item.requires_grad]
        if wanted:
            torch.stack(wanted).sum().backward()
    return {
        "outputs": [item.detach() for item in outputs],
        "gradients": [parameter.grad for parameter in model.parameters()],
    }


def breaks(entry: Entry, mode: str) -> list[dict[str, Any]]:
    """Every graph break of one compiled call. Raises what the compiled call raises."""
    model, inputs = build(entry, mode)
    _seed()
    with torch.set_grad_enabled(mode == "train"):
        seen = dynamo_breaks.observe(model, 1, **inputs)
    return [dataclasses.asdict(found) for found in seen.breaks]


def look(entry: Entry, mode: str, folder: Path, report: Report) -> None:
    """Write what the model computes to ``folder``, and report its breaks or why it did not run."""
    record: dict[str, Any] = {"model": entry.name, "mode": mode}
    try:
        with _quiet():
            torch.save(computed(entry, mode), folder / f"{entry.name}-{mode}.pt".replace("/", "_"))
            record["breaks"] = breaks(entry, mode)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = (str(error).strip().splitlines() or [""])[0][:160]
        record["error"] = f"{type(error).__name__}: {text} ({Path(last.filename).name})"
    report(record)
