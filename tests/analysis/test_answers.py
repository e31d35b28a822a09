"""Cached functions that end the graph: where they are called, and whether imports call them."""

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


ASKS = [
    "if not available():\n    raise ImportError",
    "if available() and other:\n    import torch",
    "READY = available()",
    "available()",
]
SEEN = ["effect.asked-call", "effect.cached-call"]


@pytest.mark.parametrize("asks", ASKS)
def test_a_file_that_the_imports_run_may_ask(asks: str) -> None:
    other = MODEL.replace("import torch\n", "import torch, other\n", 1)
    assert kinds(model=other, other=IMPORTED + asks) == SEEN
    assert kinds(other=IMPORTED + asks) == ["effect.cached-call"]
    late = MODEL + "\n    import other\n"
    assert kinds(model=late, other=IMPORTED + asks) == ["effect.cached-call"]


def test_imports_are_followed_through_other_files() -> None:
    model = MODEL.replace("import torch\n", "import torch\n    from first.part import x\n", 1)
    asks = IMPORTED + "available()"
    assert kinds(model=model, first="import second", second=asks) == SEEN
    assert kinds(model=model, first__part="import second", second=asks) == SEEN
    assert kinds(model=model, first__other=asks) == ["effect.cached-call"]


def test_packages_around_the_file_may_be_half_run() -> None:
    """What they do before they ask may matter to the answer."""
    assert kinds(pkg=IMPORTED + "available()") == ["effect.cached-call"]


def test_the_imports_of_the_file_itself_may_ask() -> None:
    block = "available\n    if available():\n        import math\n"
    assert kinds(model=MODEL.replace("available\n", block, 1)) == SEEN
    between = "available\n    LIMIT = 3\n    if available():\n        import math\n"
    assert kinds(model=MODEL.replace("available\n", between, 1)) == ["effect.cached-call"]


@pytest.mark.parametrize(
    "asks",
    [
        "if other and available():\n    import torch",
        "if other:\n    available()",
        "def ask():\n    return available()",
        "if available(1):\n    import torch",
        "READY = available",
    ],
)
def test_a_call_on_some_imports_is_no_proof(asks: str) -> None:
    other = MODEL.replace("import torch\n", "import torch, other\n", 1)
    assert kinds(model=other, other=IMPORTED + asks) == ["effect.cached-call"]


OTHER = MODEL.replace("import torch\n", "import torch, other\n", 1)


def test_an_import_behind_the_function_may_ask_too_early() -> None:
    """Its file may be half run when the function is called."""
    late = TOOLS + "\n    import pkg.more\n"
    assert kinds(late, OTHER, other=IMPORTED + "available()") == ["effect.cached-call"]


def test_a_cache_that_is_cleared_gives_other_answers() -> None:
    clears = IMPORTED + "def again():\n    available.cache_clear()\n"
    asks = IMPORTED + "available()"
    assert kinds(model=OTHER, other=asks) == SEEN
    assert kinds(model=OTHER, other=asks, more=clears) == ["effect.cached-call"]
