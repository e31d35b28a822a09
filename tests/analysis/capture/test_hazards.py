"""Hazards around hand-made captures: each kind where it is certain, and harmless neighbours."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pygraph_lint.analysis.capture.hazards import capture_events, mentioned
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.names import Names

PRELUDE = "import torch\nimport torch.distributed as dist\n"
CAPTURE = """\
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    {body}
"""


def events_of(text: str) -> list[Event]:
    """The capture events of a module."""
    tree = ast.parse(text)
    return capture_events(tree, Names.of_module(tree, "example"))


def seen(body: str) -> list[tuple[int, str]]:
    """Lines (counted from the body's first) and kinds, without ``capture.``, found in ``body``."""
    text = PRELUDE + textwrap.dedent(body).lstrip("\n")
    offset = PRELUDE.count("\n")
    return [(e.span.line - offset, e.kind.removeprefix("capture.")) for e in events_of(text)]


def captured(body: str, before: str = "", after: str = "") -> list[str]:
    """Kinds found around one capture."""
    text = f"{before}\n{CAPTURE.format(body=body)}{after}\n"
    return [kind for _, kind in seen(text)]


# --- outputs kept ---


STEP = """
@torch.compile(mode="reduce-overhead")
def step(x):
    return x * 2

"""


@pytest.mark.parametrize(
    "loop",
    [
        "for x in data:\n    kept.append(step(x))",
        "for x in data:\n    y = step(x)\n    kept.append(y)",
        "for x in data:\n    y, h = step(x)\n    kept.append(h)",
        "for x in data:\n    kept.append(step(x).detach())",
        "while data:\n    out['last'] = step(data.pop())",
        "for x in data:\n    state = step(state)",
        "for x in data:\n    y, state = step(x, state=state)",
        "kept = [step(x) for x in data]",
        "kept = {k: step(k) for k in data}",
    ],
)
def test_kept_output(loop: str) -> None:
    assert [kind for _, kind in seen(STEP + loop)] == ["kept-output"]


@pytest.mark.parametrize(
    "loop",
    [
        "for x in data:\n    kept.append(step(x).clone())",
        "for x in data:\n    kept.append(step(x).item())",
        "for x in data:\n    kept.append(step(x).sum())",
        "for x in data:\n    y = step(x)\n    y = y.clone()\n    kept.append(y)",
        "for x in data:\n    kept = []\n    kept.append(step(x))",
        "for x in data:\n    y = step(x)",
        "for x in data:\n    state = step(state).clone()",
        "for x in data:\n    state = step(x, state.clone())",
        "state = step(state)",
        "for x in data:\n    table[x] = step(x)",
        "for x in data:\n    kept.append(x)",
        "kept.append(step(data))",
        "kept = [step(x).clone() for x in data]",
    ],
)
def test_output_not_kept(loop: str) -> None:
    assert seen(STEP + loop) == []


@pytest.mark.parametrize(
    ("maker", "found"),
    [
        ('torch.compile(f, mode="reduce-overhead")', True),
        ('torch.compile(f, mode="max-autotune")', True),
        ('torch.compile(f, options={"triton.cudagraphs": True})', True),
        ('torch.compile(mode="reduce-overhead")(f)', True),
        ("torch.cuda.make_graphed_callables(f, (x,))", True),
        ("torch.compile(f)", False),
        ('torch.compile(f, mode="default")', False),
        ('torch.compile(f, mode="max-autotune-no-cudagraphs")', False),
        ("torch.compile(f, mode=mode)", False),
        ('torch.compile(f, options={"triton.cudagraphs": flag})', False),
        ("f", False),
    ],
)
def test_which_callables_reuse_their_outputs(maker: str, found: bool) -> None:
    code = f"step = {maker}\nfor x in data:\n    kept.append(step(x))"
    assert seen(code) == ([(3, "kept-output")] if found else [])


COMPILE = 'net = torch.compile(net, mode="reduce-overhead")'


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (f"net = Net()\n{COMPILE}\nkept = [net(x) for x in data]", True),
        (f"net = Net()\ntry:\n    {COMPILE}\nfinally:\n    kept = [net(x) for x in data]", True),
        (f"kept = [net(x) for x in data]\n{COMPILE}", False),
        (f"{COMPILE}\nnet = f\nkept = [net(x) for x in data]", False),
        (f"net = Net()\nif fast:\n    {COMPILE}\nkept = [net(x) for x in data]", False),
        (f"{COMPILE}\nfor i in r:\n    kept.append(net(i))\n    net = f", False),
        (f"{COMPILE}\nfor i in r:\n    kept.append(net(i))\nnet = f", True),
    ],
)
def test_the_last_binding_counts(code: str, found: bool) -> None:
    assert [kind for _, kind in seen(code)] == (["kept-output"] if found else [])


