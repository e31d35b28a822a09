"""Tensors of the host that come from elsewhere: passed in, returned, held by an object."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project
from tests.rules.conftest import lint_text

HEAD = """
import torch
from torch import nn
from scipy.optimize import linear_sum_assignment
"""
MATCHER = """
class Matcher(nn.Module):
    def forward(self, cost, sizes):
        found = [linear_sum_assignment(c) for c in cost.cpu().split(sizes, -1)]
        return [(torch.as_tensor(i), torch.as_tensor(j)) for i, j in found]
"""


def moved(source: str, every: bool = False) -> list[str]:
    """What copies host tensors to the device in a one-file program."""
    linked, facts = project(RegionOptions(every=every), m=HEAD + source)
    events = confirmed(linked, facts["m"])
    return [event.subject for event in events if event.kind == "host.moved"]


CRITERION = """
class Criterion(nn.Module):
    def __init__(self, matcher):
        super().__init__()
        self.matcher = matcher

    def _permutation(self, indices):
        batch = torch.cat([torch.full_like(src, i) for i, (src, _) in enumerate(indices)])
        return batch, torch.cat([src for (src, _) in indices])

    def loss_boxes(self, boxes, targets, indices):
        idx = self._permutation(indices)
        wanted = torch.cat([t["boxes"][i] for t, (_, i) in zip(targets, indices)])
        return (boxes[idx] - wanted).abs().sum()

    def loss_labels(self, boxes, targets, indices):
        classes = torch.full(boxes.shape[:2], 0, device=boxes.device)
        classes[self._permutation(indices)] = torch.cat([t["labels"] for t in targets])
        return classes

    def get_loss(self, name, boxes, targets, indices):
        return {"boxes": self.loss_boxes, "labels": self.loss_labels}[name](boxes, targets, indices)

    def forward(self, boxes: torch.Tensor, targets):
        indices = self.matcher(boxes, [len(t["boxes"]) for t in targets])
        return [self.get_loss(n, boxes, targets, indices) for n in ("boxes", "labels")]


def build():
    return Criterion(Matcher())
"""


def test_indices_that_a_solver_gave_are_copied_where_they_index() -> None:
    found = moved(MATCHER + CRITERION)
    assert found == [
        "t['boxes'][i]",
        "boxes[idx]",
        "classes[self._permutation(indices)]",
    ]


def test_indices_that_are_on_the_device_are_not_copied() -> None:
    on_device = MATCHER.replace("as_tensor(i)", "as_tensor(i, device=cost.device)")
    on_device = on_device.replace("as_tensor(j)", "as_tensor(j, device=cost.device)")
    assert moved(on_device + CRITERION) == []


def test_nothing_is_known_of_a_matcher_that_nobody_passes() -> None:
    assert moved(CRITERION.partition("def build")[0]) == []


PICK = """
def pick(x, order):
    return x[order]

class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return pick({x}, {order})
"""


def test_an_argument_made_on_the_host_is_copied_by_the_callee() -> None:
    assert moved(PICK.format(x="x", order="torch.randperm(3)")) == ["x[order]"]


def test_an_argument_of_the_device_or_a_number_is_not() -> None:
    assert moved(PICK.format(x="x", order="torch.randperm(3, device=x.device)")) == []
    assert moved(PICK.format(x="x", order="x.argsort()")) == []
    assert moved(PICK.format(x="x", order="2")) == []


def test_host_tensors_that_index_each_other_stay_there() -> None:
    assert moved(PICK.format(x="torch.zeros(3)", order="torch.randperm(3)")) == []


@pytest.mark.parametrize(
    ("mask", "expected"), [("t.abs() < 1", []), ("torch.abs(t) < 1", []), ("other < 1", ["t[s]"])]
)
def test_a_mask_of_a_host_tensor_is_on_the_host(mask: str, expected: list[str]) -> None:
    source = f"""
def pick(t, other):
    s = {mask}
    return t[s]

class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return pick({"x" if "other" in mask else "torch.arange(3)"}, torch.zeros(3)).sum()
"""
    assert [subject for subject in moved(source) if subject == "t[s]"] == expected


def test_a_result_of_operations_stays_where_their_operand_is() -> None:
    source = """
    def later(t):
        return (t.float() * 2).clamp(min=0)[1:]

    def place(x, t):
        return later(t).to(x.device)

    class M(nn.Module):
        def forward(self, x: torch.Tensor):
            return x + place(x, {t})
    """
    text = source.replace("\n    ", "\n")
    assert moved(text.format(t="torch.arange(3)")) == ["later(t).to(x.device)"]
    assert moved(text.format(t="torch.arange(3).to(x.device)")) == []
    assert moved(text.format(t="x")) == []


def test_what_is_moved_first_is_on_the_device() -> None:
    source = """
