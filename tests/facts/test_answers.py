"""Cached functions that end the graph: where they are called, and whether imports call them."""

from __future__ import annotations

import pytest

from tests.facts.programs import confirmed, project

TOOLS = """
    import functools, logging
    logger = logging.getLogger(__name__)
    def look():
        logger.debug("looking")
        return True
    @functools.lru_cache
    def available():
        return look()
"""
MODEL = """
    import torch
    from pkg.tools import available
    class Model(torch.nn.Module):
        def forward(self, x):
            return x if available() else -x
"""
IMPORTED = "from pkg.tools import available\n"


def kinds(tools: str = TOOLS, model: str = MODEL, **others: str) -> list[str]:
    """The kinds of the events in the model."""
    linked, facts = project(pkg__tools=tools, pkg__model=model, **others)
    return [event.kind for event in confirmed(linked, facts["pkg.model"])]


def test_a_cached_function_that_ends_the_graph_is_seen() -> None:
    assert kinds() == ["effect.cached-call"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@functools.lru_cache\n", "@functools.wraps\n"),
        ("@functools.lru_cache\n", "@functools.lru_cache(maxsize=0)\n"),
        ("@functools.lru_cache\n", "@functools.lru_cache(SIZE)\n"),
        ("available():", "available(more=None):"),
        ("available():", "available(*more):"),
        ('logger.debug("looking")', "pass"),
        ("return look()", "return look"),
    ],
)
def test_what_is_not_kept_or_does_not_end_the_graph_is_not_seen(old: str, new: str) -> None:
    assert old in TOOLS
    assert kinds(TOOLS.replace(old, new)) == ([] if "return" not in new else ["effect.cached-call"])


@pytest.mark.parametrize("cache", ["functools.cache", "functools.lru_cache(maxsize=None)"])
def test_every_cache_counts(cache: str) -> None:
    assert kinds(TOOLS.replace("functools.lru_cache", cache)) == ["effect.cached-call"]


@pytest.mark.parametrize(
    "package",
    [
        "if not available():\n    raise ImportError",
        "if available() and other:\n    import torch",
        "READY = available()",
        "available()",
    ],
)
def test_a_call_on_every_import_is_seen(package: str) -> None:
    both = ["effect.asked-call", "effect.cached-call"]
    assert kinds(pkg=IMPORTED + package) == both
    assert kinds(model=MODEL + "\n    " + package.replace("\n", "\n    ")) == both
    assert kinds(other=IMPORTED + package) == ["effect.cached-call"]


@pytest.mark.parametrize(
    "package",
    [
        "if other and available():\n    import torch",
        "if other:\n    available()",
        "def ask():\n    return available()",
        "if available(1):\n    import torch",
        "READY = available",
    ],
)
def test_a_call_on_some_imports_is_no_proof(package: str) -> None:
    assert kinds(pkg=IMPORTED + package) == ["effect.cached-call"]


def test_an_import_behind_the_function_may_ask_too_early() -> None:
    """Its file may be half run when the function is called."""
    late = TOOLS + "\n    import pkg.more\n"
    assert kinds(late, pkg=IMPORTED + "available()") == ["effect.cached-call"]


def test_a_cache_that_is_cleared_gives_other_answers() -> None:
    clears = IMPORTED + "def again():\n    available.cache_clear()\n"
    assert kinds(pkg=IMPORTED + "available()", other=clears) == ["effect.cached-call"]