def test_a_parameter_hides_the_module_name() -> None:
    assert seen(STEP + "def run(step, data):\n    return [step(x) for x in data]") == []


def test_attribute_compiled_in_init() -> None:
    code = """
    class Policy:
        def __init__(self, net):
            self.net = net
            self.net = torch.compile(self.net, mode="reduce-overhead")

        def run(self, data):
            return [self.net(x) for x in data]
    """
    assert [kind for _, kind in seen(code)] == ["kept-output"]
    rebound = code + "\n        def swap(self, net):\n            self.net = net\n"
    assert seen(rebound) == []


def test_replayed_output_kept() -> None:
    after = "for x in data:\n    inp.copy_(x)\n    graph.replay()\n    kept.append(out)\n"
    assert captured("out = inp * 2", after=after) == ["kept-output"]
    assert captured("out = inp * 2", after=after.replace("(out)", "(out.clone())")) == []
    assert captured("out = inp * 2", after=after.replace("graph.replay()", "pass")) == []


# --- inputs rebound ---


def test_input_rebound() -> None:
    assert captured("out = f(x)", after="x = new\ngraph.replay()") == ["input-rebound"]


@pytest.mark.parametrize(
    "after",
    [
        "x.copy_(new)\ngraph.replay()",
        "x = new",
        "x = new\nstatic.copy_(x)\ngraph.replay()",
        "x = None\ngraph.replay()",
        "graph.replay()\nx = new",
        "out = new\ngraph.replay()",
        "f = new\ngraph.replay()",
        "x = new\nother.replay()",
    ],
)
def test_input_not_rebound(after: str) -> None:
    assert captured("out = f(x)", after=after) == []


CLASS = """
class Runner:
    def capture(self, x):
        self.x = x.clone()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.x)

    def run(self, x):
        {line}
        self.graph.replay()
        return self.out
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("self.x = x", True),
        ("self.x.copy_(x)", False),
        ("self.model = x", False),
        ("self.y = x", False),
    ],
)
def test_input_rebound_in_another_method(line: str, found: bool) -> None:
    kinds = [kind for _, kind in seen(CLASS.format(line=line))]
    assert kinds == (["input-rebound"] if found else [])


# --- optimizers and scalers ---


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("torch.optim.Adam(p)", True),
        ("torch.optim.AdamW(p, lr=1e-3, fused=True)", True),
        ("torch.optim.Adam(p, capturable=False)", True),
        ("torch.optim.Adam(p, capturable=True)", False),
        ("torch.optim.Adam(p, capturable=flag)", False),
        ("torch.optim.Adam(p, **options)", False),
        ("torch.optim.SGD(p, lr=0.1)", False),
        ("make_optimizer(p)", False),
    ],
)
def test_optimizer(made: str, found: bool) -> None:
    kinds = captured("opt.step()", before=f"opt = {made}")
    assert kinds == (["optimizer"] if found else [])


def test_optimizer_stepped_outside() -> None:
    assert captured("loss.backward()", before="opt = torch.optim.Adam(p)", after="opt.step()") == []


def test_optimizer_of_the_class() -> None:
    code = """
    class Trainer:
        def __init__(self, p):
            self.opt = torch.optim.Adam(p)

        def capture(self):
            with torch.cuda.graph(self.graph):
                self.opt.step()
    """
    assert seen(code) == [(7, "optimizer")]


@pytest.mark.parametrize(
    ("body", "optimizer", "found"),
    [
        ("scaler.step(opt)", "torch.optim.SGD(p)", True),
        ("scaler.step(opt)", "torch.optim.SGD(p, fused=True)", False),
        ("scaler.step(opt)", "given", False),
        ("scaler.scale(loss).backward()", "torch.optim.SGD(p)", False),
    ],
)
def test_scaler(body: str, optimizer: str, found: bool) -> None:
    before = f"opt = {optimizer}\nscaler = torch.amp.GradScaler('cuda')"
    assert captured(body, before=before) == (["scaler"] if found else [])


# --- autocast, generators, streams ---


@pytest.mark.parametrize(
    ("autocast", "found"),
    [
        ("torch.autocast('cuda')", True),
        ("torch.autocast(device_type='cuda', dtype=torch.float16)", True),
        ("torch.amp.autocast('cuda')", True),
        ("torch.cuda.amp.autocast()", True),
        ("torch.autocast('cuda', cache_enabled=False)", False),
        ("torch.autocast('cuda', cache_enabled=flag)", False),
        ("torch.autocast('cuda', enabled=False)", False),
        ("torch.autocast('cpu')", False),
        ("torch.autocast(device)", False),
        ("torch.no_grad()", False),
    ],
)
def test_autocast_around(autocast: str, found: bool) -> None:
    code = f"with {autocast}:\n    with torch.cuda.graph(graph):\n        y = f(x)"
    assert seen(code) == ([(1, "autocast-cache")] if found else [])
    code = f"with {autocast}, torch.cuda.graph(graph):\n    y = f(x)"
    assert seen(code) == ([(1, "autocast-cache")] if found else [])


def test_autocast_inside() -> None:
    assert captured("with torch.autocast('cuda'):\n        y = f(x)") == []
    assert seen("with torch.cuda.graph(graph), torch.autocast('cuda'):\n    y = f(x)") == []


@pytest.mark.parametrize(
    ("before", "body", "found"),
    [
        ("g = torch.Generator('cuda')", "y = torch.rand(8, generator=g)", True),
        ("g = torch.Generator('cuda')", "y = torch.rand(8)", False),
        ("g = given", "y = torch.rand(8, generator=g)", False),
        (
            "g = torch.Generator('cuda')\nother.register_generator_state(g)",
            "y = torch.rand(8, generator=g)",
            False,
        ),
    ],
)
def test_generator(before: str, body: str, found: bool) -> None:
    assert captured(body, before=before) == (["generator"] if found else [])


FORK = """\
side = torch.cuda.Stream()
with torch.cuda.graph(graph):
    {first}
    with torch.cuda.stream(side):
        y = x * 2
    {last}
