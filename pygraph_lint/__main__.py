"""``python -m pygraph_lint``."""

from pygraph_lint.cli import command

if __name__ == "__main__":
    raise SystemExit(command())
