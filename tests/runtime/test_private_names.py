"""What the runtime uses of torch beside its public interface is written down; a torch that lacks
some of it compiles without graphs.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import pygraph_rt
from pygraph_rt.backend import why_without_graphs
from pygraph_rt.inductor import torch_support

ROOT = Path(__file__).parents[2] / "pygraph_rt"

# Used without being in NEEDED: what plain compilation needs as well, what is asked for before it
# is used (autograd_cache.has_policies), and what a program that is traced has.
APART = {
    ("torch._inductor.compile_fx", "compile_fx"): "compiles without graphs, too",
    ("torch._inductor.runtime.cache_dir_utils", "cache_dir"): "behind the first use of a graph",
    ("torch._dynamo.backends", "registry"): "registration, without which nobody gets here",
    (
        "torch._functorch._aot_autograd.autograd_cache",
        "FXGraphCacheMiss",
    ): "behind the cache's own use",
    ("torch._inductor.cudagraph_utils", "CUDAGraphPolicy"): "has_policies()",
    ("torch._inductor.output_code", "CompiledFxGraph"): "has_policies()",
    ("torch._functorch.config", "patch"): "every configuration has it",
    ("torch._C", "_GLIBCXX_USE_CXX11_ABI"): "a build that fails leaves Python's way",
}


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _private(name: str) -> bool:
    return name.startswith("torch.") and any(part.startswith("_") for part in name.split("."))


def _split(dotted: str) -> tuple[str, str] | None:
    """The module of a name like `torch._C._cuda_getDevice.x`, and what is asked of it."""
    parts = dotted.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if _module(".".join(parts[:end])) is not None:
            return ".".join(parts[:end]), parts[end]
    return None


def used(file: Path) -> Iterator[tuple[str, str]]:
    """Private names of torch that a file uses, by module."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and _private(node.module):
            for alias in node.names:
                if _module(f"{node.module}.{alias.name}") is None:
                    yield node.module, alias.name
        elif isinstance(node, ast.Attribute) and _private(_dotted(node)):
            if _module(_dotted(node)) is None and (found := _split(_dotted(node))):
                yield found


FILES = [f for f in sorted(ROOT.rglob("*.py")) if "trace" not in f.relative_to(ROOT).parts]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_private_name_is_written_down(file: Path) -> None:
    for module, name in used(file):
        if name.startswith("__"):
            continue
        known = f"{module}.{name}" in torch_support.NEEDED or (module, name) in APART
        assert known, f"{module}.{name}"


# Types of C++ do not let go of them.
PARTS_OF_TYPES = {"torch.Tag.cudagraph_unsafe", "torch.Tensor._use_count"}


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as `why_plain` sees, torch was built for CUDA and there is a GPU."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for place in torch_support.NEEDED:
        module, _, name = place.rpartition(".")
        if module == "torch._C" and not hasattr(torch._C, name):
            monkeypatch.setattr(torch._C, name, None, raising=False)


@pytest.mark.usefixtures("gpu_build")
def test_this_torch_has_every_name() -> None:
    assert torch_support.why_plain() is None


@pytest.mark.usefixtures("gpu_build")
@pytest.mark.parametrize("place", sorted({*torch_support.NEEDED} - PARTS_OF_TYPES))
def test_without_one_of_them_code_is_compiled_without_graphs(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, name = place.rpartition(".")
    monkeypatch.delattr(importlib.import_module(module), name)
    assert f"lacks {place}, which pygraph needs" in str(why_without_graphs())


def test_results_are_right_without_and_the_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.delattr(torch._C, "_construct_storage_from_data_pointer")
    torch._dynamo.reset()
    with torch.no_grad():
        run = torch.compile(lambda x: x * 2 + 1, backend="pygraph")
        assert run(torch.ones(3)).tolist() == [3.0] * 3
    said = "lacks torch._C._construct_storage_from_data_pointer"
    assert said in " ".join(str(pygraph_rt.report()).split())
