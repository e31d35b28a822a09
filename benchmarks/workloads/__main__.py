"""``python -m benchmarks.workloads`` is ``python -m benchmarks.workloads.run``."""

from benchmarks.workloads.run import main

raise SystemExit(main())
