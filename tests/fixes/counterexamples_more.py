"""Preconditions of the rewrites of masks, chains of arms, loops, set-up methods and replay."""

from __future__ import annotations

import numpy as np
import torch

from tests.fixes.counterexamples import Case, lines

_SECOND = ("b = «x.max().item()»", "return a + b")


def _loss(given: str) -> str:
    return f"return torch.nn.functional.cross_entropy({given})"


def _scores() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 1])


CASES = [
    # guard_logging
    Case("guard_logging", "statement", "PG501", lines("y = «print(x)»", "return y")),
    Case("guard_logging", "only-says", "PG502", lines("«x.append(1)»", "return x")),
    # the other guards
    Case("guard_effect", "statement", "PG508", lines("return «x.requires_grad_()»")),
    Case(
        "guard_effect",
        "kept-out",
        "PG508",
        lines(
            "x = x.detach().clone()",
            "«x.requires_grad_()»",
            "return torch.autograd.grad((x * x).sum(), x)[0]",
        ),
    ),
    Case("guard_check", "only-checks", "PG402", lines("return check(«x[x > 0]»)")),
    # ignored_rows
    *(
        Case("ignored_rows", name, "PG402", lines(*body, head="x, labels"), arguments)
        for name, body, arguments in (
            (
                "mask",
                ("at = torch.arange(2, device=x.device)", _loss("«x[at]», labels[at]")),
                _scores,
            ),
            ("plain", ("at = labels > 0", _loss("«x[at]», labels[at], reduction='none'")), _scores),
            (
                "pure",
                (
                    "at, left = labels > 0, [x, 2 * x]",
                    f"{_loss('«left.pop()[at]», labels[at]')}, left",
                ),
                None,
            ),
            (
                "classes",
                ("at, labels = labels > 0, x.float()", _loss("«x[at]», labels[at]")),
                None,
            ),
            (
                "module",
                (
                    "at = labels > 0",
                    "loss = torch.nn.NLLLoss(None, None, 1)",
                    "return loss(«x[at]», labels[at])",
                ),
                _scores,
            ),
            ("every-row", ("at = labels > 0", _loss("«x[at]», labels[at]")), None),
        )
    ),
    # breaking_statements
    *(
        Case(
            "site" if name == "compiled" else "breaking_statements",
            name,
            "PG201",
            lines(*before, "a = «x.sum().item()»", *rest, head="x: torch.Tensor, n"),
            captured=name == "compiled",
        )
        for name, before, rest in (
            ("compiled", (), _SECOND),
            ("several", (), ("return a",)),
            ("light", (), (f"y = x{' + x' * 20}", *_SECOND)),
            ("known", ("if n:", "    c = 1"), ("d = c", *_SECOND)),
            ("own", ("later = lambda: a",), _SECOND),
        )
    ),
    # attribute_buffer
    # item_branch
    # mask_write
    # mask_copy
    # tensor_chain
    # scalar_fill
    Case(
        "scalar_fill",
        "plain",
        "PG104",
        lines(
            "t = «torch.tensor(1.0, device='cpu', requires_grad=True)»",
            "return (t * x).sum().requires_grad",
        ),
    ),
    Case(
        "scalar_fill",
        "device",
        "PG104",
        lines("return «torch.tensor(1.0, dtype=x.dtype)» * x"),
    ),
    Case(
        "scalar_fill",
        "number",
        "PG104",
        lines("return «torch.tensor(n, dtype=x.dtype, device=x.device)» * x", head="x, n"),
        lambda: (torch.ones(2), [1.0, 2.0]),
    ),
    Case(
        "scalar_fill",
        "typed",
        "PG104",
        lines("return «torch.tensor(n, device=x.device)»", head="x, n"),
        lambda: (torch.ones(2), np.float64(1.0)),
        notes={"number": "yes"},
    ),
    Case(
        "scalar_fill",
        "written",
        "PG104",
        lines("return «torch.tensor(n, dtype=x.dtype, device=x.device)»", head="x, n"),
        lambda: (torch.ones(2), 1e39),
        notes={"number": "yes"},
    ),
    Case(
        "scalar_fill",
        "no-truth",
        "PG104",
        lines("return «torch.tensor(True, device=x.device)»"),
    ),
    Case(
        "scalar_fill",
        "signed",
        "PG104",
        lines("return «torch.tensor(-1, dtype=torch.uint64, device=x.device)»"),
    ),
    Case(
        "scalar_fill",
        "stays-tensor",
        "PG104",
        lines("return x[: int(«torch.tensor(4, device=x.device)»)]"),
    ),
    Case(
        "scalar_fill",
        "range",
        "PG104",
        lines("return x * «torch.tensor(1e39, dtype=x.dtype, device=x.device)»", head="x"),
        lambda: (torch.ones(2),),
        notes={"number": "yes"},
    ),
    Case(
        "scalar_fill",
        "no-comments",
        "PG104",
        lines("return x * «torch.  # the number", "    tensor(2.0, device=x.device)»")
        .replace("return x * «torch.  # the number", "return (x * «torch.  # the number")
        .replace("device)»", "device)»)"),
    ),
    Case(
        "scalar_fill",
        "exact",
        "PG104",
        lines(
            "return x * «torch.tensor(1152921573326323713, dtype=torch.float32, device=x.device)»"
        ),
        lambda: (torch.ones(2),),
    ),
    Case(
        "scalar_fill",
        "meets-input",
        "PG104",
        lines("return «torch.tensor(4, device=x.device)»"),
    ),
    # factory_gradient
    # builtin_math
]
