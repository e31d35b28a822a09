"""Links of Markdown files lead to files and headings of the repository, as one reads it there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r'\]\(([^)\s]+)\)|<(?:img|source)[^>]+(?:src|srcset)="([^"]+)"')


def _pages() -> list[Path]:
    folders = [ROOT / "docs", ROOT / "packaging", ROOT / "rules"]
    found = [page for folder in folders for page in folder.rglob("*.md")]
    return sorted([*found, *ROOT.glob("*.md")])


def _anchor(heading: str) -> str:
    """The anchor that a heading gets, on the site and where repositories are shown."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())


def _anchors(page: Path) -> set[str]:
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    return {_anchor(title) for title in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("page", _pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_have_their_targets(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "`", _FENCED.sub("", page.read_text(encoding="utf-8")))
    for pair in _LINK.findall(text):
        target = pair[0] or pair[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} leads nowhere"
        if anchor and found.suffix == ".md" and not anchor.startswith(("pygraph_rt", "gh-")):
            assert anchor in _anchors(found), f"{target}: there is no such heading"


@pytest.mark.parametrize("name", ["lint", "rt"])
def test_a_readme_for_a_package_index_has_no_relative_link(name: str) -> None:
    text = (ROOT / "packaging" / name / "README.md").read_text(encoding="utf-8")
    assert not [pair for pair in _LINK.findall(text) if not re.match("https?://", "".join(pair))]


def test_result_files_that_pages_name_exist() -> None:
    for page in _pages():
        for name in re.findall(r"benchmarks/results/([\w*]+\.json)", page.read_text("utf-8")):
            assert list((ROOT / "benchmarks" / "results").glob(name)), f"{page}: {name}"


def test_no_page_names_a_folder_of_a_machine() -> None:
    done = subprocess.run(
        ["git", "grep", "-lE", r"/(home|Users)/[a-z]+/(?!project)", "--", "docs", "rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 128)
    if done.returncode == 0:
        texts = "".join((ROOT / name).read_text("utf-8") for name in done.stdout.split())
        assert set(re.findall(r"/home/(\w+)/", texts)) <= {"user"}


def test_anchors_are_made_as_the_site_makes_them() -> None:
    assert _anchor("Same numbers as `default` mode") == "same-numbers-as-default-mode"
    assert _anchor('"CUDA error: a.b (8)"') == "cuda-error-ab-8"
