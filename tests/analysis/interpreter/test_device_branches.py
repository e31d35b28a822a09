"""Branches that are not taken on a device in usual use, and what their arms leave behind."""

from __future__ import annotations

import time

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, forward, kinds, project
from tests.rules.conftest import lint_text

HEAD = "import torch\nfrom packaging import version\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("x.numel() == 0", False),
        ("len(x) == 0", False),
        ("not len(x)", False),
        ("x.shape[0] == 0", False),
        ("x.size(0) * x.size(1) == 0", False),
        ("rows == 0", False),
        ("rows * columns == 0", False),
        ("not count", False),
        ("not x.ndim", True),
        ("rows + 1 == 0", True),
        ("rows == 1", True),
        ("x.numel() == 1", True),
        ("x.numel() > 0", True),
        ("x.sum() == 0", True),
    ],
)
def test_what_happens_for_tensors_without_elements_is_not_reported(
    test: str, reported: bool
) -> None:
    body = f"rows, columns = x.shape\ncount = x.size(0)\nif {test}: return x.sum().item()\nreturn x"
    assert ("sync.item" in forward(body)) is reported


def test_the_other_arm_of_a_test_for_elements_is_reported() -> None:
    found = forward("if x.numel() == 0:\n    y = x\nelse:\n    y = x.sum().item()\nreturn y")
    assert found == ["sync.item"]


@pytest.mark.parametrize(
    ("test", "waits"),
    [
        ("x.device.type == 'cuda'", True),
        ("x.is_cuda", True),
    ],
)
def test_for_a_tensor_of_the_host_the_graph_breaks_and_nothing_waits(
    test: str, waits: bool
) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def forward(self, x: torch.Tensor):
        if {test}:
            return x * x.sum().item()
        return x
"""
    (found,) = [finding for finding in lint_text(source) if finding.code == "PG201"]
    assert found.consequences["compile"] == "break"
    assert found.consequences["sync"] == ("yes" if waits else "no")


@pytest.mark.parametrize(
    ("flag", "reported"),
    [
        ("version.Version(torch.__version__) < version.Version('2.0')", True),
        ("version.parse(torch.__version__) >= version.parse('2.13')", True),
        ("digit_version(torch.__version__) > digit_version('2.13')", True),
        ("digit_version(torch.__version__) > other_version('1.6.0')", True),
        ("version.parse(nn.__version__) >= version.parse('1.8')", True),
    ],
)
def test_a_version_older_than_every_supported_one_decides_a_branch(
    flag: str, reported: bool
) -> None:
    source = f"""{HEAD}
NEW = {flag}
class M(nn.Module):
    def forward(self, x: torch.Tensor):
        if not NEW:
            x = x * x.sum().item()
        return x if {flag} else x.sum().item()
"""
    assert ("sync.item" in kinds(source)) is reported


LENGTH = """
class M(nn.Module):
    def forward(self, mask: torch.Tensor, x: torch.Tensor):
        return self.steps(mask{given})

    def steps(self, mask: torch.Tensor, n: int | None = None):
        {choose}
        return torch.arange(n, device=mask.device)
"""
CHOOSE = ["n = n if n is not None else mask.sum().max()", "if n is None: n = mask.sum().max()"]


@pytest.mark.parametrize("choose", CHOOSE)
def test_what_an_arm_gives_is_a_tensor_where_a_call_takes_the_arm(choose: str) -> None:
    passed, unsaid = (HEAD + LENGTH.format(given=each, choose=choose) for each in (", 3", ""))
    assert "shape.from-value" not in kinds(passed)
    assert "shape.from-value" in kinds(unsaid)


TRACING = """
def is_fake(t):
    return type(t) is int

def is_tracing(t=None):
    found = torch.compiler.is_compiling() or is_fake(t)
    if t is not None:
        found |= is_fake(t)
    return found
"""


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("not is_tracing(mask) and mask.all()", False),
        ("not (mask is not None and is_tracing(mask)) and (mask is None or mask.all())", False),
        ("not (mask is None and is_tracing(mask)) and mask.all()", True),
        ("is_tracing(mask) and mask.all()", True),
    ],
)
def test_a_flag_that_is_set_while_tracing_stays_set(test: str, reported: bool) -> None:
    body = f"""
class M(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None):
        if {test}:
            return x
        return x + 1
