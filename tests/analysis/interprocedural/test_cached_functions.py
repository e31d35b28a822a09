"""Cached functions that end the graph: where they are called."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, project

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
        ("@functools.lru_cache\n", "@counted\n    @functools.lru_cache\n"),
        ("@functools.lru_cache\n", "@functools.lru_cache\n    @counted\n"),
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
