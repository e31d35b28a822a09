"""``pygraph-lint server``: the editor server, over stdin and stdout."""

from __future__ import annotations

import importlib.util

from pygraph_lint.errors import SettingsError


def server() -> int:
    """Serve until the editor ends it. Raises SettingsError where the extra is not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("pygls", "lsprotocol")):
        raise SettingsError(
            "the editor server needs pygls and lsprotocol: pip install 'pygraph-lint[server]'"
        )
    from pygraph_lint.server.features import server as made

    made().start_io()
    return 0
