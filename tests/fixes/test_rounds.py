"""How many rounds fixing takes: what does not wait for another fix is made together with it."""

from __future__ import annotations

import textwrap
from pathlib import Path

from pygraph_lint.fixes import loop
from pygraph_lint.rules.catalogue import load
from pygraph_lint.runner import Runner

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


def _fixed(folder: Path, files: dict[str, str]) -> loop.Fixed:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    runner = Runner(load(), {"regions": "all"}, isolated=True)
    return loop.fix_files(runner, runner.collect([str(folder)]), True)


def test_a_draw_is_changed_beside_a_branch_on_another_draw(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"model": DRAWS})
    made = [fix.rewrite for _, fix in fixed.applied]
    assert set(made[:2]) == {"host_random", "random_skip"}
    assert len(fixed.rounds) == 2


def test_each_round_says_which_files_it_tried(tmp_path: Path) -> None:
    fixed = _fixed(tmp_path, {"inner": INNER, "outer": OUTER})
    assert {path.stem for path in fixed.rounds[0]} == {"inner", "outer"}
    assert set(fixed.after) <= {path for paths in fixed.rounds for path in paths}