"""
    assert ("branch.if" in kinds(HEAD + TRACING + body)) is reported


def test_a_tensor_as_alpha_of_add_in_place_breaks_nothing() -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def forward(self, x: torch.Tensor):
        y = x.clone()
        y.add_(x, alpha=x.sum())
        return y.sub_(x, alpha=x.sum()).requires_grad_(False)
"""
    claims = [(f.code, f.consequences["compile"]) for f in lint_text(source)]
    assert claims == [("PG202", "ok"), ("PG202", "break")]


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("self.mean = self.mean.type_as(x)", []),
        ("self.mean = self.mean.to(x.device)", []),
        ("mean = self.mean.to(x.device)", ["PG106"]),
    ],
)
def test_a_tensor_that_its_object_keeps_on_the_device_is_copied_by_the_first_call(
    statement: str, codes: list[str]
) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.Tensor([1.0, 2.0]).view(1, 2)

    def forward(self, x: torch.Tensor):
        {statement}
        return x - 1
"""
    assert [found.code for found in lint_text(source) if found.code == "PG106"] == codes


def test_arms_that_rebind_a_tensor_in_a_loop_reach_a_fixed_point() -> None:
    source = f"""{HEAD}
def run(x, a=None, b=None, c=None, d=None):
    y = None
    for i in range(3):
        if a is None:
            y = x if y is None else y + x
        elif b is None:
            y = x * 2 if c is None else y
        else:
            y = 3
        x = x + 1 if d is None else y
    return y

class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return run(x, 1)
"""
    started = time.process_time()
    kinds(source)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("statement", "reported"),
    [
        ("if x.ndim == 3:\n    logger.warning('3d input is deprecated')", False),
        ("if x.ndim == 2:\n    pass\nelse:\n    warnings.warn('you should pass 2 sizes')", False),
        ("if x.ndim == 3:\n    logger.info('3d input')", False),
        ("if x.ndim == 3:\n    logger.warning_once('3d input')", True),
        ("if mask is not None and x is not None:\n    logger.warning('both')", True),
        ("size = x.size()\nif self.fast and size[1] <= 64:\n    logger.warning('short')", True),
        ("if x.ndim == 3:\n    print('3d input')", False),
        ("if x.ndim == 3:\n    time.time()", True),
        ("logger.warning('this layer is deprecated')", True),
        ("print(x.ndim)", True),
    ],
)
def test_what_an_arm_tells_is_reported_where_all_is_asked_for(
    statement: str, reported: bool
) -> None:
    lines = "".join(f"\n        {line}" for line in statement.splitlines())
    source = f"""
import logging, time, warnings
{HEAD}
logger = logging.getLogger(__name__)

class M(nn.Module):
    def forward(self, x: torch.Tensor):{lines}
        return x
"""
    source = source.replace("x: torch.Tensor)", "x: torch.Tensor, mask=None)")
    assert bool(lint_text(source)) is reported
    assert lint_text(source, regions="all")


@pytest.mark.parametrize(
    ("test", "reported"),
    [("x", False), ("not x", False), ("x > 0", True), ("x.any()", True), ("(x > 0).any()", True)],
)
def test_the_bare_truth_of_what_is_passed_is_mostly_that_of_a_flag(
    test: str, reported: bool
) -> None:
    source = f"""
import torch
def scaled(x):
    return 2 if {test} else 1
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x * scaled(x)
"""
    assert bool(kinds(source)) is reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert confirmed(linked, facts["m"])


@pytest.mark.parametrize("test", ["self.kind is None", "self.kind == None"])
def test_an_attribute_that_is_always_none_decides(test: str) -> None:
    found = forward(f"if {test}: return x\nreturn x[x > 0]", init="self.kind = None")
    assert found == []


SET_UP = """
import torch
from torch import nn
class M(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x: torch.Tensor):
        if {test}:
            {body}
        return x + self.w
    {other}
