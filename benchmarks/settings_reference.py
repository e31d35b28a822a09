"""Write the table of docs/reference/settings.md from the declarations that check settings."""

from __future__ import annotations

import re
from pathlib import Path

from pygraph_lint.files.settings import DECLARED, EXTEND, default_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"
_TABLE = re.compile(r"(?<=`make docs-settings` -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)


def reference() -> str:
    """The table of settings for the documentation."""
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    for key, declared in DECLARED.items():
        rows.append(f"| `{key}` | {default_of(key)} | {declared.metadata['meaning']} |")
    rows.append(
        f"| `{EXTEND}` | none | another settings file, relative to this one; its values hold where "
        "this one says nothing |"
    )
    return "\n".join(rows) + "\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda _: reference(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
