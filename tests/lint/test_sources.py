"""Reading, writing, walking and naming of files."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pygraph_lint.errors import SourceError
from pygraph_lint.files.modules import (
    Roots,
    beside,
    imported_words,
    module_name,
    places,
    relevant,
)
from pygraph_lint.files.settings import Resolver
from pygraph_lint.files.sources import decode, split_lines, write_atomically
from pygraph_lint.files.walk import files_below, files_of_root
from tests.lint.support import CLEAN, FIXABLE, FIXED, SYNCS, Lint

# --- encodings and line ends ---


@pytest.mark.parametrize(
    "data",
    [
        b"x = 1\n",
        codecs.BOM_UTF8 + b"x = 1\r\ny = '\xc3\xa4'\r\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe4'\n",
        b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
        b"x = 1\ry = 2\r",
        b"x = 1",
        b"",
        b"# coding: euc-jp\nx = '\xb4\xc1\xbb\xfa'\n",
    ],
)
def test_a_file_is_written_as_it_was_read(data: bytes) -> None:
    source = decode(data)
    assert source.encode(source.text) == data


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_utf8_text_survives(text: str) -> None:
    if text.startswith("\ufeff") or "coding" in text:
        return
    data = text.encode()
    source = decode(data)
    assert source.text == text
    assert source.encode(source.text) == data


@given(st.lists(st.text(alphabet="ab \t\x0b\x0c\x1c\x85\u2028"), min_size=1))
def test_lines_are_split_where_python_splits_them(lines: list[str]) -> None:
    for newline in ("\n", "\r\n", "\r"):
        assert split_lines(newline.join(lines)) == lines


@pytest.mark.parametrize(
    ("data", "said", "line", "column"),
    [
        (b"x = 1\ny = '\xff'\n", "is not valid utf-8: byte 0xff", 2, 6),
        (b"# coding: klingon\nx = 1\n", "declares the unknown encoding 'klingon'", 1, 1),
        (b"\n# coding: hex\nx = 1\n", "declares the unknown encoding 'hex'", 2, 1),
        (b"\xff\xfex\x00", "is UTF-16", 1, 1),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "starts with a UTF-8 BOM but", 1, 1),
    ],
)
def test_what_cannot_be_decoded_is_placed(data: bytes, said: str, line: int, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        decode(data)
    assert said in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_coding_line_counts_only_in_the_first_two_lines() -> None:
    assert decode(b"\n\n# coding: latin-1\n").encoding == "utf-8"
    assert decode(b"x = 1\n# coding: latin-1\n").encoding == "utf-8"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
def test_fixing_keeps_line_ends_bom_and_encoding(lint: Lint, newline: str, bom: bytes) -> None:
    head = "" if bom else "# coding: latin-1\n"
    encoding = "utf-8" if bom else "latin-1"

    def file(text: str) -> bytes:
        comment = "# \u00e4\n"
        return bom + (head + comment + text).replace("\n", newline).encode(encoding)

    lint.write({"model.py": file(FIXABLE)})
    assert lint("--fix", "model.py").code == 0
    assert (lint.folder / "model.py").read_bytes() == file(FIXED)


# --- writing ---


def test_writing_keeps_the_mode_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o754)
    write_atomically(path, b"new", b"old")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754
    assert list(tmp_path.iterdir()) == [path]


def test_writing_through_a_link_changes_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "a.py"
    target.write_bytes(b"old")
    link = tmp_path / "link.py"
    link.symlink_to(target)
    write_atomically(link, b"new", b"old")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_and_a_link_to_it_are_both_written(tmp_path: Path) -> None:
    target, link = tmp_path / "a.py", tmp_path / "link.py"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(target, b"new", b"old")
    write_atomically(link, b"new", b"old")
    assert target.read_bytes() == b"new"


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"edited by someone")
    with pytest.raises(SourceError, match="changed while it was being checked"):
        write_atomically(path, b"new", b"old")
    assert path.read_bytes() == b"edited by someone"


# --- walking ---


def _walked(folder: Path) -> list[str]:
    unreadable: list[object] = []
    found = files_below(folder, Resolver(), lambda *given: unreadable.append(given))
    names = [path.relative_to(folder).as_posix() for path in found]
    assert not unreadable
    return names


def _tree(folder: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name, text in contents.items():
        (folder / name).write_text(text)


def test_git_ignored_files_are_left_out(tmp_path: Path) -> None:
    _tree(
        tmp_path,
        ".git/config",
        "a.py",
        "generated/b.py",
        "sub/c_pb2.py",
        "sub/keep_pb2.py",
        "sub/deep/d.py",
        "sub/deep/e.py",
    )
    (tmp_path / ".gitignore").write_text("generated/\n*_pb2.py\n")
    (tmp_path / "sub/.gitignore").write_text("!keep_pb2.py\n/deep/d.py\n")
    assert _walked(tmp_path) == ["a.py", "sub/deep/e.py", "sub/keep_pb2.py"]
    # From inside, the outer files hold as well.
    assert _walked(tmp_path / "sub") == ["deep/e.py", "keep_pb2.py"]
    # A folder that is named is walked even if it is ignored itself.
    assert _walked(tmp_path / "generated") == ["b.py"]


def test_gitignore_can_be_disregarded(lint: Lint) -> None:
    lint.write({".git/config": "", ".gitignore": "*.py\n", "a.py": SYNCS})
    assert lint(".").lines == []
    assert len(lint("--no-respect-gitignore", ".").lines) == 1


def test_default_exclusions_and_environments(tmp_path: Path) -> None:
    _tree(tmp_path, "a.py", ".venv/b.py", "build/c.py", "env/pyvenv.cfg", "env/d.py", "e.txt")
    assert _walked(tmp_path) == ["a.py"]


def test_exclude_options(lint: Lint) -> None:
    lint.write({"a.py": SYNCS, "old/b.py": SYNCS, "build/c.py": SYNCS})

    def files(*arguments: str) -> list[str]:
        return [line.split(":")[0] for line in lint(*arguments).lines]

    assert files(".") == ["a.py", "old/b.py"]
    assert files("--extend-exclude", "old", ".") == ["a.py"]
    assert files("--exclude", "a.py", ".") == ["build/c.py", "old/b.py"]
    assert files("--extend-exclude", "old", "old/b.py") == ["old/b.py"]
    assert files("--extend-exclude", "old", "--force-exclude", "old/b.py") == []


def test_link_circles_and_odd_entries(tmp_path: Path) -> None:
    _tree(tmp_path, "pkg/a.py", "x.py/inner.py")
    (tmp_path / "pkg/again").symlink_to(tmp_path)
    (tmp_path / "linked.py").symlink_to(tmp_path / "pkg")
    (tmp_path / "file_link.py").symlink_to(tmp_path / "pkg/a.py")
    assert _walked(tmp_path) == ["file_link.py", "pkg/a.py", "x.py/inner.py"]


# --- projects and modules ---


def test_root_is_the_nearest_marker_or_the_topmost_package(tmp_path: Path) -> None:
    _tree(
        tmp_path,
        "repo/pyproject.toml",
        "repo/src/pkg/__init__.py",
        "repo/src/pkg/a.py",
        "loose/pkg/__init__.py",
        "loose/pkg/sub/__init__.py",
        "loose/pkg/sub/a.py",
        "loose/script.py",
        "env/site-packages/lib/__init__.py",
        "env/site-packages/lib/a.py",
        "env/site-packages/single.py",
        "env/pyproject.toml",
    )
    roots = Roots()
    assert roots.of(tmp_path / "repo/src/pkg/a.py").base == tmp_path / "repo"
    inner = roots.of(tmp_path / "loose/pkg/sub/a.py")
    assert inner == roots.of(tmp_path / "loose/script.py")
    read = {p.relative_to(tmp_path).as_posix() for p in files_of_root(inner, Resolver())}
    assert read == {
        "loose/script.py",
        "loose/pkg/__init__.py",
        "loose/pkg/sub/__init__.py",
        "loose/pkg/sub/a.py",
    }
    installed = roots.of(tmp_path / "env/site-packages/lib/a.py")
    assert (installed.base, installed.only) == (tmp_path / "env/site-packages", "lib")
    assert len(list(files_of_root(installed, Resolver()))) == 2
    single = roots.of(tmp_path / "env/site-packages/single.py")
    assert [path.name for path in files_of_root(single, Resolver())] == ["single.py"]


@pytest.mark.parametrize(
    ("relative", "module", "is_package"),
    [
        ("src/pkg/a.py", "pkg.a", False),
        ("src/pkg/__init__.py", "pkg", True),
        ("src/pkg/sub/__init__.py", "pkg.sub", True),
        ("scripts/train.py", "scripts.train", False),
        ("src/lone.py", "lone", False),
        ("top.py", "top", False),
        ("src/pkg/plain/b.py", "pkg.plain.b", False),
    ],
)
def test_module_names(relative: str, module: str, is_package: bool) -> None:
    packages = {"src/pkg": True, "src/pkg/sub": True}
    assert module_name(relative, packages) == (module, is_package)


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("a/b/train.py", {"utils": "a.b.utils", "nets": "a.nets", "models": "a.b.models"}),
        ("a/tool.py", {"nets": "a.nets"}),  # the base comes before other folders
        ("a/b/pkg/net.py", {"layers": "pkg.layers", "nets": "a.nets", "models": "a.b.models"}),
        ("c/pkg2/net.py", {"utils": "pkg2.utils"}),  # not the package below a
        ("src/lone/run.py", {"part": "lone.part"}),
        ("top.py", {}),
    ],
)
def test_scripts_find_what_is_beside_them(relative: str, expected: dict[str, str]) -> None:
    files = "a/b/train a/b/utils a/b/logging a/b/torch a/nets a/b/models/net a/tool top utils"
    if relative.startswith("c/"):
        files = "c/pkg2/__init__ c/pkg2/net c/pkg2/utils a/utils/__init__ a/utils/x"
    files += " other a/b/pkg/__init__ a/b/pkg/net a/b/pkg/layers a/b/pkg/utils src/lone/run"
    paths = [f"{each}.py" for each in (*files.split(), "src/lone/part")]
    packages = {each.rpartition("/")[0]: True for each in paths if "__init__" in each}
    known = places({each: module_name(each, packages)[0] for each in paths})
    words = b"utils nets models logging torch layers part other".split()
    assert dict(beside(relative, words, known, packages)) == expected


_TRAINS = """\
import reading


