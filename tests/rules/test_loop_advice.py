"""What the linter advises in training loops fits what is read or copied there."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LOOP = """
import torch


def train(model: torch.nn.Module, loader, device, n):
    model.train()
    for step, x in enumerate(loader):
        out = model(x)
        out.sum().backward()
{line}
"""


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("PG701", "total = out.sum().item()", "total += loss.detach()"),
        ("PG701", "rows = out[out > 0]", "torch.where(mask"),
        ("PG701", "rows = out[: out.argmax()]", "Take the bound"),
        ("PG703", "if out.sum() > 0: print(step)", "every N steps"),
        ("PG703", "while out.sum() > 0: out = model(out)", "a fixed number of turns"),
        ("PG704", "where = torch.tensor(step, device=device)", "torch.full("),
        ("PG704", "where = torch.as_tensor(n, device=device)", "pin_memory()"),
        ("PG704", "rows = out[[0, 2]]", "Make the indices on the device"),
    ],
)
def test_advice_fits_what_the_loop_reads(code: str, line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(LOOP.format(line=textwrap.indent(line, " " * 8)))
    options = ["check", "--no-cache", "--select", code, "--output-format", "json", str(path)]
    command = [sys.executable, "-m", "pygraph_lint", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (found,) = json.loads(done.stdout)
    assert said in found["by_hand"]


ATTACK = """
import torch


class Attack:
    def __init__(self, model):
        self.model = model.cuda()

    def forward(self, images: torch.Tensor, steps):
        for _ in range(steps):
            cost = self.model(images).mean()
            cost.backward()
            images = images + images.grad
            if cost.item() > 1:
                break
        return images
"""


COPY = """
import torch


class Net(torch.nn.Module):
    def forward(self, x, device):
        x = torch.Tensor(x).to(device)
        mask = torch.zeros(x.shape).to(x.device)
        return x.mean() + mask.sum().item()


def train(loader, optimizer, device):
    net = Net().to(device)
    for x in loader:
        net(x, device).backward()
        optimizer.step()
"""


def test_a_model_that_a_training_loop_calls_copies_on_each_step(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(COPY)
    options = ["check", "--no-cache", "--output-format", "json", str(tmp_path)]
    command = [sys.executable, "-m", "pygraph_lint", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [(each["location"]["row"], each["code"]) for each in json.loads(done.stdout)]
    assert found == [(7, "PG704"), (8, "PG101"), (9, "PG201")]


@pytest.mark.parametrize(("regions", "expected"), [("all", "PG201"), ("forward", "PG701")])
def test_what_may_be_compiled_is_no_training_loop(
    regions: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(ATTACK)
    options = ["check", "--no-cache", "--regions", regions, "--output-format", "json"]
    command = [sys.executable, "-m", "pygraph_lint", *options, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    codes = [each["code"] for each in json.loads(done.stdout) if each["location"]["row"] == 14]
    assert codes == [expected]