"""
WAIT = "side.wait_stream(torch.cuda.current_stream())"
JOIN = "torch.cuda.current_stream().wait_stream(side)"


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [
        (WAIT, JOIN, False),
        ("side.wait_event(event)", "main.wait_event(event)", False),
        ("event.wait(side)", "event.wait()", False),
        (WAIT, "pass", True),
        ("pass", JOIN, True),
        ("pass", "pass", True),
    ],
)
def test_fork_and_join(first: str, last: str, found: bool) -> None:
    code = FORK.format(first=first, last=last)
    assert seen(code) == ([(4, "side-stream")] if found else [])


@pytest.mark.parametrize(
    ("wait", "found"), [(WAIT, False), ("torch.cuda.synchronize()", False), ("pass", True)]
)
def test_warmup_stream(wait: str, found: bool) -> None:
    code = f"""\
side = torch.cuda.Stream()
{wait}
with torch.cuda.stream(side):
    f(x)
with torch.cuda.graph(graph):
    y = f(x)
"""
    assert seen(code) == ([(3, "side-stream")] if found else [])


def test_the_captures_own_stream_is_no_side_stream() -> None:
    code = """\
side = torch.cuda.Stream()
with torch.cuda.graph(graph, stream=side):
    with torch.cuda.stream(side):
        y = f(x)
"""
    assert seen(code) == []


# --- warm-up and compilation ---


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("net = torch.nn.Linear(8, 8)", ["no-warmup"]),
        ("net = torch.nn.Linear(8, 8).cuda().eval()", ["no-warmup"]),
        ("net = torch.nn.Linear(8, 8)\nnet.eval()\nnet.load_state_dict(s)", ["no-warmup"]),
        ("net = torch.nn.Linear(8, 8)\nnet(x)", []),
        ("net = torch.nn.Linear(8, 8)\nwarm_up(net)", []),
        ("net = torch.nn.Linear(8, 8)\nnet.prepare()", []),
        ("net = load()", []),
        ("net = given", []),
        ("net = torch.nn.functional.relu", []),
        ("net = torch.compile(f)", ["first-compile"]),
        ("net = torch.compile(f)\nnet(x)", []),
        ("net = torch.compile(f)\nfor _ in range(3):\n    net(x)", []),
    ],
)
def test_first_call_in_the_capture(before: str, found: list[str]) -> None:
    assert captured("y = net(x)", before=before) == found


def test_own_module_class_without_warmup() -> None:
    code = """
    class Net(torch.nn.Module):
        def forward(self, x):
            return x

    def run(x, graph):
        net = Net().cuda()
        with torch.cuda.graph(graph):
            return net(x)

    def run_given(net, x, graph):
        with torch.cuda.graph(graph):
            return net(x)

    class Runner:
        def __init__(self):
            self.warm_up()

    def run_runner(x, graph):
        runner = Runner()
        with torch.cuda.graph(graph):
            return runner(x)
    """
    assert seen(code) == [(8, "no-warmup")]


# --- make_graphed_callables, distributed, pools, syncs ---


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("net.register_forward_hook(h)", True),
        ("handle = net.register_full_backward_hook(h)", True),
        ("handle = net.register_forward_hook(h)\nhandle.remove()", False),
        ("net.layer.register_forward_hook(h)", False),
        ("other.register_forward_hook(h)", False),
        ("net.register_buffer('b', t)", False),
    ],
)
def test_hooks_before_graphing(before: str, found: bool) -> None:
    for graphing in ("(net, (x,))", "((net, other_net), ((x,), (x,)))"):
        code = f"{before}\ngraphed = torch.cuda.make_graphed_callables{graphing}"
        assert seen(code) == ([(1, "hooks-before")] if found else [])


def test_hooks_after_graphing() -> None:
    code = "g = torch.cuda.make_graphed_callables(net, (x,))\nnet.register_forward_hook(h)"
    assert seen(code) == []


@pytest.mark.parametrize(
    ("argument", "found"),
    [(", use_reentrant=True", True), (", use_reentrant=False", False), ("", False)],
)
def test_reentrant_checkpoint(argument: str, found: bool) -> None:
    code = f"""\
