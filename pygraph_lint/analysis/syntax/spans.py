"""Where a node is in the text of its file."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """A source range as ``ast`` gives it: 1-based lines, 0-based columns in UTF-8 bytes, end
    exclusive.
    """

    line: int
    column: int
    end_line: int
    end_column: int
