"""The front alone: what it makes of a worker that ends, and of words about old texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from pygraph_lint.server import messages as m
from pygraph_lint.server.front import Front
from pygraph_lint.server.messages import Row

PATH = Path("/project/a.py")


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A front without processes: ``sent`` to the worker, ``shown`` to the editor, ``said``."""
    made: Any = Front()
    made.protocol.client_capabilities = types.ClientCapabilities()
    made.sent, made.shown, made.said = [], [], []
    monkeypatch.setattr(made.worker, "send", made.sent.append)
    monkeypatch.setattr(made, "text_document_publish_diagnostics", made.shown.append)
    monkeypatch.setattr(made, "say", lambda level, text: made.said.append(text))
    return made


def _open(front: Any, text: str) -> int:
    item = types.TextDocumentItem(PATH.as_uri(), types.LanguageKind.Python, 1, text)
    document = front.files.opened(item)
    front._send(document)
    serial: int = document.serial
    return serial


ROW = Row("PG201", "item", "said", (1, 1), (1, 2), "warning")


def test_what_is_said_of_an_old_text_is_dropped(front: Any) -> None:
    first, second = _open(front, "a\n"), _open(front, "b\n")
    front._hear(m.Found(PATH, first, (ROW,)))
    assert front.shown == [] and PATH not in front.known
    front._hear(m.Found(PATH, second, (ROW,)))
    assert [one.message for one in front.shown[0].diagnostics] == ["said"]
    front._hear(m.Found(Path("/project/closed.py"), second, (ROW,)))
    assert len(front.shown) == 1


def test_a_text_that_ends_the_worker_twice_is_left_out_until_it_changes(front: Any) -> None:
    serial = _open(front, "a\n")
    for number in (1, 2):
        front._hear(m.Checking(PATH, serial))
        front._ended("signal 11", True)
        front.sent.clear()
        front._started()
        texts = [one for one in front.sent if isinstance(one, m.Text)]
        assert len(texts) == (number == 1)
    assert "(signal 11) while it looked at /project/a.py; it was started again" in front.said[0]
    assert "which is left out until it changes" in front.said[1]
    front.sent.clear()
    _open(front, "b\n")
    assert [one.text for one in front.sent if isinstance(one, m.Text)] == ["b\n"]


def test_a_worker_that_ends_again_and_again_is_not_started(front: Any) -> None:
    front._ended("exit code 1", False)
    assert front.said == [
        "pygraph-lint: the analysis ended (exit code 1); run `pygraph-lint.restart` to try again."
    ]
