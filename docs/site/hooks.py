"""What MkDocs runs: adds the generated pages, the result files that pages name, and the links
between them.

Pages link to files of the repository as one reads them there (``../../benchmarks/results/a.json``,
``../../rules/PG301.md``). `on_page_markdown` turns such a link into one to the copy in the site; a
link that has none stays, and strict mode reports it.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import command_line  # noqa: E402
import rule_pages  # noqa: E402

# Pages of the repository that are not under docs/, and where the site has them.
_ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "internals/contributing.md",
    "rules": "reference/rules/index.md",
    "pygraph_rt/trace/trace.schema.json": "reference/schemas/trace.schema.json",
}
_RESULTS = "benchmarks/results/"
_RULE = re.compile(r"rules/(PG\d{3})\.md")
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_SEARCH = re.compile(r"((?:\.\./)*|/)(assets/javascripts/workers/search\.\w+\.min\.js)")
_DIALOG = 'component="search" role="dialog" aria-label="Search"'
_FENCE = re.compile(r"^\s*(```|~~~)")


def on_config(config: Any) -> Any:
    """Leave pages that do not exist out of the navigation, and add guides that it does not name."""
    folder = Path(config.docs_dir)
    config.nav[:] = [_present(folder, entry) for entry in config.nav if _exists(folder, entry)]
    guides = next(one["How-to"] for one in config.nav if "How-to" in one)
    named = {_path(entry) for entry in guides}
    found = sorted(f"how-to/{page.name}" for page in (folder / "how-to").glob("*.md"))
    guides += [page for page in found if page not in named]
    return config


def _present(folder: Path, entry: Any) -> Any:
    """An entry of the navigation without the pages that do not exist; rules in their groups."""
    if _path(entry) == "reference/rules/index.md":
        return {"Rules": ["reference/rules/index.md", *rule_pages.navigation()]}
    if isinstance(entry, dict):
        for title, below in entry.items():
            if isinstance(below, list):
                return {title: [_present(folder, one) for one in below if _exists(folder, one)]}
    return entry


def _path(entry: Any) -> Any:
    return next(iter(entry.values())) if isinstance(entry, dict) else entry


def _exists(folder: Path, entry: Any) -> bool:
    path = _path(entry)
    return isinstance(path, list) or path in _generated() or (folder / path).exists()


def _generated() -> dict[str, Callable[[], str]]:
    """What is not a file of docs/, by its place in the site."""
    pages = rule_pages.pages()
    for source, place in _ELSEWHERE.items():
        if source.endswith((".md", ".json")):
            pages[place] = (ROOT / source).read_text
    return pages


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and the result files and programs that a page links to."""
    for place, content in _generated().items():
        files.append(File.generated(config, place, content=content()))
    copied: dict[str, str] = {}
    for file in list(files.documentation_pages()):
        folder = posixpath.dirname(_source_of(file.src_uri))
        for match in _LINK.finditer(file.content_string):
            source = posixpath.normpath(posixpath.join(folder, match[2]))
            place = _place_of(source) or ""
            if place.startswith(("results/", "source/")):
                copied[place] = source
    for place, source in sorted(copied.items()):
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links that leave docs/ to the site's copy of their target, and add the command line's
    options.
    """
    here = page.file.src_uri
    if here == "reference/command-line.md":
        markdown += f"\n{command_line.options()}"
    folder = posixpath.dirname(_source_of(here))

    def moved(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        place = _place_of(posixpath.normpath(posixpath.join(folder, target)))
        if place is None:
            return match[0]
        return match[1] + posixpath.relpath(place, posixpath.dirname(here) or ".") + match[3]

    inside = False
    lines = []
    for line in markdown.splitlines(keepends=True):
        if _FENCE.match(line):
            inside = not inside
        lines.append(line if inside else _LINK.sub(moved, line))
    return "".join(lines)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Have the search leave out words that say nothing (assets/search_worker.js), and name its
    dialog for screen readers.
    """
    output = output.replace('component="search" role="dialog"', _DIALOG)
    return _SEARCH.sub(r"\1site/assets/search_worker.js?of=../../\2", output)


def _source_of(place: str) -> str:
    """The file in the repository that a page of the site comes from."""
    for source, copied in _ELSEWHERE.items():
        if copied == place and source.endswith(".md"):
            return source
    return f"docs/{place}"


def _place_of(source: str) -> str | None:
    """Where the site has a file of the repository; None where it does not."""
    rule = _RULE.fullmatch(source)
    if rule:
        return f"reference/rules/{rule[1]}.md"
    if source.startswith(_RESULTS) and (ROOT / source).exists():
        return f"results/{posixpath.basename(source)}"
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    if source in _ELSEWHERE:
        return _ELSEWHERE[source]
    # Programs and settings that a guide shows.
    inside = not source.startswith("..") and (ROOT / source).is_file()
    return f"source/{source}" if inside and source.endswith((".py", ".toml", ".yml")) else None