from torch.utils.checkpoint import checkpoint
class Net(torch.nn.Module):
    def forward(self, x):
        return checkpoint(self.part, x{argument})
net = Net().cuda()
graphed = torch.cuda.make_graphed_callables(net, (x,))
"""
    assert seen(code) == ([(4, "reentrant-checkpoint")] if found else [])
    assert seen(code.replace("make_graphed_callables", "something_else")) == []


@pytest.mark.parametrize(
    ("body", "between", "found"),
    [
        ("dist.all_reduce(x)", "pass", True),
        ("dist.all_reduce(x)", "graph.reset()", False),
        ("dist.all_reduce(x)", "del graph", False),
        ("dist.all_reduce(x)", "graph = None", False),
        ("y = f(x)", "pass", False),
    ],
)
def test_process_group(body: str, between: str, found: bool) -> None:
    after = f"{between}\ndist.destroy_process_group()"
    assert captured(body, after=after) == (["process-group"] if found else [])


@pytest.mark.parametrize(
    ("mode", "found"), [('mode="reduce-overhead"', True), ('mode="default"', False)]
)
def test_user_pool(mode: str, found: bool) -> None:
    code = f"""\
step = torch.compile(f, {mode})
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    y = step(x)
"""
    assert seen(code) == ([(3, "user-pool")] if found else [])


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("y = f(x).item()", True),
        ("y = x.cpu()", True),
        ("y = x.tolist()", True),
        ("y = x.item", False),
        ("y = x.sum()", False),
        ("y = record.item(3)", False),
    ],
)
def test_sync(body: str, found: bool) -> None:
    assert captured(body) == (["sync"] if found else [])
    assert seen(body) == []


# --- the whole ---


def test_other_modules_named_alike_are_left_alone() -> None:
    text = """\
import mytorch as torch
with torch.cuda.graph(g):
    x.item()
"""
    assert events_of(text) == []


def test_events_have_a_kind_a_subject_and_evidence() -> None:
    for event in events_of(PRELUDE + STEP + "kept = [step(x) for x in data]"):
        assert event.kind == "capture.kept-output"
        assert event.subject == "step(x)"
        assert "line 4" in event.evidence[0]


@pytest.mark.parametrize(
    "text",
    [
        "with torch.cuda.graph(g): pass",
        "from torch.cuda import graph",
        "g = torch.cuda.CUDAGraph()",
        "torch.cuda.make_graphed_callables(f, x)",
        'torch.compile(f, mode="reduce-overhead")',
        "with torch.cuda.use_mem_pool(torch.cuda.MemPool()): pass",
    ],
)
def test_mentioned(text: str) -> None:
    assert mentioned(text)
    assert not mentioned("import torch\ny = torch.compile(f)(x)\nplot.graph(y)\n")


PIECES = [
    "graph = torch.cuda.CUDAGraph()",
    "net = torch.nn.Linear(8, 8)",
    "step = torch.compile(net, mode='reduce-overhead')",
    "opt = torch.optim.Adam(net.parameters())",
    "side = torch.cuda.Stream()",
    "with torch.cuda.graph(graph):",
    "with torch.cuda.stream(side):",
    "with torch.autocast('cuda'):",
    "for x in data:",
    "def run(x):",
    "class Box:",
    "kept.append(step(x))",
    "x = net(x)",
    "opt.step()",
    "graph.replay()",
    "self.x, *rest = x",
    "lambda: x",
    "y = [step(x) for x in data]",
    "x: int = 3",
    "(z := step(x))",
]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(PIECES)), max_size=14))
def test_any_module_gives_ordered_events_inside_it(lines: list[tuple[int, str]]) -> None:
    text, open_at = PRELUDE, 0
    for wanted, piece in lines:
        level = min(wanted, open_at)
        text += "    " * level + piece + "\n"
        if piece.endswith(":"):
            text += "    " * (level + 1) + "pass\n"
            open_at = level + 1
        else:
            open_at = level
    events = events_of(text)
    assert events == sorted(events, key=lambda event: (event.span, event.kind))
    rows = text.count("\n")
    assert all(1 <= event.span.line <= event.span.end_line <= rows for event in events)
