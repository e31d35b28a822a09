"""What cached functions give is asked on import: run and compared, messages included."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fixes.support import decline, expect
from tests.lint.conftest import lint as lint
from tests.lint.support import Lint

ASKED = "effect.asked-call"
BEFORE = """
    import torch
    from tools import available


    def forward(x):
        if not «available()»:
            return x
        return x * 2
    """
AFTER = """
    import torch
    from tools import available


    _AVAILABLE = available()


    def forward(x):
        if not _AVAILABLE:
            return x
        return x * 2
    """


def test_it_is_asked_below_the_imports() -> None:
    expect(BEFORE, AFTER, "PG522", kind=ASKED)


def test_conditional_imports_belong_to_the_imports() -> None:
    more = "    if torch.cuda.is_available():\n        import math\n"
    more = f"import available\n{more}    else:\n        import cmath\n"
    before, after = (text.replace("import available\n", more) for text in (BEFORE, AFTER))
    expect(before, after, "PG522", kind=ASKED)


def test_it_stands_with_other_values_of_the_module() -> None:
    logger = "import available\n\n    LIMIT = 3\n"
    before = BEFORE.replace("import available\n", logger)
    after = before.replace("LIMIT", "_AVAILABLE = available()\n    LIMIT")
    expect(before, after.replace("«available()»", "_AVAILABLE"), "PG522", kind=ASKED)


def test_a_name_that_has_the_answer_is_used() -> None:
    kept = "import available\n\n    READY = available()\n"
    before = BEFORE.replace("import available\n", kept)
    expect(before, before.replace("«available()»", "READY"), "PG522", kind=ASKED)


@pytest.mark.parametrize(
    "more",
    [
        "def available():\n        return 1\n",
        "available = len\n",
        "from other import available\n",
        "def other(available):\n        return available\n",
    ],
)
def test_a_name_that_may_mean_something_else_is_left(more: str) -> None:
    reason = "the name is not bound by one import at the top of the file"
    decline(BEFORE + more, "PG522", reason, kind=ASKED)


def test_a_function_of_the_same_file_is_left() -> None:
    """What it uses may be defined further down."""
    own = "\n\n    def available():\n        return bool(later)\n\n\n    later = []\n"
    text = BEFORE.replace("    from tools import available\n", own)
    decline(text, "PG522", "the name is not bound by one import at the top of the file", kind=ASKED)


TOOLS = """\
import functools
import logging

logger = logging.getLogger(__name__)


@functools.lru_cache
def available() -> bool:
    logger.debug("looking")
    return True
"""
COMMON = "from .tools import available\n\nif not available():\n    raise ImportError\n"
MODEL = """\
import torch

from .common import available


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.relu()
        if available():
            x = x + 1
        return x * 2
"""
RUN = """\
import logging, sys
import torch
from torch._dynamo.utils import counters

logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s", stream=sys.stdout)
for name in ("asyncio", "torch", "torch._dynamo", "matplotlib"):
    logging.getLogger(name).setLevel(logging.ERROR)
from pkg.model import Model

x = torch.arange(-3.0, 3.0)
model = Model()
print(model(x).tolist())
print(torch.compile(model, backend="eager")(x).tolist())
print("breaks", sum(counters["graph_break"].values()))
"""


def _write(lint: Lint, common: str) -> None:
    files = {"__init__": "", "tools": TOOLS, "common": common, "model": MODEL}
    lint.write({f"pkg/{name}.py": text for name, text in files.items()})


def _run(lint: Lint) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN], cwd=lint.folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_package_says_and_computes_the_same(lint: Lint) -> None:
    _write(lint, COMMON)
    before = _run(lint)
    assert before.count("pkg.tools looking") == 1
    assert before[-1] == "breaks 1"
    lint("--fix", ".")
    assert "_AVAILABLE = available()\n\n\nclass" in lint.read("pkg/model.py")
    after = _run(lint)
    assert after[-1] == "breaks 0"
    assert after[:-1] == before[:-1]


def test_a_package_that_does_not_ask_is_left(lint: Lint) -> None:
    """Importing it would say something that is not said today."""
    _write(lint, "from .tools import available\n")
    result = lint("--fix", "--unsafe-fixes", "pkg/model.py")
    assert lint.read("pkg/model.py") == MODEL
    assert "PG522" in result.out
