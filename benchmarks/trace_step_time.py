"""Milliseconds a step of a program: the median of its last steps, without a trace.

`python benchmarks/trace_step_time.py FILE STEPS [--calls]`: a step ends with the optimizer's, or,
with --calls, begins with a call of what torch.compile returns.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

LAST = 20


def main() -> None:
    """Run the program's main(STEPS), and print."""
    torch.set_num_threads(1)
    stamps: list[float] = []
    make = torch.compile

    def stamping(*args: Any, **named: Any) -> Any:
        compiled: Any = make(*args, **named)

        @functools.wraps(compiled)
        def call(*args: Any, **named: Any) -> Any:
            stamps.append(time.perf_counter())
            return compiled(*args, **named)

        return call

    if "--calls" in sys.argv:
        torch.compile = stamping
    else:
        register_optimizer_step_post_hook(lambda *_: stamps.append(time.perf_counter()))
    # transformers looks for the module of a class, so the program has to stay in sys.modules.
    program = Path(sys.argv[1])
    sys.path.insert(0, str(program.parent))
    importlib.import_module(program.stem).main(int(sys.argv[2]))
    took = [after - before for before, after in itertools.pairwise(stamps)][-LAST:]
    print(f"ms a step: {statistics.median(took) * 1e3:.3f}")


if __name__ == "__main__":
    main()
