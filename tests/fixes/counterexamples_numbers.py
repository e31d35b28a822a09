"""Preconditions of the rewrites that keep numbers and messages in Python."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines


def _numpy(*body: str, head: str = "x: torch.Tensor") -> str:
    return "import math\nimport numpy as np\n" + lines(*body, head=head)


_LOGGER = """import functools
import logging
import torch

logger = logging.getLogger("seen")


"""


def _logged(call: str, head: str = _LOGGER) -> str:
    return f"{head}def forward(x):\n    «{call}»\n    return x\n"


CASES = [
    # host_number
    Case(
        "host_number",
        "plain",
        "PG520",
        _numpy("return x.reshape(int(«np.prod(x.shape, initial=0)»), -1)", head="x: torch.Tensor"),
        lambda: (torch.ones(2, 3),),
    ),
    Case(
        "host_number",
        "numbers",
        "PG520",
        _numpy("return x[: int(«np.prod(sizes)»)]", head="x, sizes"),
        lambda: (torch.ones(4), [[1], [2]]),
    ),
    Case(
        "host_number",
        "converted",
        "PG520",
        _numpy("return type(x.numel() * «np.prod(x.shape)»)"),
        lambda: (torch.ones(2),),
    ),
    Case(
        "imports",
        "unseen",
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
