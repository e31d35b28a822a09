"""One subject of one copy: what it computes, and where its graph breaks."""

from __future__ import annotations

import copy
import hashlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from benchmarks.fix_models.compare import Named, difference
from benchmarks.fix_models.records import own_breaks
from benchmarks.fix_unseen.subjects import Made, Subject
from benchmarks.lint_truth import dynamo_breaks
from benchmarks.lint_truth.worker import quiet, seed_all
from benchmarks.lint_truth_packages.programs import Call

Report = Callable[[dict[str, Any]], None]
_SHOWN = 400
#: How often a program is run again to see whether it repeats itself: one that draws few numbers
#: from an unseeded generator may do so once by chance.
AGAIN = 3


def _copied(tensors: Iterable[torch.Tensor]) -> Named:
    """Tensors by number, copied; sparse ones and subclasses as plain dense ones."""
    found: Named = {}
    for number, tensor in enumerate(tensors):
        plain = tensor.detach().as_subclass(torch.Tensor)
        plain = plain.to_dense() if plain.layout is not torch.strided else plain.clone()
        found[str(number)] = plain
    return found


def _held(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, numbers among them."""
    numbers = [torch.tensor(leaf) for leaf in tree_leaves(value) if type(leaf) in (bool, float)]
    return [*Call(_held, (value,)).on_device(), *numbers]


def _run(made: Made, function: Callable[..., Any]) -> Any:
    result = None
    for positional, named in made.calls:
        result = function(*positional, **named)
    return result


def _random_state() -> str:
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    state.update(repr((random.getstate(), np.random.get_state())).encode())
    return state.hexdigest()


def _fresh(subject: Subject) -> Made:
    made = subject.make()
    torch.set_grad_enabled(made.grad)
    seed_all()
    return made


def computed(subject: Subject) -> tuple[dict[str, Named], str]:
    """What the calls show, eagerly: results, the tensors that were there before, gradients."""
    made = _fresh(subject)
    before = made.tensors()
    result = _run(made, made.function)
    state = _random_state()
    held = _held(result)
    parts = {"results": _copied(held), "held": _copied(before)}
    floats = [t for t in held if t.requires_grad and t.is_floating_point()]
    if made.grad and floats:
        _backward(floats)
        grads = [t.grad for t in before if t.is_leaf and t.grad is not None]
        parts["gradients"] = _copied(grads)
    return parts, state


def _backward(results: list[torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros(())
    for each in results:
        dense = each.as_subclass(torch.Tensor)
        dense = dense.to_dense() if dense.layout is not torch.strided else dense
        total = total + (dense.float() * torch.rand(dense.shape, generator=generator)).sum()
    total.backward()


def _told(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0][:160]
    return f"{type(error).__name__}: {text} ({Path(last.filename).name}:{last.lineno})"


def look(
    subject: Subject,
    before: Path,
    known: dict[str, Any] | None,
    changed: frozenset[str],
    report: Report,
) -> None:
    """Report a subject's breaks, and whether it computes what it did in the first copy, whose
    results are kept in `before` and whose record is `known` (None: this is the first copy). One
    that runs nothing of the `changed` files breaks as it did.
    """
    record: dict[str, Any] = {"name": subject.name, "group": subject.group, "half": subject.half}
    kept = before / f"{subject.name}.pt".replace("/", "_")
    started = time.perf_counter()
    try:
        with quiet():
            if known is None:
                record |= _first(subject, kept) | _compiled(subject)
            else:
                found, files = _compared(subject, kept)
                same = "count" in known and not files & changed
                record |= (known | {"same_code": True} if same else _compiled(subject)) | found
    except Exception as error:
        record["error"] = _told(error)
    record["seconds"] = round(time.perf_counter() - started, 1)
    report(record)


def _first(subject: Subject, kept: Path) -> dict[str, Any]:
    parts, state = computed(subject)
    others = [computed(subject)[0] for _ in range(AGAIN)]
    same = all(
        difference(parts[name], other.get(name, {}))["equal"] for other in others for name in parts
    )
    torch.save({"parts": parts, "state": state}, kept)
    return {"repeatable": same}


def _compared(subject: Subject, kept: Path) -> tuple[dict[str, Any], set[str]]:
    """What differs from the results that are kept, and the files whose functions ran."""
    files: set[str] = set()
    sys.setprofile(lambda frame, *_: files.add(frame.f_code.co_filename))
    try:
        parts, state = computed(subject)
    finally:
        sys.setprofile(None)
    old = torch.load(kept, weights_only=True)
    unequal = {
        name: found
        for name in old["parts"]
        if not (found := difference(old["parts"][name], parts.get(name, {})))["equal"]
    }
    return {"unequal": unequal, "random_state_equal": old["state"] == state}, files


def _compiled(subject: Subject) -> dict[str, Any]:
    made = _fresh(subject)
    positional = made.calls[0][0]
    named = [copy.copy(each) for _, each in made.calls]
    seen = dynamo_breaks.observe_each(made.function, named, *positional)
    found = own_breaks(
        {"breaks": [{"kind": o.kind, "file": o.file, "line": o.line} for o in seen.breaks]}
    )
    return {
        "breaks": found[:_SHOWN],
        "count": len(found),
        "graphs": seen.graphs,
        "compiled_error": _told(seen.error) if seen.error else None,
    }
