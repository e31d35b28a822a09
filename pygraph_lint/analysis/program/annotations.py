"""Annotations to abstract values."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.names import Names
from pygraph_lint.analysis.syntax.nodes import dotted

_ANNOTATED = "the annotation of "  # how the evidence begins
_SEQUENCES = frozenset(
    """
        builtins.list builtins.tuple builtins.set typing.List typing.Sequence typing.Iterable
        typing.Iterator collections.abc.Sequence collections.abc.Iterable collections.abc.Iterator
        typing.Set typing.Collection collections.abc.Collection torch.nn.ModuleList
        typing.MutableSequence
    """.split()
)
_TUPLES = frozenset(("builtins.tuple", "typing.Tuple"))
_MAPPINGS = frozenset(
    """
        builtins.dict typing.Dict typing.Mapping collections.abc.Mapping typing.MutableMapping
        collections.OrderedDict typing.OrderedDict collections.defaultdict typing.DefaultDict
    """.split()
)
_PLAIN: dict[str, Value] = {
    "builtins.int": v.NUMBER_VALUE,
    "builtins.float": v.NUMBER_VALUE,
    "builtins.bool": v.NUMBER_VALUE,
    "builtins.complex": v.NUMBER_VALUE,
    "builtins.str": v.TEXT_VALUE,
    "builtins.bytes": v.OTHER_VALUE,
    "typing.Callable": Value(v.CALLABLE | v.UNKNOWN),
    "collections.abc.Callable": Value(v.CALLABLE | v.UNKNOWN),
    "torch.device": v.DEVICE_VALUE,
    "torch.dtype": v.DTYPE_VALUE,
    "torch.Size": v.SHAPE_VALUE,
    "torch.Generator": v.GENERATOR_VALUE,
    "numpy.ndarray": v.NUMPY_VALUE,
    "torch.nn.Module": Value(v.INSTANCE, cls=""),
    "typing.Any": v.UNKNOWN_VALUE,
    "builtins.object": v.UNKNOWN_VALUE,
}
# Modules of torch whose classes are process groups, streams, optimizers.
_NO_TENSORS = ("torch.distributed.", "torch.cuda.", "torch.optim.")
_ARRAYS = {"Bool": "bool", "Float": "float", "Int": "int", "Integer": "int", "UInt": "int"}
_WITH_OWN_TENSORS = frozenset("jax mindspore mlx oneflow onnx paddle tensorflow tinygrad".split())
_BUILTIN_NAMES = frozenset(
    """
        int float bool complex str bytes list tuple set dict object type
    """.split()
)


def annotated(names: Names, node: ast.expr | None, what: str) -> Value:
    """The value an annotation promises; ``what`` names the annotated thing in the evidence."""
    if node is None:
        return v.UNKNOWN_VALUE
    if isinstance(node, ast.Constant):
        return _constant(names, node, what)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return v.join(annotated(names, node.left, what), annotated(names, node.right, what))
    if isinstance(node, ast.Subscript):
        return _generic(names, node, what)
    if isinstance(node, ast.Call):
        return _type_variable(names, node, what)
    if isinstance(node, ast.Name) and node.id in names.aliases:
        alias = names.aliases.pop(node.id)  # an alias may name itself
        try:
            return annotated(names, alias, what)
        finally:
            names.aliases[node.id] = alias
    name = _qualified(names, node)
    why = f"{_ANNOTATED}{what} names {dotted(node)}" if what else ""
    return v.UNKNOWN_VALUE if name is None else _of_type(names, name, why)


def annotated_parameter(value: Value) -> Need | None:
    """The parameter of which a value, a tensor, is known by its annotation alone."""
    alone = value.needs in ((), (value.device_of,)) and not value.dtype
    return value.device_of if alone and value.why.startswith(f"{_ANNOTATED}parameter") else None


def _of_type(names: Names, name: str, why: str) -> Value:
    """An object of a type, by its qualified name."""
    if name in ops.TENSOR_TYPES:
        return v.tensor(why, ops.TENSOR_TYPES[name], v.ON_DEVICE)
    plain = _PLAIN.get(name)
    if plain is not None:
        return plain
    if name in _SEQUENCES:
        return v.SEQUENCE_VALUE
    if name in _MAPPINGS:
        return v.MAPPING_VALUE
    tail = name.rpartition(".")[2]
    if name.startswith(_NO_TENSORS) and "Tensor" not in tail:
        return v.OTHER_VALUE
    outside = name.startswith(("typing.", "torch.", "builtins.", "numpy."))
    if outside or tail.isupper() or not tail[:1].isupper():
        return v.UNKNOWN_VALUE
    if _may_be_alias(names, name):
        return _by_name(name, why)
    return Value(v.INSTANCE, cls=name)


def _constant(names: Names, node: ast.Constant, what: str) -> Value:
    """``None``, or an annotation that is written as text."""
    if node.value is None:
        return v.NONE_VALUE
    if not isinstance(node.value, str):
        return v.UNKNOWN_VALUE
    try:
        return annotated(names, ast.parse(node.value, mode="eval").body, what)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return v.UNKNOWN_VALUE


def _may_be_alias(names: Names, name: str) -> bool:
    """Whether another file may write out what the name of a type means: it is called a tensor, or
    comes from a module of types.
    """
    holder, _, tail = name.rpartition(".")
    if holder == names.module or name.partition(".")[0] in sys.stdlib_module_names:
        return False
    return "Tensor" in tail or "typ" in holder.rpartition(".")[2]


def is_tensor_of_others(name: str, modules: Iterable[str]) -> bool:
    """Whether a type called ``Tensor`` comes from a package that has it from torch: one that is not
    among the project's ``modules``.
    """
    root = name.partition(".")[0]
    own = any(each.partition(".")[0] == root for each in modules)
    return name.endswith(".Tensor") and not own and root not in _WITH_OWN_TENSORS


def _by_name(name: str, why: str) -> Value:
    """A value of a type of another file: of a class, or what an alias stands for."""
    needs = (Need("type", name, ""),)
    kinds = v.TENSOR | v.INSTANCE | v.UNKNOWN
    return Value(kinds, device=v.ON_DEVICE, flags=v.SYMBOL, needs=needs, cls=name, why=why)


def alias_values(names: Names) -> dict[str, Value]:
    """What the module's names for types mean, by qualified name: of those that hold tensors."""
    found: dict[str, Value] = {}
    for name, target in names.bindings.items():
        if target in ops.TENSOR_TYPES or name in names.aliases:
            value = annotated(names, ast.Name(name, ast.Load()), "")
            if value.is_tensor or any(part.is_tensor for part in v.parts(value)):
                found[f"{names.module}.{name}"] = value
    return found


