"""What may stand before a partition."""

from __future__ import annotations

from typing import Any, Protocol


class Watcher(Protocol):
    """Stands before a partition during a trial. deciding: whether that is under way."""

    deciding: bool

    def call(self, partition: Any, args: list[Any]) -> Any:
        """Run `partition(args, False)`, and take note of it."""