def pick(x, order):
    order = order.to(x.device)
    return x[order]

class M(nn.Module):
    def forward(self, x: torch.Tensor):
        return pick(x, torch.randperm(3))
"""
    assert moved(source) == []


@pytest.mark.parametrize(
    ("default", "call", "found"),
    [
        ("torch.linspace(0, 1, 5, device='cuda')", "", []),
        ("None", "", []),
        ("torch.tensor([0.0, 1.0])", "def g(x: torch.Tensor):\n    return _f(x, x)\n", []),
        (
            "None",
            "def g(x: torch.Tensor):\n    return _f(x, torch.ones(3))\n",
            ["times.to(x.device)"],
        ),
    ],
)
def test_a_host_tensor_is_passed_or_the_default(default: str, call: str, found: list[str]) -> None:
    name = "_f" if call else "f"
    source = f"def {name}(x: torch.Tensor, times: torch.Tensor = {default}):\n"
    source += "    times = times.to(x.device)\n    return x * times\n"
    assert moved(source + call, every=True) == found


CENTERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = {kept}

    def forward(self, x: torch.Tensor):
        return x[..., : self.count(8, {thres})]

    def count(self, n: int, thres=0.5):
        return ({bins} < thres).sum()


def centers(n: int) -> torch.Tensor:
    edges = torch.linspace(0.0, 1.0, n{device})
    return 0.5 * (edges[1:] + edges[:-1])
"""


@pytest.mark.parametrize(
    ("bins", "kept", "device", "thres", "waits"),
    [
        ("centers(n)", "None", "", "0.5", False),
        ("centers(n)", "None", ", device='cuda'", "0.5", True),
        ("centers(n)[2]", "None", "", "0.5", False),
        ("self.edges", "torch.linspace(0, 1, 5)", "", "0.5", False),
        ("self.edges", "torch.linspace(0, 1, 5).cuda()", "", "0.5", True),
        ("self.edges", "nn.Parameter(torch.ones(3))", "", "0.5", True),
    ],
)
def test_the_value_of_a_tensor_that_stays_on_the_host_waits_for_nothing(
    bins: str, kept: str, device: str, thres: str, waits: bool
) -> None:
    source = CENTERS.format(bins=bins, kept=kept, device=device, thres=thres)
    (found,) = [each for each in lint_text(HEAD + source) if each.code == "PG407"]
    assert found.consequences["compile"] == "break"
    assert found.consequences["sync"] == ("yes" if waits else "no")


@pytest.mark.parametrize(
    ("cut", "claim"),
    [
        ("torch.div(x.shape[1], 2, rounding_mode='trunc')", "ok"),
        ("torch.div(x.shape[1], 2, rounding_mode='trunc') + 1", "ok"),
        ("torch.div(x.shape[1], 2) + torch.randint(0, 2, ())", "stale"),
        ("torch.randint(0, 9, ())", "stale"),
    ],
)
def test_what_is_computed_from_sizes_alone_is_the_same_in_each_replay(cut: str, claim: str) -> None:
    source = f"{HEAD}\nclass M(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    source += f"        cut = {cut}\n        return x[:, :cut]"
    (found,) = [each for each in lint_text(source) if each.code == "PG407"]
    assert (found.consequences["sync"], found.consequences["cudagraph"]) == ("no", claim)


SPLICE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {{}}
    def draw(self, x):
        self.kept["lengths"] = torch.randint(low=1, high=4, size=(3,))
    def forward(self, x: torch.Tensor, longest):
        lengths = self.kept["lengths"]
        length = {length} % 4
        start = torch.randint(0, 9, size={size})
        return x[:, start + length :]
"""


@pytest.mark.parametrize(
    ("length", "size", "waits"),
    [
        ("lengths[0]", "(1,)", False),
        ("longest.max()", "(1,)", True),  # a parameter may be a number
    ],
)
def test_what_is_computed_with_a_tensor_of_the_host_is_on_the_host(
    length: str, size: str, waits: bool
) -> None:
    found = lint_text(HEAD + SPLICE.format(length=length, size=size))
    (read,) = [each for each in found if each.code == "PG407"]
    assert read.consequences["sync"] == ("yes" if waits else "no")


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("torch.tensor([0.0, 1.0])", ["host.moved"]),
        ("torch.tensor([0.0, 1.0], device='cuda')", []),
        ("None", []),
    ],
)
def test_a_default_that_is_a_tensor_of_the_host(default: str, expected: list[str]) -> None:
    source = f"""
        import torch
        def solve(x: torch.Tensor, times: torch.Tensor = {default}):
            return x * times.to(x.device)
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == expected
