"""Preconditions of the rewrites that keep numbers and messages in Python."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines


def _numpy(*body: str, head: str = "x") -> str:
    return "import math\nimport numpy as np\n" + lines(*body, head=head)


_LOGGER = """import functools
import logging
import torch

logger = logging.getLogger("seen")


"""


def _logged(call: str, head: str = _LOGGER) -> str:
    return f"{head}def forward(x):\n    «{call}»\n    return x\n"


def _kept(*body: str, put: str = "n", behind: str = ", persistent=False") -> str:
    """A module that keeps a number as a tensor, and a function that uses the module."""
    forward = "\n".join(f"        {line}" for line in body)
    return (
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self, n: int):\n"
        "        super().__init__()\n"
        f"        held = torch.tensor({put}, dtype=torch.int64)\n"
        f'        self.register_buffer("n", held{behind})\n\n'
        f"    def forward(self, x):\n{forward}\n\n\n"
        "def forward(x, n):\n    model = Model(n)\n"
        "    return model(x), sorted(model.state_dict())\n"
    )


def _listed(*body: str, before: str = "pass") -> str:
    """A list that is made a tensor, and gives the size of a slice."""
    made = ["if isinstance(n, list):", "    n = torch.tensor(n, dtype=torch.long)"]
    return lines(before, *made, *body, head="x, n")


def _two() -> tuple[torch.Tensor, int]:
    return torch.ones(5), 2


_ASKED = "effect.asked-call"


def _asking(more: str = "", head: str = "x") -> str:
    """A function that asks another one, which needs no arguments."""
    imports = f"import torch\nfrom os import getpid\n{more}"
    return lines("return x * «getpid()»", head=head).replace("import torch\n", imports)


CASES = [
    # host_rows
    Case(
        "host_rows",
        "only-rows",
        "PG407",
        lines(
            "for n, m in rows:",
            "    x = x + «torch.arange(n)»[m:].sum() * rows.sum()",
            "    rows.fill_(1)",
            "return x",
            head="x, rows: torch.Tensor",
        ),
        lambda: (torch.zeros(3), torch.tensor([[4, 1], [5, 2]])),
    ),
    Case(
        "host_rows",
        "sizes",
        "PG407",
        lines(
            "for n, m in rows:",
            "    x = x + torch.stack([«torch.arange(n)».sum(), m])",
            "return x",
            head="x, rows: torch.Tensor",
        ),
        lambda: (torch.zeros(2), torch.tensor([[4, 1]])),
    ),
    Case(
        "host_rows",
        "never",
        "PG407",
        lines(
            "for n, m in rows:",
            "    x = x + «torch.arange(n * m)».sum()",
            "return x",
            head="x, rows: torch.Tensor",
        ),
        lambda: (torch.zeros(2), torch.tensor([[16, 17]], dtype=torch.uint8)),
    ),
    # elements_list
    Case(
        "elements_list",
        "own-line",
        "PG201",
        lines(
            "n = n + 1; k = «n[0].item()» * n[1].item()",
            "return x * k",
            head="x, n: torch.Tensor",
        ),
        lambda: (torch.ones(2), torch.tensor([2, 3])),
    ),
    Case(
        "elements_list",
        "only-elements",
        "PG201",
        lines(
            "k = [«n[0].item()», n.add_(1), n[1].item()]",
            "return x.repeat(k[0], k[2])",
            head="x, n: torch.Tensor",
        ),
        lambda: (torch.ones(2), torch.tensor([2, 3])),
    ),
    Case(
        "elements_list",
        "always",
        "PG201",
        lines(
            "k = «n[0].item()» * (n[1].item() if len(x) > 1 else 1)",
            "return x * k",
            head="x, n: torch.Tensor",
        ),
    ),
    Case(
        "elements_list",
        "one-dimension",
        "PG201",
        lines(
            "k = [«n[0].item()», n[1].item()]",
            "return x.repeat(*k)",
            head="x, n: torch.Tensor",
        ),
        lambda: (torch.ones(2), torch.tensor([[2], [3]])),
    ),
    # kept_list
    Case(
        "kept_list",
        "parameter",
        "PG407",
        _listed("return x[: «n[0]»]", before="n = [1.5]"),
        lambda: (torch.ones(5), [3]),
    ),
    Case(
        "kept_list",
        "sizes",
        "PG407",
        _listed("return x[: «n[0]»] * n"),
        lambda: (torch.ones(5), [3]),
    ),
    Case(
        "kept_list",
        "whole",
        "PG407",
        _listed("return x[: «n[0]»]"),
        lambda: (torch.ones(5), [2.5]),
    ),
    # number_buffer
    Case("number_buffer", "not-saved", "PG407", _kept("return x[: «self.n»]", behind=""), _two),
    Case(
        "number_buffer",
        "whole",
        "PG407",
        _kept("return x[: «self.n»]", put="n / 2"),
        _two,
    ),
    Case(
        "number_buffer",
        "never-set",
        "PG407",
        _kept("self.n = torch.ones(3)", "return x[: «self.n»]"),
    ),
    Case(
        "number_buffer",
        "not-by-name",
        "PG407",
        _kept('return x[: «self.n»] * getattr(self, "n").item()'),
        _two,
    ),
    Case(
        "number_buffer",
        "number-like",
        "PG407",
        _kept("return x[: «self.n»] * self.n.numel()"),
        _two,
    ),
    Case("number_buffer", "never", "PG407", _kept("return x[: «self.n»]")),
    # host_number
    Case(
        "host_number",
        "plain",
        "PG520",
        _numpy("return x.reshape(int(«np.prod(x.shape, initial=0)»), -1)"),
        lambda: (torch.ones(2, 3),),
    ),
    Case(
        "host_number",
        "python",
        "PG520",
        _numpy("return x * «np.max(x.shape)».astype('float32')"),
        lambda: (torch.ones(2, 3),),
    ),
    Case(
        "host_number",
        "numbers",
        "PG520",
        _numpy("return x[: int(«np.sum(sizes)»)]", head="x, sizes"),
        lambda: (torch.ones(4), [[1], [2]]),
    ),
    Case(
        "host_number",
        "filled",
        "PG520",
        _numpy("return x.reshape(«np.prod(x.shape)»)"),
        lambda: (torch.ones(()),),
    ),
    Case(
        "host_number",
        "callers",
        "PG520",
        _numpy("return x.reshape(«np.sum(sizes)»)", head="x, sizes") + "\n\nforward(x, [4])\n",
    ),
    Case(
        "host_number",
        "rounding",
        "PG520",
        _numpy("return x * «np.trunc(np.sqrt(len(x))).astype(int).item()»"),
    ),
    Case(
        "host_number",
        "alone",
        "PG520",
        _numpy("return x * «np.ceil(np.sqrt(len(x)), dtype='float32').astype(int).item()»"),
    ),
    Case(
        "host_number",
        "size",
        "PG520",
        _numpy("return x * «np.ceil(np.log1p(n)).astype(int).item()»", head="x, n"),
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
    # kept_answer
    Case("kept_answer", "asked", "PG522", _asking(), kind="effect.cached-call"),
    Case(
        "kept_answer",
        "in-function",
        "PG522",
        "from os import getpid\n\nif «getpid()»:\n    import torch\n",
        kind=_ASKED,
    ),
    Case("kept_answer", "free", "PG522", _asking("_GETPID = 3\n"), kind=_ASKED),
    Case("kept_answer", "seen", "PG522", _asking(head="x, _GETPID"), kind=_ASKED),
    Case(
        "kept_answer",
        "own-line",
        "PG522",
        _asking().replace("getpid\n", "getpid; import os\n", 1).replace("import os", "y = 3"),
        kind=_ASKED,
    ),
]