"""
SETS = "def find(self, x): self.{} = x.argmax()"
MADE = "self.w = torch.zeros(3).to(x.device)"


@pytest.mark.parametrize(
    ("test", "body", "other", "once"),
    [
        ("self.w is None", MADE, "", True),
        ("self.w == None", MADE, "", True),
        ("not hasattr(self, 'w')", MADE, "", True),
        ("self.w is None", "self.register_buffer('w', torch.zeros(3).to(x.device))", "", True),
        ("self.w is None", MADE, "def reset(self): self.w = None", False),
        ("not hasattr(self, 'w')", MADE, "def reset(self): del self.w", False),
        ("x.ndim and self.w is None", MADE, "", True),
        ("x.ndim or self.w is None", MADE, "", False),
        ("not hasattr(self, 'v')", "y = torch.zeros(3).to(x.device)", SETS.format("v"), True),
        ("not hasattr(self, 'v')", "y = torch.zeros(3).to(x.device)", SETS.format("u"), False),
        ("hasattr(self, 'v')", "y = torch.zeros(3).to(x.device)", SETS.format("v"), False),
        ("self.w is not None", MADE, "", False),
        ("not hasattr(self, 'v')", MADE, "", False),
        ("not hasattr(x, 'w')", MADE, "", False),
        ("self.w is None", "self.w = None; y = torch.zeros(3).to(x.device)", "", False),
    ],
)
def test_what_a_branch_sets_up_for_later_calls_is_no_cost_of_each_call(
    test: str, body: str, other: str, once: bool
) -> None:
    init = "self.w = None" if "hasattr" not in test else "pass"
    found = kinds(SET_UP.format(init=init, test=test, body=body, other=other))
    assert any(kind.startswith("host.") for kind in found) is not once


FIRST = """
import torch
READY = False
GRID = None
SEEN = {{}}
def fill(x, ready=False):
    {head}
    print("x")
    {tail}
class M(torch.nn.Module):
    ready = False
    def forward(self, x: torch.Tensor):
        fill(x)
        return x
