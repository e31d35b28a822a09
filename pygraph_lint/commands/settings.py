"""``pygraph-lint config [KEY]`` explains settings, ``pygraph-lint clean`` removes the cache."""

from __future__ import annotations

from pathlib import Path

from pygraph_lint.commands.output import write
from pygraph_lint.errors import SettingsError
from pygraph_lint.files import cache
from pygraph_lint.files.cache import default_folder
from pygraph_lint.files.settings import DECLARED, default_of
from pygraph_lint.files.suggest import nearest


def explain(key: str | None) -> int:
    """Print what settings there are, or what one means; the exit code.

    Raises SettingsError for one that does not exist.
    """
    if key is None:
        write("".join(f"{name}\n" for name in DECLARED))
        return 0
    declared = DECLARED.get(key)
    if declared is None:
        near = nearest(key, DECLARED)
        hint = f"did you mean `{near}`?" if near else "`pygraph-lint config` lists them"
        raise SettingsError(f"there is no setting `{key}`; {hint}")
    write(f"{declared.metadata['meaning']}\n\nDefault: {default_of(key)}\n")
    return 0


def clean(folder: Path | None) -> int:
    """Remove the cache, of all projects; the exit code."""
    top = folder or default_folder()
    try:
        found = cache.remove(top)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsError(f"the cache in {top} cannot be removed: {reason}") from None
    write(f"Removed the cache in {top}.\n" if found else f"There is no cache in {top}.\n")
    return 0
