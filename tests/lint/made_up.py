"""Source nobody wrote: made by hypothesis, or the standard library made to look like models."""

from __future__ import annotations

import ast
import re
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st

from pygraph_lint.fixes.engine.loop import fix_files
from pygraph_lint.project.runner import ALWAYS, Runner
from pygraph_lint.rules.catalogue import load

# --- programs from pieces ------------------------------------------------------------------------

_NAMES = st.sampled_from(["x", "y", "mask", "ids", "self.w", "n", "out"])
_ATOMS = st.one_of(
    _NAMES,
    st.sampled_from(["0", "1.5", "None", "True", "'t\u00e4xt'", "x.shape[0]", "x.device", "[]"]),
)


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def shape(form: str) -> st.SearchStrategy[str]:
        count = form.count("{}")
        return st.tuples(*[inner] * count).map(lambda parts: form.format(*parts))

    forms = (
        "torch.zeros({})",
        "torch.zeros({}, {}).to({})",
        "torch.arange({}).cuda()",
        "torch.tensor({})",
        "torch.tensor({}) * {}",
        "{}.item()",
        "{}.tolist()",
        "{}[{}]",
        "{}[{} > {}]",
        "float({})",
        "torch.isinf({}).any()",
        "{} and not {}",
        "{} if {} else {}",
        "({} + {})",
        "torch.where({}, {}, {})",
        "f'{{{}}}'",
        "[{} for y in {}]",
        "(lambda n: {})({})",
        "(y := {})",
        "{}.to({})",
        "np.sum({})",
        "random.random() < {}",
    )
    return st.sampled_from(forms).flatmap(shape)


EXPRESSIONS = st.recursive(_ATOMS, _extend, max_leaves=8)


def _simple(form: str) -> st.SearchStrategy[list[str]]:
    return st.tuples(*[EXPRESSIONS] * form.count("{}")).map(lambda e: form.format(*e).split("\n"))


def _compound(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    heads = st.sampled_from(
        [
            "if {}:",
            "while {}:",
            "for n in {}:",
            "with torch.no_grad():",
            "if not torch.compiler.is_compiling():",
            "def inner(x):",
            "try:",
        ]
    )
    blocks = st.lists(inner, min_size=1, max_size=3)

    def build(parts: tuple[str, str, list[list[str]]]) -> list[str]:
        head, expression, block = parts
        lines = [head.format(expression)]
        lines += [f"    {line}" for statement in block for line in statement]
        return [*lines, "finally:", "    pass"] if head == "try:" else lines

    return st.tuples(heads, EXPRESSIONS, blocks).map(build)


STATEMENTS = st.recursive(
    st.sampled_from(
        [
            "x = {}",
            "x, y = {}, {}",
            "x[{}] = {}",
            "x += {}",
            "self.w = {}",
            "print({})",
            "logger.info('%s', {})",
            "warnings.warn({})",
            "assert {}, {}",
            "return {}",
            "raise ValueError({})",
            "if torch.isnan(x).any():\n    x = torch.clamp(x, min=-1.0, max=1.0)",
            "x = {}; y = {}  # noqa: PG201",
            "y = ({},\n     {})  # pygraph: ignore",
            "pass",
        ]
    ).flatmap(_simple),
    _compound,
    max_leaves=8,
)
_HEAD = """\
import logging
import random
import warnings
import numpy as np
import torch
from torch import nn
logger = logging.getLogger(__name__)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, mask=None, ids: torch.LongTensor = None):
"""


def _program(statements: list[list[str]]) -> str:
    return _HEAD + "".join(f"        {line}\n" for lines in statements for line in lines)


PROGRAMS = st.lists(STATEMENTS, min_size=1, max_size=5).map(_program)


@st.composite
def broken_programs(draw: st.DrawFn) -> str:
    """A program with a piece cut out, doubled or replaced: mostly not Python any more."""
    text = draw(PROGRAMS)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 40)))
    return text[:start] + draw(st.text(max_size=8) | st.just(text[start:end] * 2)) + text[end:]


# --- the standard library -----------------------------------------------------------------------


def library_files() -> list[Path]:
    """Every Python file of this interpreter's standard library, its tests included."""
    top = Path(sysconfig.get_path("stdlib"))
    return sorted(
        path
        for path in top.rglob("*.py")
        if not {"site-packages", "__pycache__"} & set(path.parts[len(top.parts) :])
    )


_CLASS = re.compile(rb"^class (\w+)(?:\([^\n()]*\))?:", re.MULTILINE)
_METHOD = re.compile(rb"^    def (?!__init__)(\w+)\(self", re.MULTILINE)


def as_models(data: bytes) -> bytes:
    """The file with every class a module and every method its forward: a region all over."""
    data = _CLASS.sub(rb"class \1(torch.nn.Module):", data)
    data = _METHOD.sub(rb"    def forward(self", data)
    return data + b"\nimport torch\n"


# --- what must hold -----------------------------------------------------------------------------


def parses(data: bytes) -> bool:
    """Whether Python can parse the bytes."""
    try:
        ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def check_and_fix(paths: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Check and fix files with all rules and unsafe fixes; what each changed one becomes.

    Holds the run to what must hold for any source: nothing escapes, what parsed still parses, a
    second round of fixing changes nothing.
    """
    rules = load()
    overrides = {"preview": True, "unsafe_fixes": True}
    runner = Runner(rules, overrides)
    first = fix_files(runner, paths, None)
    for path, data in first.after.items():
        assert parses(data), path
    again = Runner(rules, overrides)
    again.replace_content(first.after)
    second = fix_files(again, paths, None)
    assert {p: second.after[p] for p in second.after} == {}
    assert [f.code for f in second.findings] == [f.code for f in first.findings]
    refused = {Path(f.filename) for f in first.findings if f.code in ALWAYS}
    assert not refused & set(first.after)
    yield from first.after.items()


def fix_text(text: str) -> int:
    """How many of one file with this text are changed by fixing: 0 or 1."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        path.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        return len(list(check_and_fix([path])))