"""


def test_what_an_object_sets_up_that_may_be_made_on_each_call() -> None:
    source = """
    import torch
    class Step:
        def __init__(self, x):
            self.point = None
            self.x = x
        def solve(self):
            if self.point is None:
                self.point = torch.linalg.cholesky(self.x).sum().item()
            return self.point
    class M(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return Step(x).solve()
    """
    assert "sync.item" in kinds(source)


@pytest.mark.parametrize(
    ("head", "tail", "once"),
    [
        ("global READY\n    if READY: return", "READY = True", True),
        ("global READY\n    if READY: return", "READY = False", False),
        ("if READY: return", "READY = True", False),
        ("if ready: return", "ready = True", False),
        ("global GRID\n    if GRID is not None: return GRID", "GRID = x", True),
        ("global GRID\n    if GRID is None: return x", "GRID = x", False),
        ("if M.ready: return", "M.ready = True", True),
        ("if SEEN.get('x'): return", "SEEN['x'] = True", False),
        ("if SEEN['x']: return", "SEEN['x'] = True", True),
        ("if 'x' in SEEN: return", "SEEN['x'] = 1", True),
        ("if 'x' in SEEN: return", "SEEN['y'] = 1", False),
        ("kept = SEEN.get('x')\n    if kept is not None: return kept", "SEEN['x'] = 1", True),
        ("kept = SEEN.get('x')\n    if kept is not None: return kept", "SEEN['y'] = 1", False),
        ("if hasattr(fill, 'buffer'): return", "fill.buffer = x", True),
        ("global READY\n    if READY: x = 1", "READY = True", False),
        ("global READY\n    if READY: return", "if x.ndim: READY = True", False),
    ],
)
def test_what_a_function_sets_up_behind_its_return_is_no_cost_of_each_call(
    head: str, tail: str, once: bool
) -> None:
    assert kinds(FIRST.format(head=head, tail=tail)) == ([] if once else ["call"])


@pytest.mark.parametrize(
    ("test", "said", "expected"),
    [
        ("x.device.type != 'cuda'", "print('move it')", []),
        ("not x.is_cuda", "logger.warning('move it')", []),
        ("x.is_cuda", "time.time()", ["call"]),
        ("x.isnan().any()", "print('NaN')", ["branch.finite-guard"]),
        ("not torch.isfinite(x).all()", "logger.info('NaN')", ["branch.finite-guard"]),
        ("torch.isfinite(x).all()", "time.time()", ["branch.finite-guard", "call"]),
        ("not x.is_cuda", "x = x[x > 0]", []),
        ("x.is_cuda", "x = x[x > 0]", ["shape.mask-read"]),
    ],
)
def test_what_is_said_about_tensors_of_the_host_is_not_reported(
    test: str, said: str, expected: list[str]
) -> None:
    assert forward(f"import time\nif {test}:\n    {said}\nreturn x") == expected


@pytest.mark.parametrize(
    ("moved", "reported"), [("x.cuda()", False), ("x.to('cuda:0')", True), ("x + 1", True)]
)
def test_what_runs_without_a_device_is_not_reported(moved: str, reported: bool) -> None:
    found = forward(f"if self.gpus > 0: y = {moved}\nelse: y = x.tolist()\nreturn y")
    assert ("sync.tolist" in found) is reported


@pytest.mark.parametrize(
    ("test", "reported"),
    [
        ("self.verbose", False),
        ("debug", False),
        ("self.training and self.verbose", False),
        ("verbose > 1", False),
        ("self.record_all_stats", False),
        ("not self.verbose", True),
        ("verbosely", True),
        ("self.training or self.verbose", True),
        ("self.profiles", True),
    ],
)
def test_messages_and_figures_about_the_run_are_not_asked_for(test: str, reported: bool) -> None:
    found = forward(f"debug = verbose = self.level\nif {test}: return x.sum().item()\nreturn x")
    assert ("sync.item" in found) is reported


@pytest.mark.parametrize(
    ("default", "reported"), [("=True", True), ("=False", False), ("=None", False), ("", False)]
)
def test_messages_that_are_on_by_default(default: str, reported: bool) -> None:
    body = "if verbose: return x.sum().item()\nreturn x"
    found = forward(body, f"x: torch.Tensor, verbose{default}")
    assert ("sync.item" in found) is reported


def test_the_text_of_an_error_is_no_finding() -> None:
    body = "if x.ndim == 2: return x\nmessage = f'no {x}'\nraise ValueError(message)"
    assert "sync.format" not in forward(body)
    assert "sync.format" in forward("message = f'no {x}'\nreturn message")


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("init_hidden", True),
        ("initialize_state", True),
        ("setting", True),
    ],
)
def test_functions_that_set_up_by_their_names_are_no_cost_of_each_call(
    name: str, reported: bool
) -> None:
    source = "import torch\nclass M(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += (
        f"        return self.{name}(x)\n    def {name}(self, x):\n        return x.tolist()\n"
    )
    assert (kinds(source) == ["sync.tolist"]) is reported
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [each.kind for each in confirmed(linked, facts["m"])] == ["sync.tolist"]


@pytest.mark.parametrize(
    ("given", "codes"), [("", ["PG508"]), ("True", ["PG508"]), ("False", []), ("flag", [])]
)
def test_gradients_that_may_be_turned_off(given: str, codes: list[str]) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def forward(self, x: torch.Tensor, flag=False):
        y = x.detach().requires_grad_({given})
        return y * 2
"""
    assert [f.code for f in lint_text(source)] == codes


@pytest.mark.parametrize(("matrix", "codes"), [("x.cpu()", ["PG204"]), ("x", ["PG408"])])
def test_a_check_of_the_host_waits_for_no_device(matrix: str, codes: list[str]) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.linalg.inv({matrix})
"""
    assert [f.code for f in lint_text(source)] == codes


@pytest.mark.parametrize(("name", "codes"), [("backward", []), ("retraced", ["PG508"])])
def test_gradients_inside_of_a_backward(name: str, codes: list[str]) -> None:
    source = f"""{HEAD}
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Doubled.{name}(ctx, x)
    @staticmethod
    def {name}(ctx, grad: torch.Tensor):
        return grad.detach().requires_grad_() * 2
class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return Doubled.apply(x)
"""
    assert [f.code for f in lint_text(source)] == codes


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ("x, mask", ["PG301"]),
        ("x, mask=mask", ["PG301"]),
        ("x, mask, is_causal=False", []),
        ("x", []),
        ("x, None", []),
        ("x, src_key_padding_mask=mask", []),
    ],
)
def test_an_encoder_that_looks_whether_its_mask_is_causal(given: str, codes: list[str]) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1)
    def forward(self, x: torch.Tensor, mask: torch.Tensor):
        return self.encoder({given})
"""
    assert [f.code for f in lint_text(source)] == codes


@pytest.mark.parametrize(
    ("made", "codes"), [("torch.Tensor(n, m)", ["PG102"]), ("torch.Tensor(rows)", ["PG104"])]
)
def test_an_old_constructor_with_several_arguments_gets_sizes(made: str, codes: list[str]) -> None:
    source = f"""{HEAD}
class M(nn.Module):
    def forward(self, x: torch.Tensor, n, m, rows):
        return x + {made}
"""
    assert [f.code for f in lint_text(source)] == codes
