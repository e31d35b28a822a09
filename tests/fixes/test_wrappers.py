"""What decorators put around a function in which the graph ends is left out of compiled code."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import assert_same, breaks, graphs, run
from tests.fixes.support import forget_modules

MARK = "@torch.compiler.disable(recursive=False)"
USED = {
    "cleans up": "@around",
    "is given a name": '@around("layer")',
    "converts the result": "@around()",
}
DECORATORS = {
    "cleans up": """
        def around(method):
            @wraps(method)
            def wrapper(self, *args, **kwargs):
                try:
                    return method(self, *args, **kwargs)
                finally:
                    self.training = self.training
            return wrapper
        """,
    "is given a name": """
        def around(label):
            def decorator(function):
                @functools.wraps(function)
                def inner(*args, **kwargs):
                    with torch.profiler.record_function(label):
                        return function(*args, **kwargs)
                return inner
            return decorator
        """,
    "converts the result": """
        def around(func=None):
            def decorate(func):
                @functools.wraps(func)
                def wrapped_fn(self, *inputs, as_tuple=False, **options):
                    output = func(self, *inputs, **options)
                    return (output,) if as_tuple else output
                return wrapped_fn
            return decorate if func is None else decorate(func)
        """,
}
MUCH = " * 2 + ".join(f"x.{name}()" for name in "sin cos tan abs sinh cosh tanh neg".split())
LAYER = f"""
import torch
from around import around


class Layer(torch.nn.Module):
    @around
    def forward(self, x: torch.Tensor, sizes: torch.Tensor):
        lengths = sizes.tolist()
        y = {MUCH}
        return torch.cat([part * 2 for part in torch.split(y, lengths)])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x: torch.Tensor, sizes: torch.Tensor):
        return self.layer({MUCH}, sizes) + ({MUCH})
"""
GIVEN = (torch.rand(3), torch.tensor([1, 2]))
MODULES = ("around", "layer")


def _written(folder: Path, decorator: str, layer: str = LAYER) -> None:
    head = "import functools\nfrom functools import wraps\n\nimport torch\n\n"
    (folder / "around.py").write_text(head + textwrap.dedent(decorator))
    (folder / "layer.py").write_text(layer)


def _fixed(folder: Path) -> str:
    runner = Runner(load(), {"regions": "all"}, isolated=True)
    fixed = loop.fix_files(runner, runner.collect([str(folder)]), True)
    for path, data in fixed.after.items():
        path.write_bytes(data)
    return (folder / "layer.py").read_text()


def _imported() -> ModuleType:
    forget_modules(MODULES)
    importlib.invalidate_caches()
    return importlib.import_module("layer")


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("name", DECORATORS)
def test_the_graph_ends_once_and_the_function_is_still_compiled(
    folder: Path, name: str, twice: bool
) -> None:
    marks, used = 2 if twice else 1, f"    {USED[name]}\n"
    _written(folder, DECORATORS[name], LAYER.replace("    @around\n", used * marks))
    old = _imported().Model()
    text = _fixed(folder)
    new = _imported().Model()
    assert text.count(f"    {MARK}\n{used}") == text.count(MARK) == marks, text
    assert_same(run(old, GIVEN), run(new, GIVEN))
    assert breaks(old, GIVEN) > breaks(new, GIVEN) == 2
    assert len(graphs(new, GIVEN)) == len(graphs(old, GIVEN))


def test_what_is_left_out_itself_is_so_with_its_wrappers(folder: Path) -> None:
    reads = LAYER.replace(f"        y = {MUCH}\n", "        y = x\n")
    reads = reads.replace("    @around", "    # pyre-ignore[56]\n    @around")
    _written(folder, DECORATORS["cleans up"], reads)
    old = _imported().Model()
    text = _fixed(folder)
    new = _imported().Model()
    mark = f"    {MARK}\n"
    assert f"{mark}    # pyre-ignore[56]\n    @around\n{mark}    def forward" in text, text
    assert_same(run(old, GIVEN), run(new, GIVEN))
    assert breaks(old, GIVEN) > breaks(new, GIVEN) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@wraps(method)", ""),  # it may be anything
        (
            "        lengths = sizes",
            "        if x is None:\n            return x\n        lengths = sizes",
        ),
    ],
)
def test_other_functions_keep_their_decorators(folder: Path, old: str, new: str) -> None:
    decorator = DECORATORS["cleans up"]
    _written(folder, decorator.replace(old, new), LAYER.replace(old, new))
    text = _fixed(folder)
    assert f"    {MARK}\n    @around" not in text, text


def test_a_function_under_marked_wrappers_is_still_looked_at(folder: Path) -> None:
    _written(
        folder, DECORATORS["cleans up"], LAYER.replace("    @around", f"    {MARK}\n    @around")
    )
    runner = Runner(load(), {"regions": "all"}, isolated=True)
    found = runner.check(runner.collect([str(folder)]))
    assert "PG203" in [each.code for each in found]
