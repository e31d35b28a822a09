"""``python -m pygraph_lint``."""

from pygraph_lint.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
