"""Numbers that are only used as sizes: of new tensors, of views, of slices."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads, own_nodes, parents, stores
from pygraph_lint.fixes.number_kinds import Kinds, View
from pygraph_lint.fixes.number_uses import Uses
from pygraph_lint.fixes.proposal import Proposal

# What Python and torch work out alike for whole numbers.
_EXACT = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


class Sizes:
    """Looks at what a function does with names that hold sizes."""

    def __init__(self, proposal: Proposal, function: ast.FunctionDef) -> None:
        tree = proposal.source.tree
        self._above = parents(tree)
        self._function = function
        path: list[ast.AST] = [function]
        while path[0] in self._above:
            path.insert(0, self._above[path[0]])
        self._kinds = Kinds(View(proposal.file_names, True, lambda _: False), path)
        self._uses = Uses(tree, self._above)
        self._seen: set[str] = set()

    def only(self, name: str) -> bool:
        """Whether a name is bound once, and everything computed from it is a size or a bound."""
        if name in self._seen:
            return True
        self._seen.add(name)
        if len(stores(self._function, name)) != 1:
            return False
        return all(self.is_size(read) for read in loads(self._function, name))

    def is_size(self, node: ast.AST) -> bool:
        """Whether a number stands where only a size or a bound can come of it."""
        parent = self._above[node]
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, _EXACT) and self.is_size(parent)
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.USub) and self.is_size(parent)
        if isinstance(parent, ast.Assign):
            target = parent.targets[0]
            if len(parent.targets) > 1 or not isinstance(target, ast.Name):
                return False
            return self.only(target.id)
        if isinstance(parent, ast.IfExp):
            return False
        own = node in own_nodes(self._function)
        return own and self._uses.fits(node, self._kinds, set())
