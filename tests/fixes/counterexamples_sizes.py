"""Preconditions of the rewrites that keep sizes out of tensors."""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines


def _joined(
    *parts: str, use: str = "x.view(«s.tolist()»)", before: str = "", head: str = "x, t"
) -> str:
    """A shape that is put together of parts."""
    made = f"s = torch.cat([{', '.join(parts)}])"
    return lines(*[before] * bool(before), made, f"return {use}", head=head)


_SHAPE = "torch.as_tensor(x.shape, dtype=torch.long)"


def _parameter(*between: str) -> str:
    """A shape that is given, turned into a tensor and put together with ones."""
    body = [
        "def forward(x, t):",
        "    return _view(x, x.shape)",
        "",
        "",
        "def _view(x, shape):",
        "    shape = torch.as_tensor(shape, dtype=torch.long)",
        *(f"    {line}" for line in between),
        "    s = torch.cat([torch.ones_like(shape, dtype=torch.long), shape])",
        "    return x.view(«s.tolist()»)",
    ]
    return "\n".join(["import torch", "", "", *body]) + "\n"


def _product(
    data: str = "torch.tensor(list(x.shape))", use: str = "torch.zeros(n)", head: str = "x, t"
) -> str:
    return lines(f"n = torch.prod(«{data}»)", f"return {use}", head=head)


def _index(
    *before: str,
    head: str = "",
    made: str = "self.count = torch.as_tensor(count)",
    call: str = "Index(3)",
    use: str = "torch.zeros(«int(index.count)»)",
) -> str:
    """An object that keeps a number as a tensor."""
    body = [
        "import torch",
        "",
        "",
        "class Index:",
        *[f"    {head}"] * bool(head),
        "    def __init__(self, count):",
        *(f"        {line}" for line in before),
        f"        {made}",
        "",
        "",
        "def forward(x):",
        f"    index = {call}",
        f"    return {use}",
    ]
    return "\n".join(body) + "\n"


def _turns(
    over: str = "(x, x)",
    each: str = "torch.split(part, «sizes.tolist()»)",
    use: str = "return [{}]",
    before: str = "sizes = sizes + 0",
) -> str:
    """A comprehension that reads sizes in each turn."""
    made = f"{each} for part in {over}" if " for " not in each else each
    return lines(before, *use.format(made).split("\n"), head="x, sizes")


def _positions(
    *,
    made: str = "torch.arange(count, device=x.device)",
    use: str = "«torch.arange(pos[0], pos[-1] + 1)»",
    head: str = "self, pos",
    call: str = "self.between(pos)",
    more: str = "",
    before: str = "",
) -> str:
    """Positions whose ends bound a range, and a function that shows it."""
    body = [
        "import torch",
        "",
        "",
        "class Model:",
        "    def ranges(self, x, count: int):",
        *[f"        {before}"] * bool(before),
        f"        pos = {made}",
        f"        return {call}",
        "",
        f"    def between({head}):",
        f"        return {use}",
        *[f"    {line}" for line in more.split("\n")] * bool(more),
        "",
        "",
        "def forward(x, count):",
        "    return Model().ranges(x, count)",
    ]
    return "\n".join(body) + "\n"