def train(model, loader, optimizer):
    model.cuda()
    for batch in loader:
        loss = model(batch)
        loss.backward()
        optimizer.step()
        reading.shown(loss)
"""
_READS = "import torch\n\n\ndef shown(loss):\n    return loss.item()\n"


def test_scripts_in_a_folder_are_checked_with_what_they_import(lint: Lint) -> None:
    lint.write({"pyproject.toml": "", "tools/train.py": _TRAINS, "tools/reading.py": _READS})
    alone = lint("check", str(lint.folder / "tools/reading.py"))
    assert "reading.py:5:12: PG701" in alone.out
    whole = lint("check", str(lint.folder))
    assert whole.lines == alone.lines


def test_what_can_matter_is_reached_through_imports_either_way() -> None:
    files = [
        ("pkg/__init__.py", False, b""),
        ("pkg/base.py", True, b"import torch\n"),
        ("pkg/child.py", False, b"from pkg.base import Base\n"),
        ("pkg/grandchild.py", False, b"from .child import (\n    Child,\n)\n"),
        ("pkg/user.py", True, b"import torch\nfrom .helpers import clean\n"),
        ("pkg/helpers.py", False, b"import os\n"),
        ("pkg/unrelated.py", False, b"import json\n"),
    ]
    kept = relevant((name, torch, imported_words(data)) for name, torch, data in files)
    assert kept == {name for name, _, _ in files} - {"pkg/unrelated.py"}


def test_imports_in_every_form_are_seen() -> None:
    data = b"""
