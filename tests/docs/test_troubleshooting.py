"""The headings of the troubleshooting page are what torch and the packages really say."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.docs.pages import ROOT

torch = pytest.importorskip("torch")

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r'^### "(.+)"$', PAGE, flags=re.MULTILINE)
RESULTS = ("rule_consequences_gpu.json", "workloads.json")


def _branch(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _log(x: Any) -> Any:
    _LOG.warning("seen")
    return x


def _skipped(x: Any) -> Any:
    import time

    return x * time.time()


def _backward(x: Any) -> Any:
    x.sum().backward()
    return x.grad


def _guard(x: Any) -> Any:
    return x if int(x.nonzero().shape[0]) > 3 else -x


def _lstm(x: Any) -> Any:
    return _LSTM(x)


_LOG = logging.getLogger(__name__)
_LSTM = torch.nn.LSTM(4, 4)

# What makes torch say the heading, with its argument.
SAID_BY: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Data-dependent branching": (_branch, torch.randn(4)),
    "Tensor.tolist() with non-integer tensor": (lambda x: x.tolist(), torch.randn(4)),
    "Failed to trace builtin operator": (print, torch.randn(4)),
    "logging.Logger method not supported for non-export cases": (_log, torch.randn(4)),
    "Attempted to call function marked as skipped": (_skipped, torch.randn(4)),
    "Attempted to wrap RNN, GRU, or LSTM": (_lstm, torch.randn(2, 3, 4)),
    "Unsupported Tensor.backward() call": (_backward, torch.randn(4, requires_grad=True)),
    "Unsupported Tensor.requires_grad_() call": (lambda x: x.requires_grad_() * 2, torch.randn(4)),
    "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape": (
        torch.nn.functional.one_hot,
        torch.tensor([0, 1]),
    ),
    "Could not guard on data-dependent expression": (_guard, torch.ones(4)),
    "torch._dynamo hit config.recompile_limit (8)": (lambda x: x, torch.ones(4)),
}


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    torch._dynamo.reset()


def _message(function: Callable[[Any], Any], argument: Any) -> str:
    def called(x: Any) -> Any:
        return function(x)

    with pytest.raises(Exception) as raised:
        torch.compile(called, backend="eager", fullgraph=True)(argument)
    return str(raised.value)


@pytest.mark.parametrize("heading", [h for h in SAID_BY if "recompile_limit" not in h])
def test_torch_says_so(heading: str) -> None:
    assert heading in QUOTED
    assert heading in _message(*SAID_BY[heading])


def test_torch_says_when_the_recompilation_limit_is_reached() -> None:
    seen: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    log = logging.getLogger("torch._dynamo.convert_frame")
    handler = Kept()
    log.addHandler(handler)
    try:
        for number in range(10):
            torch.compile(_times, backend="eager", dynamic=False)(torch.ones(2), number + 0.5)
    finally:
        log.removeHandler(handler)
    assert any("torch._dynamo hit config.recompile_limit (8)" in text for text in seen)


def _times(x: Any, number: float) -> Any:
    return x * number


def test_every_other_heading_was_recorded_or_is_a_text_of_the_package() -> None:
    """Messages of a GPU are in result files that were recorded on one."""
    texts = [(ROOT / "benchmarks" / "results" / name).read_text("utf-8") for name in RESULTS]
    texts += [path.read_text("utf-8") for path in (ROOT / "pygraph_rt").rglob("*.py")]
    known = re.sub(r'"\s*f?"', "", " ".join(texts))
    known = re.sub(r"\s+", " ", known)
    elsewhere = [heading for heading in QUOTED if heading not in SAID_BY]
    missing = [heading for heading in elsewhere if heading.rstrip(".") not in known]
    assert missing == ["Invalid backend: 'pygraph'"]


def test_an_unknown_backend_is_refused_with_the_text_of_the_heading() -> None:
    with pytest.raises(Exception, match="Invalid backend: 'pygraph_of_nobody'"):
        torch.compile(lambda x: x, backend="pygraph_of_nobody")(torch.ones(1))
