"""A helper function written into a file: rows of several groups times a matrix for each group, by
torch's kernel for that or in blocks whose number and length follow from shapes alone.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import all_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source

NAME = "grouped_matmul"
HELPER = '''
def grouped_matmul(inputs, weights, sizes):
    """Multiply rows that are sorted by group by the weight of their group.

    Where torch's own kernel can't, the rows are laid out in blocks of one length, each of one
    group and all together at most twice as long as the input, so that no size depends on how
    many rows a group has. Products of groups without a weight, the last ones, mean nothing.
    """
    rows, groups, last = inputs.size(0), sizes.size(0), weights.size(0) - 1
    sizes = sizes.to(inputs.device)
    row_ends = sizes.cumsum(0)
    learns = torch.is_grad_enabled() and (inputs.requires_grad or weights.requires_grad)
    aligned = inputs.size(1) % 8 == weights.size(2) % 8 == 0
    if inputs.dtype == weights.dtype == torch.bfloat16 and aligned and not learns:
        if hasattr(torch.nn.functional, "grouped_mm"):
            ends = row_ends[: last + 1].to(torch.int32)
            return torch.nn.functional.grouped_mm(inputs.contiguous(), weights, offs=ends)
    length = max(rows // groups, 1)
    count = min(rows // length + groups, rows)
    blocks = (sizes + length - 1) // length
    block_ends = blocks.cumsum(0)
    row = torch.arange(rows, device=inputs.device)
    group = torch.searchsorted(row_ends, row, right=True)
    place = row + ((block_ends - blocks) * length - (row_ends - sizes))[group]
    block = torch.arange(count, device=inputs.device)
    owner = torch.searchsorted(block_ends, block, right=True).clamp(max=last)
    padded = inputs.new_zeros(count * length, inputs.size(1)).index_copy(0, place, inputs)
    products = torch.bmm(padded.view(count, length, inputs.size(1)), weights[owner])
    return products.flatten(0, 1)[place]
'''


def use_grouped_matmul(proposal: Proposal) -> str:
    """The helper's name; it is written in front of the file's first definition, where other fixes
    of the same pass share it, unless the file has it.

    Raises Declined where the name means something else.
    """
    source = proposal.source
    text = HELPER.strip().replace("torch.", f"{use_torch(proposal)}.")
    wanted = ast.dump(ast.parse(text).body[0])
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef) and ast.dump(node) == wanted:
            return NAME
    used = (node.id for node in all_nodes(source.tree) if isinstance(node, ast.Name))
    named = (getattr(node, "name", "") for node in all_nodes(source.tree))
    if NAME in {*used, *named} or proposal.names.taken(NAME):
        raise Declined(f"the name {NAME} means something else here")
    text = text.replace("    ", source.indent_unit) + "\n\n\n"
    start = source.line_start(_first_line(source))
    proposal.replace(start, start, text.replace("\n", source.newline))
    return NAME


def _first_line(source: Source) -> int:
    """The line on which the module's first definition begins, comments included."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    first = next((node for node in source.tree.body if isinstance(node, kinds)), None)
    if first is None:
        raise Declined("the module defines nothing")
    line = min([first.lineno, *(item.lineno for item in first.decorator_list)])
    while line > 1 and source.line(line - 1).startswith("#"):
        line -= 1
    return line
