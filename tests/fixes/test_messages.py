"""Messages that are said once: said while tracing, with the same text and as often."""

from __future__ import annotations

import logging

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.support import decline, expect, marked, offer

HEAD = """
    import functools
    import logging

    import torch

    logger = logging.getLogger("said once")
    """

ONCE = """

    @functools.lru_cache(None)
    def warning_once(self, *arguments):
        self.warning(*arguments)


    type(logger).warning_once = warning_once


    def forward(x, n):
        x = x * 2
        if x.shape[0] < n:
            # the caller should know
            «logger.warning_once(
                f"{n} is more than "
                f"{x.shape[0]}"
            )»
        return x + 1
    """

HELPER = """

    @torch.compiler.assume_constant_result
    def _warning_once(message):
        logger.warning_once(message)
    """

BEFORE = HEAD + ONCE
AFTER = (HEAD + HELPER + ONCE).replace("«logger.warning_once", "_warning_once").replace("»", "")


def test_a_message_goes_through_a_function() -> None:
    expect(BEFORE, AFTER, "PG502", "unsafe")
    old, new = module_of(marked(BEFORE)[0]), module_of(marked(AFTER)[0])
    x = torch.ones(2, requires_grad=True)
    for n in (1, 3):
        assert_same(run(old.forward, (x, n)), run(new.forward, (x, n)))
        assert_same(run(old.forward, (x, n)), run(compiled(new.forward), (x, n)))
    assert breaks(old.forward, (x, 3)) > 0
    assert breaks(new.forward, (x, 3)) == 0


def test_it_is_said_as_often_and_in_the_same_words(caplog: pytest.LogCaptureFixture) -> None:
    said = []
    for text, wrap in ((BEFORE, lambda it: it), (AFTER, lambda it: it), (AFTER, compiled)):
        module = module_of(marked(text)[0])
        forward = wrap(module.forward)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="said once"):
            for size, n in ((2, 1), (2, 3), (2, 3), (2, 4), (3, 4), (2, 3)):
                forward(torch.ones(size), n)
        said.append([record.getMessage() for record in caplog.records])
    assert said == [["3 is more than 2", "4 is more than 2", "4 is more than 3"]] * 3


def test_two_messages_share_the_function() -> None:
    body = "\n\n    def forward(x):\n        «{}»\n        «{}»\n        return x\n    "
    calls = ('logger.warning_once("a")', "logger.warning_once('b')")
    fix, changed = offer(HEAD + body.format(*calls), "PG502")
    assert fix is not None and fix.applicability == "unsafe"
    assert changed.count("def _warning_once(message):") == 1
    assert "    _warning_once(\"a\")\n    _warning_once('b')\n" in changed
    again = changed.replace("    return x\n", '    «logger.warning_once("c")»\n    return x\n')
    _, twice = offer(again, "PG502")
    assert twice == again.replace("«logger.warning_once", "_warning_once").replace("»", "")


def test_each_logger_has_its_own_function() -> None:
    body = (
        "audit = logging.getLogger('audit')\n\n\n    def forward(x):\n        «{}»\n        «{}»\n"
    )
    calls = ('logger.warning_once("a")', 'audit.warning_once("b")')
    _, changed = offer(HEAD + body.format(*calls) + "        return x\n    ", "PG502")
    assert "def _warning_once(message):\n    logger.warning_once(message)\n" in changed
    assert "def _warning_once_audit(message):\n    audit.warning_once(message)\n" in changed
    assert '    _warning_once("a")\n    _warning_once_audit("b")\n' in changed


def test_two_empty_lines_are_kept_around_it() -> None:
    text = HEAD + "LIMIT = 3\n\n\n    def forward(x):\n        «logger.info_once('a')»\n    "
    _, changed = offer(text, "PG502")
    assert "    logger.info_once(message)\n\n\nLIMIT = 3\n" in changed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def forward(x, n):", "def forward(x, n, logger):"),
        ("logger = logging", "logger, other = 1, 2\n    logger = logging"),
        ("    x = x * 2", "    logger = other"),
        ("«logger.warning_once", "«self.logger.warning_once"),
    ],
)
def test_loggers_that_are_not_the_modules_own_stay(old: str, new: str) -> None:
    assert old in BEFORE
    fix, changed = offer(BEFORE.replace(old, new), "PG502")
    assert "_warning_once(message)" not in changed
    assert fix is None or fix.applicability != "safe"


def test_what_is_said_in_every_call_is_not_offered_as_safe() -> None:
    fix, _ = offer(BEFORE.replace("«logger.warning_once", "«logger.warning"), "PG502")
    assert fix is not None and fix.applicability == "unsafe"
    decline(BEFORE.replace("«logger", "y = «logger"), "PG502", "")
