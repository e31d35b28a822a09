"""A common multiple or divisor of Python numbers is worked out by Python.

np.lcm(a, b) -> math.lcm(a, b)

Unsafe: numpy takes arrays too, and its number divides by zero without an error.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG520",)
_FUNCTIONS = {"numpy.lcm": "lcm", "numpy.gcd": "gcd"}


def propose(proposal: Proposal) -> None:
    """Replace the call of numpy."""
    call = proposal.path[-1]
    name = _FUNCTIONS.get(proposal.names.callee(call) or "")
    if name is None or not isinstance(call, ast.Call):
        raise Declined
    proposal.message = "Work the number out in Python"
    plain = len(call.args) == 2 and not call.keywords
    starred = any(isinstance(item, ast.Starred) for item in call.args)
    proposal.need("two-numbers", plain and not starred, "numpy is asked for more than one number")
    proposal.safe_if(
        "numbers", False, "numpy takes arrays too, and its number divides by zero without an error"
    )
    proposal.replace_node(call.func, f"{use_module(proposal, 'math')}.{name}")
