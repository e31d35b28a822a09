"""What ``torch.cond`` costs and refuses where it would stand for an ``if`` on a tensor's value.

Two linear layers, one of them applied, chosen by a tensor on the device. The branch as it is
written (a graph break when compiled) takes turns with ``torch.cond``, eager and compiled, with
gradients and without; then come the things that an ``if`` allows, and whether ``torch.cond`` takes
them. Times are medians over rounds, each the wall time of several calls that the device has
finished; ``spread`` is the distance between the quartiles.

    python -m benchmarks.cond
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from benchmarks.clock import seconds_a_call, spread
from benchmarks.workloads.environment import describe

Tensor = torch.Tensor
Call = Callable[[], Any]
RESULTS = Path(__file__).parent / "results" / "cond.json"
CALLS = 5
ROWS = 64
SIZES = (64, 1024)


class Branch(torch.nn.Module):
    """One of two layers, by an ``if`` or by ``torch.cond``."""

    def __init__(self, size: int, cond: bool) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(size, size), torch.nn.Linear(size, size)
        self.cond = cond

    def forward(self, x: Tensor) -> Tensor:
        """``x``: (rows, size)."""
        if self.cond:
            return torch.cond(x.sum() > 0, lambda: self.one(x), lambda: self.two(x))
        if x.sum() > 0:
            y = self.one(x)
        else:
            y = self.two(x)
        return y


def times(size: int, device: torch.device, rounds: int) -> dict[str, Any]:
    """Microseconds per call, and milliseconds of the first call, by way, gradients and compiler."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x = torch.randn(ROWS, size, device=device)
    waits: dict[str, Call] = {}
    for written, cond in (("if", False), ("cond", True)):
        module = Branch(size, cond).to(device)
        for compiler, model in (("eager", module), ("compiled", torch.compile(module))):
            waits[f"{written}, {compiler}, forward"] = lambda model=model: _forward(model, x)
            waits[f"{written}, {compiler}, training"] = lambda model=model: _train(model, x)
    first = {name: seconds_a_call(call, device, 1) for name, call in waits.items()}
    taken: dict[str, list[float]] = {name: [] for name in waits}
    for call in waits.values():
        call()
    for _ in range(rounds):
        for name, call in waits.items():
            taken[name].append(seconds_a_call(call, device, CALLS))
    return {
        "size": size,
        "ways": {
            name: {
                "us": round(statistics.median(those) * 1e6, 1),
                "spread_us": round(spread(those) * 1e6, 1),
                "first_ms": round(first[name] * 1e3, 1),
            }
            for name, those in taken.items()
        },
    }


@torch.no_grad()
def _forward(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model(x)


def _train(model: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model(x).sum().backward()


def _choose(x: Tensor, one: Call, two: Call) -> Any:
    return torch.cond(x.sum() > 0, one, two)


def _second_derivative(x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    y = _choose(leaf, lambda: leaf**3, lambda: leaf**2).sum()
    (slope,) = torch.autograd.grad(y, leaf, create_graph=True)
    return torch.autograd.grad(slope.sum(), leaf)[0]


def _normalised(x: Tensor) -> Tensor:
    norm = torch.nn.BatchNorm1d(x.shape[1], device=x.device)
    result: Tensor = _choose(x, lambda: norm(x), lambda: x * 2)
    return result


def _printed(x: Tensor) -> Tensor:
    def arm() -> Tensor:
        print(end="")
        return x * 2

    result: Tensor = _choose(x, arm, lambda: x * 3)
    return result


#: What an ``if`` takes, by what is asked; called eagerly with a matrix.
ASKED: dict[str, Callable[[Tensor], Any]] = {
    "both arms compute": lambda x: _choose(x, lambda: x * 2, lambda: x * 3),
    "an arm gives an input": lambda x: _choose(x, lambda: x, lambda: x * 2),
    "an arm gives a view": lambda x: _choose(x, lambda: x.t(), lambda: x * 2),
    "an arm writes into a tensor": lambda x: _choose(x, lambda: x.add_(1) * 2, lambda: x * 2),
    "a batch norm in training mode": _normalised,
    "an arm prints": _printed,
    "other dtypes": lambda x: _choose(x, lambda: x.double(), lambda: x * 2),
    "other strides": lambda x: _choose(x, lambda: x.t().clone(), lambda: x * 2),
    "an arm gives None": lambda x: _choose(x, lambda: (x * 2, None), lambda: (x * 3, None)),
    "torch.func.grad": lambda x: torch.func.grad(
        lambda y: _choose(y, lambda: y * 2, lambda: y * 3).sum()
    )(x),
    "torch.func.jvp": lambda x: torch.func.jvp(
        lambda y: _choose(y, lambda: y * 2, lambda: y * 3), (x,), (x,)
    ),
    "second derivative": _second_derivative,
    "torch.jit.trace": lambda x: torch.jit.trace(
        lambda y: _choose(y, lambda: y * 2, lambda: y * 3), x
    ),
}


def refusals(device: torch.device) -> dict[str, str]:
    """For each thing asked: ``taken``, or the type of the exception."""
    found = {}
    for name, function in ASKED.items():
        torch._dynamo.reset()
        try:
            function(torch.ones(4, 4, device=device))
        except Exception as error:  # whatever it raises is the answer
            found[name] = type(error).__name__
        else:
            found[name] = "taken"
    return found


def untaken_gradient(device: torch.device, cond: bool) -> str:
    """The gradient of the layer that was not applied: ``None`` or ``zeros``."""
    module = Branch(4, cond).to(device)
    _train(module, torch.ones(2, 4, device=device))
    gradient = module.two.weight.grad
    return "None" if gradient is None else "other" if gradient.any() else "zeros"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    found = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=found, choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    device = torch.device(arguments.device)
    result = {
        "environment": describe(device),
        "rows": ROWS,
        "times": [times(size, device, arguments.rounds) for size in SIZES],
        "refusals": refusals(device),
        "untaken_gradient": {
            name: untaken_gradient(device, cond) for name, cond in (("if", False), ("cond", True))
        },
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
