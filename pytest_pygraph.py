"""A pytest plugin: `@pytest.mark.pygraph(graph_breaks=0, syncs=0, max_recompiles=1)`.

It is a module of its own, because `import pygraph_rt` imports torch, and tests without the mark
must not pay for that.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

MARK = "pygraph"
_TAKEN = "graph_breaks=0, syncs=None, max_recompiles=None, allow_nothing=False, fresh=True"
_HELP = f"pygraph({_TAKEN}): fail unless torch.compile does with the test what is expected"


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _HELP)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check a test that has the mark."""
    marks = list(item.iter_markers(MARK))
    if not marks:
        return (yield)
    # What a test says wins over what its class or module says.
    named = {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}
    from pygraph_rt.trace.expect import ExpectationFailed, expect

    wrong = ""
    try:
        checked = expect(*marks[0].args, **named)
    except TypeError as error:
        wrong = f"@pytest.mark.{MARK}: {error}; it takes {_TAKEN}"
    if wrong:  # outside of the handler, so that pytest does not show it twice
        pytest.fail(wrong, pytrace=False)
    try:
        with checked:
            result = yield
    except ExpectationFailed as failed:
        wrong = str(failed)
    if wrong:
        pytest.fail(wrong, pytrace=False)
    return result
