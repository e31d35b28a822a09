"""Preconditions of the rewrites that ask a tensor for its device, and of the guards' contents."""

from __future__ import annotations

from tests.fixes.counterexamples import Case, lines

CASES = [
    # factories that meet a tensor
    # factories that are moved
    Case(
        "factory_device",
        "order",
        "PG101",
        lines("return «torch.zeros(n).to(x.device)»", head="x, n"),
        lambda: (None, -1),
    ),
    Case(
        "factory_device",
        "filled",
        "PG704",
        lines("return «torch.tensor([1.0, 2.0]).to(x.device)»"),
    ),
    Case(
        "factory_device",
        "dtype",
        "PG101",
        lines("return «torch.zeros(2).to(x.device, flag)»", head="x: torch.Tensor, flag"),
    ),
    # names
    Case(
        "site",
        "stars",
        "PG101",
        "import torch\nfrom math import *\n\n\ndef forward(x: torch.Tensor):\n"
        "    return x + «torch.arange(3).to(x.device)»\n",
    ),
    Case(
        "site",
        "looked-at",
        "PG101",
        lines("seen = locals()", "return x + «torch.arange(3).to(x.device)»"),
    ),
    Case(
        "site",
        "bound-within",
        "PG101",
        lines("return x + (n := 1) + «torch.arange(3).to(x.device)»"),
    ),
    # guards
    Case("guards", "in-function", "PG501", "import torch\n«print(1)»\n"),
    Case("site", "compiled", "PG501", lines("«print(x)»", "return x"), captured=True),
    Case("guards", "alone", "PG501", lines("x = 1; «print(x)»", "return x")),
    Case("guards", "guard", "PG501", lines("«print(x)»", "return x")),
    Case(
        "guards",
        "nothing-else",
        "PG501",
        lines("left = [1, 2]", "«print(left.pop())»", "return x + len(left)"),
    ),
    Case(
        "guards",
        "only-asks",
        "PG303",
        lines("if «(n := x.sum()) > 9»:", "    raise ValueError(f'no {x}')", "return x + n"),
    ),
    # functions left out of compiled code
    Case(
        "disable",
        "torch-first",
        "PG504",
        "import numpy as np\n\n\ndef draw():\n    for _ in range(2):\n"
        "        y = «np.random.normal()»\n    return np.ones(1)\n\n\n"
        "def use(x):\n    return x * draw()\n\n\nimport torch\n",
    ),
    Case(
        "disable",
        "silent",
        "PG504",
        "import warnings\n\nimport numpy as np\nimport torch\n\n\ndef draw():\n"
        "    for _ in range(2):\n"
        "        y = «np.random.normal()»\n    warnings.warn('drawn', stacklevel=2)\n"
        "    return np.ones(1)\n\n\ndef use(x):\n    return x * draw()\n",
    ),
    Case(
        "disable",
        "decorators",
        "PG504",
        "import numpy as np\nimport torch\nfrom typeguard import typechecked\n\n\n"
        "class Layer(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x * self._draw()\n\n    @typechecked\n    def _draw(self):\n"
        "        for _ in range(2):\n            y = «np.random.normal()»\n"
        "        return np.ones(1)\n",
    ),
    Case(
        "disable",
        "inspected",
        "PG504",
        "import numpy as np\nimport torch\n\n\ndef draw():\n    for _ in range(2):\n"
        "        y = «np.random.normal()»\n    return np.ones(1)\n\n\n"
        "def forward():\n    return draw.__code__.co_name, draw()\n",
        lambda: (),
    ),
    Case(
        "disable",
        "deep",
        "PG504",
        "import numpy as np\nimport torch\n\n\ndef draw(n):\n    for _ in range(2):\n"
        "        y = «np.random.normal()»\n    if n:\n        draw(n - 1)\n"
        "    return np.ones(1)\n\n\ndef use(x):\n    return x * draw(2)\n",
    ),
    # names that are imported
    Case(
        "imports",
        "uses-torch",
        "PG301",
        "def forward(x):\n    assert «x.sum() > 0», f'{x}'\n    return x\n",
    ),
    Case(
        "imports",
        "unlisted",
        "PG301",
        "from torch import Tensor\n\n__all__ = ['forward']\n\n\ndef forward(x: Tensor):\n"
        "    if «x.sum() > 0»:\n        x = x * 2\n    return x, sorted(globals())\n",
    ),
    # log_once
    Case(
        "log_once",
        "record",
        "PG502",
        "import logging\n\nimport torch\n\nlogger = logging.getLogger(__name__)\n\n\n"
        "def forward(x):\n    «logger.warning_once('a')»\n    return x\n",
    ),
    # random_skip
    Case(  # a property that counts, an object with a comparison of its own
        "random_skip",
        "plain",
        "PG306",
        lines("draw = torch.rand([])", "if «draw < p»:", "    return 1", "return 0", head="p"),
    ),
    Case(
        "random_skip",
        "number",
        "PG306",
        lines(
            "draw = torch.rand([])",
            "if «draw < p»:",
            "    return p.relu()",
            "return 0",
            head="p: torch.Tensor",
        ),
    ),
]
