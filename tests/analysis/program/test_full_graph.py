"""Which files may have code exported, scripted, or compiled as one graph."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.extract import extract
from pygraph_lint.analysis.link import link
from pygraph_lint.analysis.program.facts import Sinks
from pygraph_lint.analysis.program.unanalysed import UnanalysedModules

WHOLE = {
    "exported": "import torch\n\n\ndef ship(m, x):\n    return torch.export.export(m, (x,))\n",
    "exported by name": "from torch.export import export\n\n\ndef ship(m):\n    export(m, ())\n",
    "exported under a name": "import torch.export as te\n\n\ndef ship(m):\n    te.export(m, ())\n",
    "torch under a name": "import torch as th\n\n\ndef ship(m):\n    th.export.export(m, ())\n",
    "torch from elsewhere": "from .compat import th\n\n\ndef f(m):\n    th.export.export(m, ())\n",
    "a draft": "import torch\n\nprogram = torch.export.draft_export\n",
    "onnx": "import torch\n\n\ndef ship(m, x):\n    torch.onnx.export(m, x, dynamo=True)\n",
    "imported there": (
        "def ship(m, x):\n    from torch import onnx\n\n    onnx.export(m, x, dynamo=True)\n"
    ),
    "of dynamo": "import torch._dynamo\n\n\ndef ship(f, x):\n    torch._dynamo.export(f)(x)\n",
    "one graph": "import torch\n\n\ndef fast(f):\n    return torch.compile(f, fullgraph=True)\n",
    "perhaps one graph": "def fast(model, whole):\n    model.compile(fullgraph=whole)\n",
    "options": "import torch\n\nOPTIONS = {'fullgraph': True}\n",
    "a field": "class Settings:\n    fullgraph: bool = True\n",
    "an option": "def options(parser):\n    parser.add_argument('--fullgraph')\n",
    "text": "import json\n\nOPTIONS = json.loads('{\"fullgraph\": true}')\n",
    "settings that are not written out": (
        "import torch\n\n\ndef fast(model, args):\n    return torch.compile(model, **vars(args))\n"
    ),
    "environment": "import os\n\nos.environ.update(TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS='1')\n",
    "no python": "import torch\n\ng = torch._dynamo.optimize(nopython=True)\n",
    "scalars": "import torch\n\ntorch._dynamo.config.capture_scalar_outputs = True\n",
    "scalars patched": (
        "import torch._dynamo.config as c\n\nwith c.patch(capture_scalar_outputs=True):\n    pass\n"
    ),
    "shapes by name": "import torch\n\npatch('dynamo.config.capture_dynamic_output_shape_ops')\n",
    "scripted": "import torch\n\n\ndef fast(m):\n    return torch.jit.script(m)\n",
    "scripted by name": "from torch.jit import script\n\n\ndef fast(m):\n    return script(m)\n",
    "scripted with a helper": (
        "import torch\nfrom other import helper\n\n\n"
        "@torch.jit.script\ndef fast(x: torch.Tensor):\n    return helper(x)\n"
    ),
}
NOT_WHOLE = {
    "compiled": "import torch\n\n\ndef fast(f):\n    return torch.compile(f, fullgraph=False)\n",
    "says so": '"""Made for torch.export.export and fullgraph=True."""\n\nimport torch\n',
    "hands on": (
        "import torch\n\n\ndef fast(f, **options):\n    return torch.compile(f, **options)\n"
    ),
    "a power": "import re\n\nPATTERN = re.compile('x')\nSIZE = 2**3\n",
    "exports otherwise": "import torch\n\n\ndef ship(table):\n    table.export('x.csv')\n",
    "dimensions": "from torch.export import Dim\n\nbatch = Dim('batch')\n",
    "asks": "import torch\n\n\ndef f(x):\n    return x if torch.jit.is_scripting() else x + 1\n",
    "one function scripted": (
        "import torch\n\n\n@torch.jit.script\ndef fast(x):\n    return torch.exp(x.abs())\n"
    ),
}


def _says(text: str) -> bool:
    return extract(text, "a.py", "a", False, Sinks()).traces_whole


@pytest.mark.parametrize("name", WHOLE)
def test_code_may_be_traced_as_a_whole(name: str) -> None:
    assert _says(WHOLE[name])


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_nothing_is_traced_as_a_whole(name: str) -> None:
    assert not _says(NOT_WHOLE[name])


def test_one_file_speaks_for_the_project() -> None:
    texts = {"a": "import torch\n", "b": WHOLE["exported"]}
    facts = [extract(text, f"{name}.py", name, False, Sinks()) for name, text in texts.items()]
    assert link(facts).view(facts[0]).traced_whole
    assert not link(facts[:1]).view(facts[0]).traced_whole


def test_what_was_not_read_may_do_so() -> None:
    facts = extract("import torch\n", "a.py", "a", False, Sinks())
    assert link([facts], unread=UnanalysedModules()).view(facts).traced_whole
