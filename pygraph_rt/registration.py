"""The name `backend="pygraph"`: known through the package's entry point, or, in a source tree
that is not installed, through Dynamo's table of backends.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "torch_dynamo_backends"
ENTRY = EntryPoint("pygraph", "pygraph_rt.backend:pygraph", GROUP)


def make_known() -> None:
    """Let Dynamo find the backend by name.

    Dynamo loads and registers an entry of its table when the name is first used; registering the
    function here would make the entry point's own loading fail as a duplicate.
    """
    if any(found.name == ENTRY.name for found in entry_points(group=GROUP)):
        return
    from torch._dynamo.backends import registry

    registry._BACKENDS.setdefault(ENTRY.name, ENTRY)