import a.b as c, d
from e.f import g as h, \\
    i
from . import j
from ..k import (  # why
    l,
    m as n,
)
    from o import p
"""
    words = imported_words(data)
    assert {b"a", b"b", b"d", b"e", b"f", b"g", b"i", b"j", b"k", b"l", b"m", b"o", b"p"} <= words
    assert b"." in words


# --- one file is its slice of all ---


def test_one_file_gives_its_slice_of_everything(lint: Lint) -> None:
    lint.write(
        {
            "pkg/__init__.py": "",
            "pkg/base.py": CLEAN.replace("Model", "Base"),
            "pkg/child.py": SYNCS.replace("(torch.nn.Module)", "(Base)").replace(
                "import torch\n", "import torch\nfrom .base import Base\n", 1
            ),
            "pkg/grandchild.py": (
                "from .child import Model\n\n\nclass Grand(Model):\n"
                "    def forward(self, x):\n        return x + self.peak(x).item()\n\n"
                "    def peak(self, x):\n        return x.amax()\n"
            ),
            "tools.py": SYNCS,
        }
    )
    everything = lint(".").lines
    files = sorted({line.split(":")[0] for line in everything})
    assert "pkg/child.py" in files
    for options in ((), ("--no-cache",)):
        alone = [line for name in files for line in lint(*options, name).lines]
        assert alone == everything
    os.chdir(lint.folder / "pkg")
    assert lint("child.py").lines == ["child.py" + everything[0].removeprefix("pkg/child.py")]
