"""Files that are written in one step."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from pygraph_rt.files import write_whole


def test_a_file_is_written_whole_and_its_folder_made(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.json"
    write_whole(path, "1")
    write_whole(path, "2")
    assert path.read_text() == "2"
    assert [each.name for each in path.parent.iterdir()] == ["file.json"]


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, "text")
    assert link.is_symlink() and target.read_text() == "text"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """As `/dev/null` would be, for a user who may."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join(10)
    assert read == ["text"] and stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(OSError):
        write_whole(tmp_path, "text")


def test_a_pipe_behind_a_descriptor_is_written(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    write_whole(Path(f"/dev/fd/{theirs}"), "text")
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        assert pipe.read() == "text"
