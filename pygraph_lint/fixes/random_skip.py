"""Layerdrop: the draw is only compared where the probability is not zero.

if draw < self.layerdrop: -> if self.layerdrop > 0 and draw < self.layerdrop:

Safe: a draw of ``torch.rand`` or ``random.uniform(0, 1)`` is never below a probability of zero or
less (or nan), so the condition has the same truth; the draw itself stays, and with it the random
stream. With the usual probability of 0 the branch is then decided while tracing; with another one
it stays.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import operands, with_parentheses
from pygraph_lint.fixes.names import assigned_values, loads, own_nodes, parents, pure, shared
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import used_as_tensor

CODES = ("PG306",)


def propose(proposal: Proposal) -> None:
    """Put the static question in front of the comparison."""
    proposal.message = "Look at the draw only where the probability is not zero"
    statement = _comparing(proposal, proposal.statement)
    test = _test(statement)
    part, probability = drawn_operand(proposal, test) or (test, None)
    if probability is None:
        raise Declined("not a comparison of a draw of torch.rand with a probability")
    proposal.need("pure", pure(probability), "the probability is computed by a call")
    tensor = used_as_tensor(proposal, probability)
    proposal.need("number", not tensor, "the probability is a tensor, to be waited for once more")
    open_one = not isinstance(probability, ast.Constant)
    proposal.need("open", open_one, "the probability is a number that is written out")
    proposal.need(
        "truth", _only_truth(proposal, statement), "the comparison's result is used as a value"
    )
    assert isinstance(part, ast.Compare)
    sides = (part.left, *part.comparators)
    drawn = not any(isinstance(side, ast.Call) and side is not probability for side in sides)
    proposal.safe_if("drawn", drawn, "without a probability nothing is drawn: other draws change")
    text = proposal.source.segment(probability)
    proposal.need("done", not asked(proposal, test, text), "the probability is looked at already")
    start, _ = with_parentheses(proposal.source, part, statement if part is test else test)
    proposal.replace(start, start, f"{text} > 0 and ")


def _comparing(proposal: Proposal, statement: ast.stmt) -> ast.stmt:
    """The statement that compares: the one at the finding, or the one that names what it tests."""
    function = proposal.function
    if not isinstance(statement, ast.If) or function is None:
        return statement
    if drawn_operand(proposal, statement.test) is not None:
        return statement
    tested = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named = node.targets[0].id in tested
            if named and drawn_operand(proposal, _test(node)) is not None:
                return node
    return statement


def drawn_operand(proposal: Proposal, test: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The operand that compares a draw, and the probability it is compared with."""
    for part in operands(test):
        probability = _probability(proposal, part)
        if probability is not None:
            return part, probability
    return None


def _test(statement: ast.stmt) -> ast.expr:
    if isinstance(statement, (ast.If, ast.While)):
        return statement.test
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        value = statement.value
        return value.test if isinstance(value, ast.IfExp) else value
    raise Declined("the draw is compared neither in an if nor in an assignment")


def _probability(proposal: Proposal, node: ast.expr) -> ast.expr | None:
    """``p`` of ``draw < p`` or ``p > draw``."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = node.left, node.comparators[0]
    if isinstance(node.ops[0], ast.Lt) and _is_draw(proposal, left):
        return right
    if isinstance(node.ops[0], ast.Gt) and _is_draw(proposal, right):
        return left
    return None


def _is_draw(proposal: Proposal, node: ast.expr) -> bool:
    """One draw of ``torch.rand``, or a name that only ever holds one: a number in [0, 1)."""
    function = proposal.function
    if not isinstance(node, ast.Name) or function is None:
        return _draws_one(proposal, node)
    values = assigned_values(function, node.id) or [node]
    if not all(_draws_one(proposal, value) for value in values):
        return False
    # Whoever else has a tensor may write to it.
    above = parents(function)
    compared = all(isinstance(above.get(load), ast.Compare) for load in loads(function, node.id))
    return compared or all(_draws_number(proposal, value) for value in values)


def _draws_one(proposal: Proposal, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if _draws_number(proposal, node):
        return [ast.unparse(bound) for bound in node.args] in (["0", "1"], ["0.0", "1.0"])
    if proposal.names.callee(node) != "torch.rand":
        return False
    if any(item.arg not in ("device", "dtype") for item in node.keywords):
        return False  # with out, others hold the tensor too
    size = node.args[0] if len(node.args) == 1 else None
    if isinstance(size, (ast.List, ast.Tuple)):
        return all(_one(item) for item in size.elts)
    return size is not None and _one(size)


def _draws_number(proposal: Proposal, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and proposal.names.callee(node) == "random.uniform"


def _one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _only_truth(proposal: Proposal, statement: ast.stmt) -> bool:
    """Whether nothing but the truth of the comparison is used: in an ``if``, or under a name only
    tested.
    """
    if isinstance(statement, (ast.If, ast.While)):
        return True
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.IfExp):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = targets[0] if len(targets) == 1 else None
    function = proposal.function
    if not isinstance(target, ast.Name) or function is None or shared(function, target.id):
        return False
    above = parents(function)
    return all(_tested(above, load) for load in loads(function, target.id))


def _tested(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether an expression is an operand of a condition, and of nothing else."""
    parent = above.get(node)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return parent.test is node
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
        return True
    return isinstance(parent, ast.BoolOp) and _tested(above, parent)


def asked(proposal: Proposal, test: ast.expr, text: str) -> bool:
    """Whether a condition compares a probability with a number besides the draw."""
    return any(
        isinstance(part, ast.Compare)
        and proposal.source.segment(part.left) == text
        and isinstance(part.ops[0], (ast.Gt, ast.NotEq))
        and isinstance(part.comparators[0], ast.Constant)
        for part in operands(test)
    )
