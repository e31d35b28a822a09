"""Preconditions of the rewrites that treat messages."""

from __future__ import annotations

from tests.fixes.counterexamples import Case, lines

_LOGGER = """import functools
import logging
import torch

logger = logging.getLogger("seen")


"""


def _logged(call: str, head: str = _LOGGER) -> str:
    return f"{head}def forward(x):\n    «{call}»\n    return x\n"


CASES = [
    Case(
        "imports",
        "new-import",
        "PG301",
        lines("if «x.sum() > 0»:", "    x = x * 2", "return x", head="x: Tensor").replace(
            "import torch", "from torch import Tensor"
        ),
    ),
    # log_once
    Case("log_once", "in-function", "PG502", f'{_LOGGER}«logger.warning_once("text")»\n'),
    Case("log_once", "once", "PG502", _logged('logger.warning("text")')),
    Case("log_once", "text", "PG502", _logged("logger.warning_once(x)")),
    Case(
        "log_once",
        "torch-first",
        "PG502",
        _logged(
            'logger.warning_once("text")',
            'import logging\n\nlogger = logging.getLogger("seen")\n\nimport torch\n\n\n',
        ),
    ),
    Case(
        "log_once",
        "free",
        "PG502",
        _logged('logger.warning_once("text")') + "\n\ndef _warning_once(x):\n    return x\n",
    ),
]
