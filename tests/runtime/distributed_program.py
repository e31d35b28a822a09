"""One rank of a row of benchmarks.distributed, with graphs on the GPU made of CPU memory.

Takes what `benchmarks.distributed.worker` takes. The row that PYGRAPH_THEN names comes after it in
the same process.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch
import torch.distributed as distributed

from benchmarks.distributed import right, speed, worker
from tests.runtime import inductor_on_software_gpu
from tests.runtime.inductor_on_software_gpu import FALLBACK, OPTIONS
from tests.runtime.leaving import leave

MODES = right.Modes({"options": FALLBACK}, {"backend": "pygraph", "options": OPTIONS})


def main(arguments: list[str]) -> None:
    """Run the row, and end as its rank ends."""
    torch._inductor.config.force_disable_caches = True
    inductor_on_software_gpu.install(pytest.MonkeyPatch())
    worker.FAULT_TIMEOUT_S = 600  # a rank may compile while the machine is busy
    speed.MODES["default"], speed.MODES["pygraph"] = map(dict, MODES)
    # A checkpoint of this operator of the CPU is one of higher order, which is no kernel here.
    torch.backends.cuda.enable_flash_sdp(False)
    then, folder = os.environ.get("PYGRAPH_THEN"), arguments[arguments.index("--out") + 1]
    for row in ([], *([["--row", then, "--out", f"{folder}/then"]] if then else [])):
        if worker.main([*arguments, *row], MODES):
            os._exit(1)
    store = distributed.distributed_c10d._get_default_store()
    leave(store, distributed.get_rank(), distributed.get_world_size())
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
