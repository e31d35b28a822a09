"""Layerdrop: the draw is only compared where the probability is not zero.

if draw < self.layerdrop: -> if self.layerdrop > 0 and draw < self.layerdrop:

Safe where nobody else uses the file and the probability is an attribute (with one that is handed
in, a tracer would be asked for its value): a draw of ``torch.rand`` or ``random.uniform(0, 1)`` is
never below a probability of zero or less (or nan), so the condition has the same truth; the draw
itself stays, and with it the random stream. With the usual probability of 0 the branch is then
decided while tracing; with another one it stays.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import compared, keyword, negated
from pygraph_lint.fixes.engine.build import conjunction, expression, operand
from pygraph_lint.fixes.engine.names import assigned_values, loads, own_nodes, pure, shared, stores
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.conditions import operands
from pygraph_lint.fixes.shared.factories import FLOATING_DTYPES


class RandomSkip(Rewrite):
    """PG306: a draw compared with a probability."""

    codes = ("PG306",)
    message = "Look at the draw only where the probability is not zero"
    order = 43

    def rewrite(self, site: Site) -> None:
        statement = _comparing(site, site.statement)
        test = _test(statement)
        part, probability = drawn_operand(site, test) or (test, None)
        if probability is None:
            raise Declined("it is not a comparison of a draw of torch.rand with a probability")
        site.require("pure", pure(probability), "the probability is computed by a call")
        tensor = pure(probability) and site.ask.is_tensor(probability)
        site.require(
            "number", not tensor, "the probability is a tensor, to be waited for once more"
        )
        open_one = not isinstance(probability, ast.Constant)
        site.require("open", open_one, "the probability is a number that is written out")
        site.require(
            "truth", _only_truth(site, statement), "the comparison's result is used as a value"
        )
        assert isinstance(part, ast.Compare)
        sides = (part.left, *part.comparators)
        drawn = not any(isinstance(side, ast.Call) and side is not probability for side in sides)
        site.safe_only_if("drawn", drawn, "a probability of 0 draws nothing: later numbers differ")
        plain = _is_plain(site, probability)
        site.safe_only_if("plain", plain, "reading or comparing the probability may have an effect")
        text = site.source.segment(probability)
        site.require("done", not asked(site, test, text), "the probability is looked at already")
        asked_first = expression("{p} > 0", p=operand(site.expression_node(probability)))
        both = conjunction([asked_first, site.expression_node(part)])
        site.put(part, both, bare=part is test or part in operands(test))


def _is_plain(site: Site, node: ast.expr) -> bool:
    """Whether reading an expression twice is like reading it once: an attribute that no function of
    the file answers, where nobody else uses the file.
    """
    attribute = isinstance(node, ast.Attribute) and site.finding.view.closed
    return attribute and not _answers(site, node)


# What decides what reading an attribute, or comparing it, does.
_ANSWERING = frozenset(("__getattr__", "__getattribute__", "__get__", "__gt__", "__lt__"))


def _answers(site: Site, node: ast.expr) -> bool:
    """Whether a function of the file may run when an expression is read or compared."""
    named = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)} | _ANSWERING
    return any(each.name in named for each in site.ask.of_kind(ast.FunctionDef))


def _comparing(site: Site, statement: ast.stmt) -> ast.stmt:
    """The statement that compares: the one at the finding, or the one that names what it tests."""
    function = site.function
    if not isinstance(statement, ast.If) or function is None:
        return statement
    if drawn_operand(site, statement.test) is not None:
        return statement
    tested = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named = node.targets[0].id in tested
            if named and drawn_operand(site, _test(node)) is not None:
                return node
    return statement


def drawn_operand(site: Site, test: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The operand that compares a draw, and the probability it is compared with."""
    for part in operands(test):
        probability = _probability(site, part)
        if probability is not None:
            return part, probability
    return None


def _test(statement: ast.stmt) -> ast.expr:
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        return statement.value
    raise Declined("the draw is compared neither in an if nor in an assignment")


def _probability(site: Site, node: ast.expr) -> ast.expr | None:
    """``p`` of ``draw < p`` or ``p > draw``."""
    left, operator, right = compared(node) or (node, None, node)
    if isinstance(operator, ast.Lt) and _is_draw(site, left):
        return right
    if isinstance(operator, ast.Gt) and _is_draw(site, right):
        return left
    return None


def _is_draw(site: Site, node: ast.expr) -> bool:
    """One draw of ``torch.rand``, or a name that only ever holds one: a number in [0, 1)."""
    function = site.function
    if not isinstance(node, ast.Name) or function is None:
        return _draws_one(site, node)
    values = assigned_values(function, node.id) or [node]
    makers = [site.ask.parent(each) for each in values]
    if any(not isinstance(each, ast.Assign) or len(each.targets) > 1 for each in makers):
        return False  # it has a second name
    if not all(_draws_one(site, value) and _is_made(site, value, node) for value in values):
        return False
    # Whoever else has a tensor may write to it.
    used = [compared(site.ask.parent(each) or each) for each in loads(function, node.id)]
    only_compared = all(it and isinstance(it[1], (ast.Lt, ast.Gt)) for it in used)
    return only_compared or all(_draws_number(site, value) for value in values)


def _is_made(site: Site, value: ast.expr, use: ast.Name) -> bool:
    """Whether a name surely has a value where it is read: nothing around the assignment alone may
    swallow an error.
    """
    around = set(site.ask.path(value)) - set(site.ask.path(use))
    swallows = any(type(each).__name__ in ("With", "Try", "TryStar") for each in around)
    return not swallows and not site.ask.may_be_unbound(use.id, use)


def _draws_one(site: Site, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if _draws_number(site, node):
        return [ast.unparse(bound) for bound in node.args] in (["0", "1"], ["0.0", "1.0"])
    if site.ask.callee(node) != "torch.rand":
        return False
    if any(item.arg not in ("device", "dtype") for item in node.keywords):
        return False  # with out, others hold the tensor too
    dtype = keyword(node, "dtype")
    if dtype is not None and site.ask.qualified(dtype) not in FLOATING_DTYPES:
        return False  # complex numbers are not compared
    size = node.args[0] if len(node.args) == 1 else None
    if isinstance(size, (ast.List, ast.Tuple)):
        return all(_one(item) for item in size.elts)
    return size is not None and _one(size)


def _draws_number(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and site.ask.callee(node) == "random.uniform"


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _only_truth(site: Site, statement: ast.stmt) -> bool:
    """Whether nothing but the truth of the comparison is used: in an ``if``, or under a name only
    tested.
    """
    if isinstance(statement, (ast.If, ast.While)):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = targets[0] if len(targets) == 1 else None
    function = site.function
    if not isinstance(target, ast.Name) or function is None or shared(function, target.id):
        return False
    if stores(function, target.id) != [target]:
        return False  # scripted code knows one type for a name
    return all(_tested(site, load) for load in loads(function, target.id))


def _tested(site: Site, node: ast.AST) -> bool:
    """Whether an expression is an operand of a condition, and of nothing else."""
    parent = site.ask.parent(node)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    return negated(parent) is not None or (isinstance(parent, ast.BoolOp) and _tested(site, parent))


def asked(site: Site, test: ast.expr, text: str) -> bool:
    """Whether a condition compares a probability with a number besides the draw."""
    return any(
        isinstance(part, ast.Compare)
        and site.source.segment(part.left) == text
        and isinstance(part.ops[0], (ast.Gt, ast.NotEq))
        and isinstance(part.comparators[0], ast.Constant)
        for part in operands(test)
    )