CASES = [
    # host_positions
    Case(
        "host_positions",
        "dtype",
        "PG407",
        _positions(made="torch.arange(count, device=x.device).to(x.dtype)"),
        lambda: (torch.ones(2), 3),
    ),
    Case(
        "host_positions",
        "callers",
        "PG407",
        _positions(),
    ),
    Case(
        "host_positions",
        "apart",
        "PG407",
        _positions(call="self.between(torch.cat([pos, torch.cat([pos, pos])]))"),
    ),
    Case(
        "host_positions",
        "list",
        "PG407",
        _positions().replace("import torch", "import torch\nfrom seen import numbers as list"),
    ),
    Case(
        "host_positions",
        "steady",
        "PG407",
        _positions(
            made="torch.arange(count, device=device)",
            before="device = x.device",
            use="«torch.arange(pos[0], pos[-1] + 1, device=pos.device)»",
        ).replace(
            "        return self", "        device = torch.device('meta')\n        return self"
        ),
        lambda: (torch.ones(2), 3),
    ),
    Case(
        "host_positions",
        "room",
        "PG407",
        _positions(
            head="self, pos, device=0",
            use="«torch.arange(pos[0], pos[-1] + 1, device=pos.device)», device",
        ),
    ),
    Case(
        "host_positions",
        "known-device",
        "PG407",
        _positions(
            use="self.among(pos)",
            more="\ndef among(self, pos):"
            "\n    return «torch.arange(pos[0], pos[-1] + 1, device=pos.device)»",
        ),
        lambda: (torch.ones(2), 3),
    ),
    # one_read
    Case(
        "one_read",
        "first",
        "PG203",
        _turns(use="return sizes.mul_(2), [{}]"),
        lambda: (torch.ones(4), torch.tensor([1, 1])),
    ),
    Case(
        "one_read",
        "alone",
        "PG203",
        _turns(use="sizes = sizes * 2; y = [{}]\nreturn y"),
        lambda: (torch.ones(4), torch.tensor([1, 1])),
    ),
    Case(
        "one_read",
        "turns",
        "PG203",
        _turns(over="x"),
        lambda: ([], 2),
    ),
    Case(
        "one_read",
        "same",
        "PG203",
        _turns(each="torch.add(x, «sizes.tolist()»[0]) for sizes in (x, sizes)"),
        lambda: (torch.ones(2), torch.zeros(2)),
    ),
    Case(
        "one_read",
        "runs",
        "PG203",
        _turns(
            each="x if sizes is None else torch.split(part, «sizes.tolist()»)",
            before="",
        ),
        lambda: (torch.ones(2), None),
    ),
    Case(
        "one_read",
        "passed",
        "PG203",
        _turns(each="«sizes.tolist()»", use="y = [{}]\ny[0].append(5)\nreturn y"),
        lambda: (torch.ones(2), torch.ones(2)),
    ),
    Case(
        "one_read",
        "unchanged",
        "PG203",
        _turns(each="torch.add(sizes.add_(part), «sizes.tolist()»[0])"),
        lambda: (torch.ones(2), torch.zeros(2)),
    ),
    Case(
        "one_read",
        "free",
        "PG203",
        _turns(use="y = [{}]\nreturn y, sizes_list", before="sizes_list = 3"),
        lambda: (torch.ones(2), torch.ones(2, dtype=torch.long)),
    ),
    # host_list
    Case(
        "host_list",
        "sizes",
        "PG203",
        _joined(_SHAPE, use="[s, «s.tolist()»]"),
        lambda: (torch.ones(2, 3), torch.ones(2)),
    ),
    Case(
        "host_list",
        "one-unknown",
        "PG203",
        _joined("t.unsqueeze(0)", "t.unsqueeze(0)"),
        lambda: (torch.ones(2, 2), torch.tensor(2)),
    ),
    Case(
        "host_list",
        "view",
        "PG203",
        _joined("t.unsqueeze(0)", _SHAPE, use="x.repeat(«s.tolist()»)"),
        lambda: (torch.ones(2, 2), torch.tensor(2)),
    ),
    Case(
        "host_list",
        "known",
        "PG203",
        _joined("torch.as_tensor([0], dtype=torch.long)", "t.unsqueeze(0)"),
        lambda: (torch.ones(0, 2), torch.tensor(2)),
    ),
    Case(
        "host_list",
        "callers",
        "PG203",
        _parameter().replace("_view", "view_as"),
    ),
    Case(
        "host_list",
        "filled",
        "PG203",
        _joined("torch.as_tensor(t.shape)", _SHAPE),
        lambda: (torch.ones(2, 2), torch.tensor(2)),
    ),
    Case(
        "host_list",
        "new-dimension",
        "PG203",
        _joined("t.unsqueeze(1)"),
        lambda: (torch.ones(2, 2), torch.tensor([2, 2])),
    ),
    Case(
        "host_list",
        "once",
        "PG203",
        _parameter("shape = shape * 0"),
        lambda: (torch.ones(2, 3), torch.ones(2)),
    ),
    Case(
        "host_list",
        "steady",
        "PG203",
        _joined(
            "torch.ones_like(v)",
            _SHAPE,
            before="p = x.shape; v = torch.as_tensor(p, dtype=torch.long); p = ()",
        ).replace("; ", "\n    "),
        lambda: (torch.ones(2, 3), torch.ones(2)),
    ),
    Case(
        "host_list",
        "untouched",
        "PG203",
        _joined(
            "v",
            before="p = [2, 2]; v = torch.tensor(p, dtype=torch.long); p.append(1)",
        ).replace("; ", "\n    "),
        lambda: (torch.ones(2, 2), torch.ones(2)),
    ),
    Case(
        "host_list",
        "whole",
        "PG203",
        _joined("torch.as_tensor(x.shape, dtype=torch.float)"),
        lambda: (torch.ones(2, 3), torch.ones(2)),
    ),
    # host_product
    Case(
        "host_product",
        "plain",
        "PG104",
        _product("torch.tensor(list(x.shape), dtype=torch.float)"),
        lambda: (torch.ones(2, 3), torch.ones(2)),
    ),
    Case(
        "host_product",
        "sizes",
        "PG104",
        _product("torch.tensor(t)"),
        lambda: (torch.ones(2), [[1, 2], [3, 4]]),
    ),
    Case(
        "host_product",
        "uses",
        "PG104",
        _product(use="n.clone()"),
        lambda: (torch.ones(2), torch.ones(2)),
    ),
    Case(
        "host_product",
        "number",
        "PG104",
        _product(use="n + n"),
        lambda: (torch.ones(2), torch.ones(2)),
    ),
    # given_number
    Case(
        "given_number",
        "builtin",
        "PG202",
        _index().replace("import torch", "import torch\nfrom seen import truncated as int"),
    ),
    Case(
        "given_number",
        "one-place",
        "PG202",
        _index(use="torch.zeros(«int(index.count)»)").replace(
            "    return", "    index.count = torch.tensor(4)\n    return"
        ),
        lambda: (torch.ones(2),),
    ),
    Case(
        "given_number",
        "parameter",
        "PG202",
        _index("count = count + 1", use="torch.zeros(«int(index.count)») + index.count"),
    ),
    Case(
        "given_number",
        "slots",
        "PG202",
        _index(head='__slots__ = ("count",)\n'),
        lambda: (torch.ones(2),),
    ),
    Case(
        "given_number",
        "made-here",
        "PG202",
        _index(call="Index(2.5)"),
        lambda: (torch.ones(2),),
    ),
    Case(
        "given_number",
        "free",
        "PG202",
        _index("self.count_given = 7", use="torch.zeros(«int(index.count)») + index.count_given"),
        lambda: (torch.ones(2),),
    ),
    Case(
        "given_number",
        "alone",
        "PG202",
        _index(made="self.count = torch.as_tensor(count); self.other = 1"),
    ),
]
