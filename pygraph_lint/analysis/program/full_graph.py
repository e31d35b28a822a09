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
        *("export", "draft_export", "dynamo_export", "export_for_training"),
        *("export_for_inference", "aot_export_module", "aot_export_joint_simple"),
    )
)
_SCRIPTING = frozenset(("script", "script_if_tracing", "script_method"))
# Functions that trace what they are given as one graph, eager calls of them included.
_CONTROL_FLOW = re.compile(
    r"\.cond\(|\bimport cond\b|\b(?:while_loop|associative_scan|invoke_subgraph)\b"
    r"|higher_order_ops|\bcontrol_flow\b|nested_compile_region"
)
_PACKAGES = re.compile(r"\btorch\.(?:_?export|onnx|_dynamo|_functorch)|\bfrom torch import")


def may_need_full_graph(text: str, file: Module) -> bool:
    """Whether some code of a file may be traced as a whole. Of a scripted function that calls
    nothing but torch, only that function is.
    """
    asks = any(each in text for each in _SETTINGS) or "TORCHDYNAMO_" in text
    scripts = "jit" in text and "script" in text
    exports = "export" in text and _PACKAGES.search(text) is not None
    nodes = file.nodes if asks or scripts or exports else []
    return (
        _CONTROL_FLOW.search(text) is not None
        or (asks and any(map(_asks_for_it, nodes)))
        or (scripts and _scripts(nodes, file.names))
        or (exports and any(_names_export(node) for node in nodes))
    )


def _scripts(nodes: list[ast.AST], names: Names) -> bool:
    """Whether code is scripted that calls something else than torch."""
    harmless = {
        decorator
        for node in nodes
        if isinstance(node, FUNCTIONS) and not isinstance(node, ast.Lambda)
        for decorator in node.decorator_list
        if _is_scripting(decorator) and _calls_only_torch(node, names)
    }
    return any(
        node.__class__ in (ast.Attribute, ast.ImportFrom)
        and _is_scripting(node)
        and node not in harmless
        for node in nodes
    )


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2]
    return getattr(node, "id", None) or getattr(node, "attr", None) or ""


def _names_export(node: ast.AST) -> bool:
    return node.__class__ in (ast.Name, ast.Attribute, ast.alias) and _name(node) in _EXPORTING


def _asks_for_it(node: ast.AST) -> bool:
    """Whether a setting is given that makes graph breaks errors, or takes values into graphs."""
    if node.__class__ in (ast.Attribute, ast.alias):
        return _name(node) in _SETTINGS
    if isinstance(node, ast.keyword):
        off = is_constant(node.value, False)
        return node.arg in _SETTINGS and not off
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
        text = text.rpartition(".")[2].removeprefix("TORCHDYNAMO_").lower()
        return text in _SETTINGS
    return False


def _is_scripting(node: ast.AST) -> bool:
    """Whether a node is ``torch.jit.script`` or one of its kind, whatever torch.jit is called, or
    imports it.
    """
    if isinstance(node, ast.ImportFrom):
        scripting = any(alias.name.startswith("script") for alias in node.names)
        return node.module == "torch.jit" and scripting
    name = dotted(node) if isinstance(node, ast.Attribute) else None
    return name is not None and name.rpartition(".")[2] in _SCRIPTING


def _calls_only_torch(function: ast.AST, names: Names) -> bool:
    calls = [node for node in walk(function) if isinstance(node, ast.Call)]
    return all(
        isinstance(call.func, (ast.Name, ast.Attribute))
        and (names.resolve(call.func) or "torch.").startswith("torch.")
        and (isinstance(call.func, ast.Attribute) or names.resolve(call.func) is not None)
        for call in calls
    )
