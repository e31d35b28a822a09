"""Preconditions of the rewrites that ask a tensor for its device, and of the guards' contents."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines

CASES = [
    Case(
        "imports",
        "imported",
        "PG104",
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\n"
        "from torch import tensor\n\nif TYPE_CHECKING:\n    import torch\n\n\n"
        "def forward(x: torch.Tensor):\n    return x * «tensor(2.5, device=x.device)»\n",
        lambda: (torch.ones(3),),
    ),
    Case(
        "factory_device",
        "direct",
        "PG101",
        lines(
            "with torch.no_grad():",
            "    y = «torch.zeros(3).unsqueeze(0).to(x.device, copy=True)»",
            "return y.add_(x)",  # a view made under no_grad is not written to
        ),
        lambda: (torch.ones(3, requires_grad=True),),
    ),
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
        "import numpy as np\nimport torch\n\n\nclass Plan:\n    torch = 'no module'\n\n"
        "    def _draw(self):\n        for _ in range(2):\n"
        "            y = «np.random.normal()»\n        return np.ones(1)\n",
    ),
    Case(
        "disable",
        "left-out",
        "PG504",
        "import numpy as np\nimport torch\n\n\ndef draw():\n    for _ in range(2):\n"
        "        y = «np.random.normal()»\n    return np.ones(1)\n\n\n"
        "def forward():\n    return draw.__code__.co_name, draw()\n",
        lambda: (),
    ),
    # names that are imported
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
