"""Whether a file has code traced as a whole: exported, scripted, or compiled as one graph.

There a function that is left out of compiled code is an error, and one that reads values need not
be.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.names import Names
from pygraph_lint.analysis.syntax.nodes import dotted, is_constant, walk

_SETTINGS = frozenset(
    (
        *("fullgraph", "nopython", "error_on_graph_break", "optimize_assert"),
        *("capture_scalar_outputs", "capture_dynamic_output_shape_ops"),
    )
)
_EXPORTING = frozenset(
    (
        *("export", "_export", "draft_export", "dynamo_export", "export_for_training"),
        *("export_for_inference", "aot_export_module", "aot_export_joint_simple", "aot_compile"),
        *("capture_pre_autograd_graph", "aoti_compile_and_package"),
    )
)
_SCRIPTING = frozenset(("script", "script_if_tracing", "script_method"))
# What traces what it is given as one graph, eager calls of it included; and what exports models.
_TRACING = frozenset(
    (
        *("while_loop", "associative_scan", "invoke_subgraph", "nested_compile_region"),
        *("higher_order", "_higher_order_ops", "control_flow", "pipelining"),
        *("torch_tensorrt", "ai_edge_torch", "litert_torch", "openvino", "executorch"),
    )
)
_PACKAGES = re.compile(
    r"\btorch\.(?:_?export|onnx|_dynamo|_functorch|_inductor)|\bfrom torch import"
    r"|\bimport torch[\w.]* as\b|\b(?:export|onnx)\.\w*export"
)
_UNWRITTEN = re.compile(r"compile\((?:[^()]|\([^()]*\))*\*\*")
_TRACES = re.compile(rf"\bcond\b|{'|'.join(sorted(_TRACING))}")


def may_need_full_graph(text: str, file: Module) -> bool:
    """Whether some code of a file may be traced as a whole. Of a scripted function that calls
    nothing but torch, only that function is.
    """
    small = text.lower()
    asks = any(each in small for each in _SETTINGS) or _UNWRITTEN.search(text) is not None
    scripts = "jit" in text and "script" in text
    exports = _PACKAGES.search(text) is not None and any(each in text for each in _EXPORTING)
    traces = _TRACES.search(text) is not None
    nodes = file.nodes if asks or scripts or exports or traces else []
    calls = {id(each.func) for each in nodes if isinstance(each, ast.Call)} if traces else set()
    return (
        (asks and _asks_for_it(nodes))
        or (scripts and _scripts(nodes, file.names))
        or (exports and any(not _EXPORTING.isdisjoint(_mentioned(node)) for node in nodes))
        or (traces and any(_traces(node, file.names, calls) for node in nodes))
    )


def _traces(node: ast.AST, names: Names, calls: set[int]) -> bool:
    """Whether a node names what traces what it is given as one graph. Much is called ``cond``."""
    mentioned = _mentioned(node)
    of_module = (getattr(node, "module", None) or "").split(".")
    if not _TRACING.isdisjoint((*mentioned, *of_module)):
        return True
    if "cond" not in mentioned or node.__class__ is ast.Name:
        return False
    if isinstance(node, ast.Attribute):
        return id(node) in calls or (names.resolve(node) or "").startswith("torch")
    if isinstance(node, ast.ImportFrom):
        return re.match("torch|functorch", node.module or "") is not None
    return isinstance(node, ast.Call)


def _mentioned(node: ast.AST) -> frozenset[str]:
    """The names that a node writes, also in texts that something is looked up by."""
    found: list[str] = []
    if isinstance(node, (ast.Name, ast.Attribute)):
        found = [_name(node)]
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        found = [each.name for each in node.names]
    elif isinstance(node, ast.Call) and _name(node.func) in _LOOKING_UP:
        texts = (each.value for each in node.args if isinstance(each, ast.Constant))
        found = [each for each in texts if isinstance(each, str)]
    return frozenset(part for each in found for part in each.split("."))


_LOOKING_UP = frozenset(("getattr", "attrgetter", "methodcaller", "import_module", "__import__"))


def _scripts(nodes: list[ast.AST], names: Names) -> bool:
    """Whether code is scripted that calls something else than torch."""
    harmless = {
        decorator
        for node in nodes
        if isinstance(node, FUNCTIONS) and not isinstance(node, ast.Lambda)
        for decorator in node.decorator_list
        if _is_scripting(decorator) and _calls_only_torch(node, names)
    }
    return any(_is_scripting(node) and node not in harmless for node in nodes)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2]
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def _asks_for_it(nodes: list[ast.AST]) -> bool:
    """Whether a setting may be given that makes graph breaks errors, or takes values into graphs:
    it is named, stands in a text, or may be among what ``torch.compile(model, **settings)`` gets.
    """
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    own = {node.kwarg.arg for node in nodes if isinstance(node, ast.arguments) and node.kwarg}
    return any(_is_setting(node, own) for node in nodes if id(node) not in documented)


def _is_setting(node: ast.AST, own: set[str]) -> bool:
    """``own`` are the names under which functions get keywords: whoever calls them writes these."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.alias)):
        return _name(node) in _SETTINGS
    if isinstance(node, ast.keyword):
        name = (node.arg or "").removeprefix("TORCHDYNAMO_").lower()
        return name in _SETTINGS and not is_constant(node.value, False)
    if isinstance(node, ast.Constant):
        text = node.value.lower() if isinstance(node.value, str) else ""
        return any(each in text for each in _SETTINGS)
    if isinstance(node, ast.Call) and _name(node.func) == "compile":
        return any(each.arg is None and _name(each.value) not in own for each in node.keywords)
    return False


def _is_scripting(node: ast.AST) -> bool:
    """Whether a node is ``torch.jit.script`` or one of its kind, whatever torch.jit is called, or
    imports it.
    """
    if isinstance(node, ast.ImportFrom):
        scripting = any(alias.name.startswith(("script", "*")) for alias in node.names)
        return node.module == "torch.jit" and scripting
    if isinstance(node, ast.Attribute):
        return dotted(node) is not None and node.attr in _SCRIPTING
    return isinstance(node, ast.Call) and not _SCRIPTING.isdisjoint(_mentioned(node))


def _calls_only_torch(function: ast.AST, names: Names) -> bool:
    calls = [node for node in walk(function) if isinstance(node, ast.Call)]
    return all(
        isinstance(call.func, (ast.Name, ast.Attribute))
        and (names.resolve(call.func) or "torch.").startswith("torch.")
        and (isinstance(call.func, ast.Attribute) or names.resolve(call.func) is not None)
        for call in calls
    )