def _type_variable(names: Names, node: ast.Call, what: str) -> Value:
    """``TypeVar("T", A, B)``, ``TypeVar("T", bound=A)`` and ``NewType("T", A)``."""
    if _qualified(names, node.func) not in ("typing.TypeVar", "typing.NewType"):
        return v.UNKNOWN_VALUE
    bounds = [item.value for item in node.keywords if item.arg == "bound"]
    return v.join_all([annotated(names, part, what) for part in (*node.args[1:], *bounds)])


def _qualified(names: Names, node: ast.expr) -> str | None:
    """The qualified name in an annotation; builtins are named as such."""
    if isinstance(node, ast.Name) and node.id in _BUILTIN_NAMES and node.id not in names.bindings:
        return "builtins." + node.id
    return names.resolve(node)


def _generic(names: Names, node: ast.Subscript, what: str) -> Value:
    """``Optional[X]``, ``list[X]``, ``tuple[A, B]`` and the like."""
    name = _qualified(names, node.value) or ""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    tail = name.rpartition(".")[2]
    if tail == "Optional":
        return v.join(annotated(names, parts[0], what), v.NONE_VALUE)
    if tail == "Union":
        return v.join_all([annotated(names, part, what) for part in parts])
    if tail in ("Annotated", "Final", "ClassVar", "Required", "NotRequired"):
        return annotated(names, parts[0], what)
    if name.startswith("jaxtyping."):
        held = annotated(names, parts[0], what)
        return held._replace(dtype=_ARRAYS.get(tail, "")) if held.is_tensor else held
    if name in _TUPLES:
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis:
            return Value(v.SEQUENCE, item=annotated(names, parts[0], what))
        return v.sequence([annotated(names, part, what) for part in parts])
    if name in _SEQUENCES:
        return Value(v.SEQUENCE, item=annotated(names, parts[0], what))
    if name in _MAPPINGS and len(parts) == 2:
        return Value(v.MAPPING, item=annotated(names, parts[1], what))
    if tail == "Callable":
        return Value(v.CALLABLE | v.UNKNOWN)
    if tail == "Literal":
        return v.TEXT_VALUE
    if tail in ("Unpack", "type", "Type"):
        return v.UNKNOWN_VALUE
    return v.UNKNOWN_VALUE
