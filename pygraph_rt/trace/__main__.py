"""`python -m pygraph_rt.trace`: run a program and write what happened to trace.json."""

from __future__ import annotations

import sys

from pygraph_rt.trace.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
