"""Check every link, image and anchor of a built site, without a network.

Exit code 1 where a target is missing; each is printed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Collects what a page points to, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.images_without_text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        for key in ("id", "name"):
            if found.get(key):
                self.anchors.add(str(found[key]))
        wanted = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        target = found.get(wanted) if wanted else None
        if target:
            self.targets.append(target)
        if tag == "img" and not (found.get("alt") or "").strip():
            self.images_without_text.append(str(found.get("src")))


def main(folder: Path) -> int:
    """Print what is missing; the exit code."""
    pages: dict[Path, _Page] = {}
    for path in sorted(folder.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
        pages[path.resolve()] = page
    problems = []
    checked = 0
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute: it is shown at any address
            continue
        where = path.relative_to(folder.resolve())
        problems += [f"{where}: an image without text: {src}" for src in page.images_without_text]
        for target in page.targets:
            checked += 1
            if not _exists(target, path, pages):
                problems.append(f"{where}: {target}")
    print("\n".join(problems) or f"{checked} links of {len(pages)} pages have their targets")
    return 1 if problems else 0


def _exists(target: str, source: Path, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:  # other sites
        return True
    path = (source.parent / unquote(parts.path)).resolve() if parts.path else source
    if path.is_dir():
        path /= "index.html"
    if not path.exists():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or path not in pages or anchor in pages[path].anchors


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
