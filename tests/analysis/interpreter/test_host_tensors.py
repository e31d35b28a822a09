"""Tensors made on the host that only the host reads."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, forward, project
from tests.rules.conftest import lint_text

HEAD = """
import torch
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, p: float, others):
"""


def waits(body: str) -> dict[str, bool]:
    """Whether the host may wait, by kind of event."""
    source = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    linked, facts = project(m=source)
    return {event.kind: event.waits for event in confirmed(linked, facts["m"])}


@pytest.mark.parametrize(
    "body",
    [
        "return x.sum(torch.arange(2, x.ndim).tolist())",
        "return x if torch.rand(1) < p else x + 1",
        "return x[: int(torch.randint(5, (1,)))]",
        "return x * float(torch.arange(3).sum() / 2)",
    ],
)
def test_what_only_the_host_reads_is_not_reported(body: str) -> None:
    assert "host.factory" not in waits(body)


@pytest.mark.parametrize(
    "body",
    [
        "order = torch.randperm(4)\nreturn [others[i] for i in order.tolist()]",
        "r = torch.randint(5, (1,))\nreturn x[int(r - 2) : int(torch.clamp(r + p, max=9))]",
        "chance = torch.rand([])\nreturn x if chance < p else x + 1",
        "chance = torch.rand([])\nreturn x if chance < self.drop else x + 1",
        "tops = torch.randint(0, 9, (3,))\nfor part, top in zip(x, tops):\n"
        "    x = x + part[top : top + 2]\nreturn x",
    ],
)
def test_a_graph_does_not_repeat_a_draw_that_only_the_host_reads(body: str) -> None:
    assert waits(body)["host.factory"] is False
    source = HEAD + "".join(f"        {line}\n" for line in body.splitlines())
    (found,) = (each for each in lint_text(source) if each.code == "PG102")
    assert (found.consequences["cudagraph"], found.consequences["sync"]) == ("stale", "no")


def test_what_meets_the_device_too_waits() -> None:
    seen = waits("steps = torch.arange(4)\nnames = steps.tolist()\nreturn x[steps]")
    assert seen["host.factory"] is True


def test_what_is_made_on_the_device_and_read_waits() -> None:
    assert waits("k = torch.tensor([1, 2], device=x.device)\nreturn x[: int(k.sum())]") == {
        "host.data-tensor": True,
        "sync.number": True,
    }


@pytest.mark.parametrize("value", ["p", "2.5", "x.shape[0]", "p / x.shape[-1]"])
def test_a_number_that_is_filled_on_the_device_is_no_copy(value: str) -> None:
    assert waits(f"return x * torch.scalar_tensor({value}, device=x.device)") == {}
    assert waits(f"return x * torch.scalar_tensor({value})") == {"host.scalar-tensor": True}


def test_a_host_tensor_meets_what_may_be_a_number() -> None:
    branch = "if torch.zeros({}) > others: x = x + 1\nreturn x"
    assert waits(branch.format("1"))["branch.if"] is False
    assert waits(branch.format("()"))["branch.if"] is True  # a number meets any device
    assert waits("if torch.zeros(1) + x > others: x = x + 1\nreturn x")["branch.if"] is True


@pytest.mark.parametrize(
    ("test", "copied"),
    [
        ("x.is_mps", False),
        ("x.is_xpu or x.is_xla", False),
        ("'mps' in x.device.type", False),
        ("'cuda' in x.device.type", True),
        ("not x.is_mps", True),
        ("x.is_contiguous()", True),
    ],
)
def test_what_other_devices_do_is_not_looked_at(test: str, copied: bool) -> None:
    assert ("sync.copy" in waits(f"if {test}:\n    x = x.cpu()\nreturn x + 1")) == copied


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x * torch.tensor(others)", {"host.scalar-tensor": True}),
        (
            "low = torch.tensor(others)\nreturn torch.max(low, x) - low",
            {"host.scalar-tensor": True},
        ),
        (
            "low, high = torch.tensor(others), 2\nlow = torch.tensor(others)\n"
            "return x.clamp(min=1) / (1 - low)",
            {"host.scalar-tensor": True, "host.data-tensor": True},
        ),
        ("low = torch.tensor(others)\nreturn x + low, low", {"host.data-tensor": True}),
        ("low = torch.tensor(others)\nreturn x[low] + low", {"host.data-tensor": True}),
        ("return x + torch.tensor(others, device=x.device)", {"host.data-tensor": True}),
        ("return x + torch.tensor([1.0, 2.0])", {}),
        ("return torch.where(x > 0, x, torch.tensor(others))", {"host.data-tensor": True}),
    ],
)
def test_what_is_calculated_with_a_tensor_of_the_device_is_one_number(
    body: str, expected: dict[str, bool]
) -> None:
    assert waits(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "k = torch.randint(0, 5, (1,)).item()\nreturn x[k:] + k",
        "ks = torch.randperm(4).tolist()\nreturn x[ks[0] :] + ks[1]",
    ],
)
def test_a_number_that_is_read_at_once_is_no_tensor_of_the_host(body: str) -> None:
    assert "host.factory" not in waits(body)


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("torch.tensor(others)\nreturn x", False),
        ("torch.tensor(others, device=x.device)\nreturn x", True),
        ("torch.zeros(3).add_(x)\nreturn x", True),
        ("y = torch.tensor(others)\nreturn y", False),
    ],
)
def test_what_nothing_gets_is_copied_nowhere(body: str, made: bool) -> None:
    assert bool(waits(body)) is made


@pytest.mark.parametrize(
    ("device", "waits"), [("CPU", False), ("devices.CPU", False), ("HOST", True)]
)
def test_a_constant_called_cpu_is_the_host(device: str, waits: bool) -> None:
    source = f"""
