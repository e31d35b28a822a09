"""On two GPUs: the scripts of docs/how-to/distributed.md, under torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.runtime.test_distributed_scripts import NAMES, reports

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_is_served_on_both_ranks(name: str, tmp_path: Path) -> None:
    for report in reports(name, tmp_path, []):
        states = {region["state"] for region in report.regions}
        assert states <= {"serving", "deciding", "no graph"}, report
        assert any(region["served"] for region in report.regions), report
