"""How many passes fixing takes, and what waits for what: first functions are left out of compiled
code, and what does not wait for another file is made in one pass; then the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from pygraph_lint.findings import Finding
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import breaks, module_of

DRAWS = """
    import numpy as np
    import torch
    from torch import nn


    class Model(nn.Module):
        def __init__(self, layers: nn.ModuleList, rate: float) -> None:
            super().__init__()
            self.layers = layers
            self.rate = rate

        def forward(self, x: torch.Tensor, synced: bool = False):
            seen = ()
            for layer in self.layers:
                drawn = torch.rand([])
                skipped = self.training and drawn < self.rate
                if not skipped or synced:
                    outputs = layer(x)
                    x = outputs[0]
                if skipped:
                    outputs = (None, None)
                seen = seen + (outputs[1],)
            return x, seen


    class Adapter(nn.Module):
        def __init__(self, layers: nn.ModuleList, rate: float) -> None:
            super().__init__()
            self.layers = layers
            self.rate = rate

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                drawn = np.random.random()
                if not self.training or (drawn > self.rate):
                    x = layer(x)
            return x
    """
INNER = """
    import torch


    def inner(t: torch.Tensor) -> float:
        return t.max().item()
    """
OUTER = """
    import torch
    from inner import inner


    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y):
            z = torch.zeros(3).to(x.device)
            return x.sin().cos().tan().exp() * inner(x) + z
    """

# What calls a function that is left out gets fixed, too.
CHAIN = """
    import torch


    def largest(t: torch.Tensor) -> float:
        found = t.max().item()
        if found > 3:
            return found
        return t.min().item()


    def bounded(t: torch.Tensor) -> float:
        if t.min() < 0:
            raise ValueError("below zero")
        while largest(t) > 3:
            t = t / 2
        return t.sum()


    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = (x.sin() * y.cos() + x.tan()).exp() * (y - 1).abs() + (x + y).sqrt()
            low = bounded(x)
            high = bounded(y)
            return (x * low + y * high).sin() * z.cos() + (x - y).tan() * (z + 1).log()
    """
BASE = """
    import torch


    class Sizes(torch.nn.Module):
        def measure(self, t: torch.Tensor) -> list:
            found = []
            for row in t:
                found.append(row.max().item())
            return found
    """
USER = """
    import torch
    from base import Sizes


    class Model(Sizes):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() * self._scale(x)

        def _scale(self, x: torch.Tensor) -> float:
            if torch.any(x > 9):
                raise ValueError("too large")
            return self.measure(x)[0] + 1.0
    """
SETTINGS = """
    class Settings:
        def __init__(self, rate: float = 0.0) -> None:
            self.rate = rate
    """
LAYERS = """
    import torch
    from settings import Settings
    from torch import nn


    class Model(nn.Module):
        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.rate = settings.rate
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                drawn = torch.rand([])
                if drawn < self.rate:
                    continue
                x = layer(x)
            return x
    """


def _fixed(folder: Path, files: dict[str, str], unsafe: bool = True, **more: Any) -> loop.Fixed:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    runner = Runner(load(), {"regions": "all", **more}, isolated=True)
    return loop.fix_files(runner, runner.collect([str(folder)]), unsafe)


def test_each_pass_says_which_files_it_tried(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"inner": INNER, "outer": OUTER})
    assert {path.stem for path in fixed.passes[0]} == {"inner", "outer"}
    assert set(fixed.after) <= {path for paths in fixed.passes for path in paths}


def test_a_fix_may_rest_on_what_a_class_of_settings_says(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"settings": SETTINGS, "layers": LAYERS}, False, assume_closed=True)
    (text,) = fixed.after.values()
    assert b"if self.rate > 0 and drawn < self.rate:" in text


def test_a_chain_of_fixes_in_one_file_takes_one_pass(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"model": CHAIN})
    made = [fix.rewrite for _, fix in fixed.applied]
    assert made == ["breaking_function", "breaking_function", "breaking_statements"]  # no check
    assert fixed.tries == [[1, 1], [1]]


# A branch, a check and what serves eager code, too, in functions that are left out for other lines.
LEFT_OUT = """
    import torch


    class Noise(torch.nn.Module):
        def __init__(self, noise: torch.Tensor) -> None:
            super().__init__()
            if noise.min() < 0.5:
                noise = noise.clamp_min(0.5)
            self.scale = torch.zeros(3).to(noise.device) + noise.max().item()

        def _covered(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if torch.any(x > 9):
                raise ValueError("too large")
            while x.max() > y.max():
                x = x / 2
            return x

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self._covered(x, y) + self._covered(y, x) * self.scale


    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if torch.any(y > 9):
                raise ValueError("too large")
            return (Noise(x)(x, y) * x.sin() * y.cos() + x.tan()).exp() * (y - 1).abs()
    """


def test_what_is_left_out_gets_no_fix_that_only_serves_compiled_code(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"model": LEFT_OUT})
    (after,) = fixed.after.values()
    lines = textwrap.dedent(LEFT_OUT).splitlines()
    new = [line.strip() for line in after.decode().splitlines() if line not in lines]
    assert new == [
        "@torch.compiler.disable",
        "self.scale = torch.zeros(3, device=noise.device) + noise.max().item()",
        "@torch.compiler.disable(recursive=False)",
        'torch._assert_async(~torch.any(y > 9), "too large")',
    ]


def test_an_assert_that_is_left_out_anyway_keeps_its_condition(tmp_path: Path) -> None:
    text = (
        "import torch\n\n\ndef f(x: torch.Tensor, keep: torch.Tensor, n: int):\n"
        "    assert ASKED (x[x > 0].min() > 1) and (x.max() < n)\n    return x\n"
    )
    (after,) = _fixed(tmp_path, {"model": text.replace("ASKED ", "")}).after.values()
    assert after.decode() == text.replace("ASKED", "torch.compiler.is_compiling() or")


def test_a_file_that_calls_what_another_left_out_is_fixed_in_the_next_pass(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"base": BASE, "user": USER})
    passes = [{path.stem for path in paths} for paths in fixed.passes]
    assert passes == [{"base"}, {"user"}]
    assert b"_assert_async" not in fixed.after[tmp_path / "user.py"]


def test_a_pass_looks_at_the_files_it_tried_and_once_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    check = Runner.check

    def counted(runner: Runner, files: Sequence[Path], *more: Any, **named: Any) -> list[Finding]:
        looked.append(len(files))
        return check(runner, files, *more, **named)

    monkeypatch.setattr(Runner, "check", counted)
    fixed = _fixed(tmp_path, {"model": CHAIN, "other": "import torch\n"})
    assert looked == [2, *(number for tries in fixed.tries for number in (*tries, 2))]


COMBINED = """
    import random

    import torch


    class Model(torch.nn.Module):
        def __init__(self, rate: float = 0.5) -> None:
            super().__init__()
            self.rate = rate
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            {}
            bad = torch.isnan(x)
            {}
            loss = (x - y[rows].to(x.dtype)).abs()
            return {}
    """
# Three sites: the rewrites that change them, and their code.
SITES = [
    (
        {"factory_device", "mask_guard", "masked_write", "masked_reduction"},
        "rows = torch.arange(x.shape[0]).to(x.device)",
        "if bad.any():\n    x[bad] = y[bad] * 2",
        "loss[loss < 3].mean() * torch.ones(2).to(x.device)",
    ),
    (
        {"factory_device", "mask_guard", "guard_assert", "masked_reduction"},
        "rows = torch.arange(x.shape[0]).to(x.device)\n"
        "assert (y.max() > rows.to(y.dtype).min() - 9).item()",
        "if self.training and bad.any():\n    print('nan')\n    x[bad] = 0",
        "torch.sum(loss[loss < 3])",
    ),
    (
        {"host_random", "dropped_layer", "mask_guard", "scalar_fill"},
        "rows = torch.arange(len(x), device=x.device)\ndraw = random.random()\n"
        "if draw > self.rate:\n    x = self.layer(x)",
        "if bad.any():\n    x = torch.where(bad, torch.zeros_like(x), x)",
        "(loss + torch.tensor(0.5, device=x.device)).sum()",
    ),
]


@pytest.mark.parametrize("site", SITES, ids=lambda site: "-".join(sorted(site[0])))
def test_several_rewrites_combine_on_one_site(
    tmp_path: Path, site: tuple[set[str], str, str, str]
) -> None:
    wanted, *parts = site
    indented = (textwrap.indent(part, " " * 8).strip() for part in parts)
    before = textwrap.dedent(COMBINED).format(*indented)
    fixed = _fixed(tmp_path, {"model.py": before})
    assert {fix.rewrite for _, fix in fixed.applied} == wanted
    (after,) = fixed.after.values()
    old, new = (module_of(text).Model() for text in (before, after.decode()))
    new.load_state_dict(old.state_dict())
    for values in ([1.0, 2.0, 3.0], [float("nan"), 2.0, 3.0]):
        x, y = torch.tensor([values] * 3), torch.arange(9.0).reshape(3, 3)
        if "host_random" not in wanted:
            torch.testing.assert_close(old(x.clone(), y), new(x.clone(), y), equal_nan=True)
    assert breaks(old, (x, y)) > breaks(new, (x, y)) == 0