import torch
from torch import nn
import devices
from devices import CPU, HOST

class M(nn.Module):
    def forward(self, x: torch.Tensor):
        drawn = torch.rand(3, device={device})
        return x if float(drawn[0]) > 0.5 else -x
"""
    (found,) = [finding for finding in lint_text(source) if finding.code == "PG202"]
    assert (found.consequences["sync"] == "yes") is waits


@pytest.mark.parametrize("device", ["", ", device=x.device"])
def test_the_value_that_fills_a_tensor_is_read_on_the_host(device: str) -> None:
    body = "least = torch.tensor(torch.finfo(x.dtype).min)\n"
    body += f"mask = torch.full((3, 3), least{device})\nreturn x + mask.to(x.device)"
    assert not {"host.scalar-tensor", "host.data-tensor"} & set(waits(body))


@pytest.mark.parametrize(("device", "reported"), [("", False), (", device=x.device", True)])
def test_what_is_written_to_a_tensor_of_the_host_is_not_copied(device: str, reported: bool) -> None:
    body = (
        f"g = torch.zeros(3, 2{device})\nfor i in range(3):\n    g[i] = torch.as_tensor([i, 2])\n"
    )
    found = forward(body + "return x[g.to(x.device)]")
    assert ("host.data-tensor" in found) is reported


@pytest.mark.parametrize(("given", "copied"), [("devices", False), ('["cpu"]', True)])
def test_one_of_several_lists_of_devices_says_nothing(given: str, copied: bool) -> None:
    init = f'self.devices = ["cpu"] if devices is None else {given}'
    source = f"""
import torch
class M(torch.nn.Module):
    def __init__(self, devices=None):
        super().__init__()
        {init}
    def forward(self, x: torch.Tensor):
        j = 0
        return x.to(self.devices[j]) + 1
"""
    assert ("PG204" in {each.code for each in lint_text(source)}) is copied


@pytest.mark.parametrize(
    ("made", "sync", "cudagraph"),
    [
        ("torch.tensor([p, p])", "no", "stale"),
        ("torch.tensor([1.0, 2.0])", "no", "ok"),
        ("torch.tensor([p, p], device=x.device)", "yes", "not capturable"),
        ("torch.tensor([p, p]).to(x.device)", "yes", "not capturable"),
    ],
)
def test_data_that_stays_on_the_host_waits_for_nothing(
    made: str, sync: str, cudagraph: str
) -> None:
    source = f"""
import torch
from elsewhere import scaled
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, p: float):
        return scaled(x, {made})
"""
    (found,) = [each for each in lint_text(source, regions="all") if each.code == "PG104"]
    assert (found.consequences["sync"], found.consequences["cudagraph"]) == (sync, cudagraph)


@pytest.mark.parametrize("parameter", ["d", "d: torch.Tensor"])
@pytest.mark.parametrize(("kind", "copied"), [("d.type()", False), ("torch.float64", True)])
def test_what_is_made_of_the_type_of_another_is_where_that_is(
    parameter: str, kind: str, copied: bool
) -> None:
    made = f"""
import torch
def diagonal({parameter}):
    kind = {kind}
    made = torch.zeros(3, 3).type(kind)
    made[0] = d
    return made
"""
    step = """
import torch
from made import diagonal
class M(torch.nn.Module):
    def forward(self, q, d):
        q = q.clone()
        q[diagonal(d).bool()] += 1e-8
        return q
"""
    linked, facts = project(made=made, step=step)
    found = [event.kind for event in confirmed(linked, facts["step"])]
    assert "shape.mask-read" in found
    assert ("host.moved" in found) is copied
