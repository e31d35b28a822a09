"""Containers: dictionaries keep what each key holds, lists what they are made of."""

from __future__ import annotations

import pytest

from tests.analysis.programs import forward

MIXED = "out = {'a': x, 'n': 3}\n"
SEEN = [
    (MIXED + "if out['a'].sum() > 0:\n    x = x + 1", ["branch.if"]),
    (MIXED + "out['n'] = x.sum()\nif out['n'] > 2:\n    x = x + 1", ["branch.if"]),
    ("out = dict(a=x, n=3)\nif out['a'].sum() > 0:\n    x = x + 1", ["branch.if"]),
    ("out = {}\nout['a'] = x\nreturn out['a'].item()", ["sync.item"]),
    ("out = {}\nout.update(a=x, n=2)\nreturn out.pop('a').item()", ["sync.item"]),
    ("out = {}\nout.update({'a': x})\nreturn out.get('a').item()", ["sync.item"]),
    ("for k, t in {'a': x, 'b': x + 1}.items():\n    t.item()", ["sync.item"]),
    ("return [t.item() for t in {'a': x}.values()]", ["sync.item"]),
    ("for t in [x, x + 1]:\n    t.item()", ["sync.item"]),
    ("a, b = list(map(lambda t: t + 1, x.unbind()))\nreturn a.item()", ["sync.item"]),
    ("a, b = [t + 1 for t in x.unbind()]\nreturn b.item()", ["sync.item"]),
    ("return [int(n) for n in x]", ["sync.number"]),
    ("return [a.tolist() for a, b in zip(x, x)]", ["sync.tolist"]),
    (
        "sizes = [t.max() for t in x]\nreturn torch.zeros(sizes[0], device=x.device)",
        ["shape.from-value"],
    ),
    (
        "targets = [{'boxes': x, 'n': 1} for _ in range(3)]\nreturn targets[0]['boxes'].tolist()",
        ["sync.tolist"],
    ),
    ("boxes = torch.cat([t['boxes'] for t in targets])\nreturn boxes.tolist()", ["sync.tolist"]),
    ("sizes = [len(t['boxes']) for t in targets]\nreturn x.split(sizes)", []),
    ("if any(t > 0 for t in x):\n    return x", ["sync.builtin"]),
    ("if (x > 0) in [True]:\n    return x", ["branch.membership"]),
]
NOT_SEEN = [
    MIXED + "if out['n'] > 2:\n    return x",
    MIXED + "while out['n'] < 3:\n    out['n'] += 1",
    MIXED + "for k, t in out.items():\n    if k == 'n' and t > 2:\n        return x",
    MIXED + "out['m'] = 4\nif out['m'] > 2:\n    return x",
    MIXED + "if out.get('n', 0) > 2:\n    return x",
    MIXED + "more = {**out, 'm': 1}\nif more['n'] > 2:\n    return x",
    "out = dict(a=x, n=3)\nif out['n'] > 2:\n    return x",
    "out = {}\nout['a'] = x\nout['n'] = 3\nif out['n'] > 2:\n    return x",
    "out = {}\nout.update(a=x, n=2)\nif out['n'] > 2:\n    return x",
    "self.state = {'h': x, 'len': 0}\nif self.state['len'] > 2:\n    return x",
    "xs = sorted(x.unbind(), key=lambda t: t.shape[0])",
    "xs = list(x.unbind())\nxs.sort(key=lambda t: t.shape[0])",
    "y = max([[1], [2, 3]], key=len)",
    "if x in (None,):\n    return 1",
    "if x in ('a', 'b'):\n    return 1",
    "step = {'x': x, 'i': 0}['i']\nif step > 2:\n    return x",
]


@pytest.mark.parametrize(("body", "expected"), SEEN, ids=[body for body, _ in SEEN])
def test_seen(body: str, expected: list[str]) -> None:
    assert (
        forward(body, "x: torch.Tensor, targets: list[dict[str, torch.Tensor]] = None") == expected
    )


@pytest.mark.parametrize("body", NOT_SEEN)
def test_not_seen(body: str) -> None:
    assert [kind for kind in forward(body) if kind != "effect.kept-output"] == []
