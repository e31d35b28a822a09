"""The worker process: takes texts, gives findings; what an edit makes urgent comes first."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from pygraph_lint.errors import LintError
from pygraph_lint.findings import Finding
from pygraph_lint.server import messages as m
from pygraph_lint.server.lenses import lenses
from pygraph_lint.server.projects import Folder, Folders

# A file whose check took longer than this (seconds) is checked after edits of other files only
# when something is saved.
_LONG = 0.7
# So many files changed on the disk at once: everything is looked at anew.
_MANY_CHANGES = 200
# A first read of so many files is shown as it goes on.
_WORTH_A_BAR = 10


class Interrupted(Exception):
    """Something more urgent has come; the work is begun again later."""


@dataclass
class _Open:
    """An open file: what is known of its text."""

    serial: int
    text: str
    checked: int = -1  # the serial that the findings are of
    findings: list[Finding] = field(default_factory=list)
    rows: tuple[m.Row, ...] = ()
    offers: tuple[m.Offer | None, ...] | None = None
    seconds: float = 0.0  # that the last check took
    stale: bool = False  # something else changed that it may rest on
    over: int = -1  # the serial that the lenses are of
    lenses: tuple[m.Lens, ...] | None = None


class Inbox:
    """Messages that have come, filled by a thread that reads them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._arrived = threading.Condition()
        self._messages: list[m.ToWorker] = []

    def listen(self) -> None:
        """Read until the stream ends, which ends the process: nobody is left to work for."""
        while True:
            try:
                message = m.read(self._stream)
            except (OSError, EOFError, ValueError):
                message = None
            if message is None:
                os._exit(0)
            with self._arrived:
                self._messages.append(message)
                self._arrived.notify()

    def waiting(self) -> list[m.ToWorker]:
        """What has come and was not taken yet."""
        with self._arrived:
            return list(self._messages)

    def take(self, wait: bool, seconds: float | None = None) -> list[m.ToWorker]:
        """What has come; with ``wait`` at least one message, unless none comes in time."""
        with self._arrived:
            if wait:
                self._arrived.wait_for(lambda: self._messages, seconds)
            taken, self._messages = self._messages, []
            return taken


class Worker:
    """Does what is asked, most urgent first: the text that changed last, then questions, then
    other open files that the change may concern.
    """

    def __init__(self, inbox: Inbox, send: Callable[[m.FromWorker], None]) -> None:
        self._inbox = inbox
        self._send = send
        self._setup = m.Setup(())
        self._folders = Folders(self._setup, self._step, self._progress)
        self._open: dict[Path, _Open] = {}
        self._asked: dict[int, m.Ask] = {}
        self._yields_to: tuple[type, ...] = ()
        self._reading = False
        self._look_for_traces = False
        self._garbage = Garbage()

    def run(self) -> None:
        """Work for ever."""
        self._garbage.take_over()
        idle = False
        while True:
            messages = self._inbox.take(idle, None if self._garbage.swept else QUIET)
            if idle and not messages:
                self._garbage.when_quiet()
                continue
            for message in messages:
                self._accept(message)
            try:
                idle = not self._work()
            except Interrupted:
                idle = False
            if idle:
                self._send(m.Idle())
                self._garbage.when_idle()

    # --- what comes in ---

    def _accept(self, message: m.ToWorker) -> None:
        if isinstance(message, m.Setup):
            self._set_up(message)
        elif isinstance(message, m.Text):
            self._take(message)
        elif isinstance(message, m.Saved):
            for one in self._open.values():
                one.stale = True
            self._look_for_traces = True
        elif isinstance(message, m.Closed):
            self._close(message.path)
        elif isinstance(message, m.OnDisk):
            self._look_at(message.paths)
        elif isinstance(message, m.Ask):
            self._asked[message.id] = message
        else:
            self._asked.pop(message.id, None)

    def _set_up(self, setup: m.Setup) -> None:
        self._setup = setup
        self._folders = Folders(setup, self._step, self._progress)
        self._look_for_traces = True
        for path, one in self._open.items():
            one.checked = -1
            self._hold(path, one.text)

    def _take(self, message: m.Text) -> None:
        one = self._open.get(message.path)
        if one is None:
            self._open[message.path] = _Open(message.serial, message.text)
        else:
            one.serial, one.text, one.offers = message.serial, message.text, None
        self._hold(message.path, message.text)
        self._others_are_stale(message.path)

    def _hold(self, path: Path, text: str | None) -> None:
        """Tell the file's project of its text."""
        try:
            self._folders.of(path).project.take(path, text)
        except LintError:
            return  # told when the file is checked

    def _close(self, path: Path) -> None:
        if self._open.pop(path, None) is not None:
            self._hold(path, None)
            self._others_are_stale(path)

    def _look_at(self, paths: tuple[Path, ...]) -> None:
        if len(paths) > _MANY_CHANGES:
            self._set_up(self._setup)
            return
        for path in paths:
            folder = self._folders.made.get(self._folders.around(path))
            if path not in self._open and folder is not None and not folder.left_out(path):
                folder.project.take(path, None)
        for one in self._open.values():
            one.stale = True
        self._look_for_traces = True

    def _others_are_stale(self, path: Path) -> None:
        for other, one in self._open.items():
            if other != path and one.seconds < _LONG:
                one.stale = True

    # --- what is done ---

    def _work(self) -> bool:
        """Do one thing; whether there was any."""
        changed = [p for p, one in self._open.items() if one.checked != one.serial]
        ask = next((ask for ask in self._asked.values() if ask.path not in changed), None)
        if ask is not None:
            with self._yielding(m.Text, m.Closed, m.Setup, m.Cancel):
                value = self._answer(ask)
            self._asked.pop(ask.id, None)
            self._send(m.Answer(ask.id, value))
        elif changed:
            # The one that changed last is the one that is looked at.
            path = max(changed, key=lambda p: self._open[p].serial)
            with self._yielding(m.Text, m.Closed, m.Setup, m.OnDisk):
                self._check(path)
        elif stale := [path for path, one in self._open.items() if one.stale]:
            with self._yielding(m.Text, m.Closed, m.Setup, m.OnDisk, m.Ask):
                self._check(stale[0])
        elif self._look_for_traces:
            with self._yielding(m.Text, m.Closed, m.Setup, m.Ask):
                self._read_traces()
        elif self._setup.lenses and (
            left := [path for path, one in self._open.items() if one.over != one.serial]
        ):
            with self._yielding(m.Text, m.Closed, m.Setup, m.OnDisk, m.Ask):
                self._look_over(left[0])
        else:
            return False
        return True

    def _check(self, path: Path) -> None:
        one = self._open[path]
        again = one.checked == one.serial
        self._send(m.Checking(path, one.serial))
        started = monotonic()
        findings, rows = self._checked(path)
        one.seconds = monotonic() - started
        one.findings, one.checked, one.stale = findings, one.serial, False
        if not (again and rows == one.rows):
            one.offers, one.over = None, -1
            one.rows = rows
            self._send(m.Found(path, one.serial, rows))

    def _checked(self, path: Path) -> tuple[list[Finding], tuple[m.Row, ...]]:
        """The findings of a file; none, and a word to the user, where it cannot be checked."""
        try:
            folder = self._folders.of(path)
            if not folder.started:
                self._send(m.Reading(0, 0))
            findings = folder.check(path)
            return findings, folder.rows(path, findings)
        except LintError as error:
            self._send(m.Said("error", str(error)))
        except (Interrupted, MemoryError):
            raise
        except Exception as error:
            self._report(error, path)
        return [], ()

    def _read_traces(self) -> None:
        """Read new traces; open files are shown with what these say."""
        for folder in self._folders.made.values():
            if folder is not None and folder.has_new_traces:
                try:
                    folder.read_traces()
                except LintError as error:
                    self._send(m.Said("warning", str(error)))
                for one in self._open.values():
                    one.stale = True
        self._look_for_traces = False

    def _look_over(self, path: Path) -> None:
        """Work out the lenses of a file."""
        one = self._open[path]
        found: tuple[m.Lens, ...] = ()
        try:
            folder = self._folders.of(path)
            if one.rows or not folder.left_out(path):
                found = lenses(folder.project.runner, path, self._step)
        except LintError:
            pass  # said when the file was checked
        except (Interrupted, MemoryError):
            raise
        except Exception as error:
            self._report(error, path)
        one.over = one.serial
        if found != one.lenses:
            one.lenses = found
            self._send(m.Lenses(path, one.serial, found))

    def _report(self, error: Exception, path: Path) -> None:
        """Say that the linter itself failed; the details go to the log."""
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        self._send(m.Said("error", f"{path} could not be checked, this is a bug: {said}"))

    def _answer(self, ask: m.Ask) -> Any:
        one = self._open.get(ask.path)
        if one is None or one.serial != ask.serial:
            return None
        self._send(m.Checking(ask.path, ask.serial))
        try:
            folder = self._folders.of(ask.path)
            if ask.what == "fixes":
                return self._offers(folder, ask.path, one)
            if ask.what == "fix all":
                return folder.fix_all(ask.path)
            return folder.ignore(ask.path, one.findings[ask.number])
        except (LintError, IndexError):
            return None
        except (Interrupted, MemoryError):
            raise
        except Exception as error:
            self._report(error, ask.path)
            return None

    def _offers(self, folder: Folder, path: Path, one: _Open) -> tuple[m.Offer | None, ...]:
        if one.offers is None:
            one.offers = folder.offers(path, one.findings)
        return one.offers

    # --- interrupting ---

    @contextmanager
    def _yielding(self, *kinds: type) -> Iterator[None]:
        """Let messages of these kinds interrupt what is done inside."""
        self._yields_to = kinds
        try:
            yield
        finally:
            self._yields_to = ()
            self._reading = False

    def _step(self) -> None:
        kinds = (*self._yields_to, m.Ask) if self._reading and self._yields_to else self._yields_to
        if kinds and any(isinstance(message, kinds) for message in self._inbox.waiting()):
            raise Interrupted

    def _progress(self, what: str, done: int, total: int) -> None:
        self._reading = what == "reading"
        self._garbage.read |= self._reading
        if self._reading and total >= _WORTH_A_BAR:
            self._send(m.Reading(done, total))


# Seconds without work after which nobody is expected to wait.
QUIET = 1.0
# So many new objects are too many to leave until then.
_MANY = 1_000_000


class Garbage:
    """Python's collector would look at all facts of a project, a second for a large one, in the
    middle of an edit. Facts stay for good and hold no cycles: once read they are set aside.
    """

    def __init__(self) -> None:
        self.read = False  # whether facts of files were read and not set aside yet
        self.swept = True  # whether nothing was done since it was quiet

    def take_over(self) -> None:
        """Nothing is collected by itself any more."""
        gc.disable()

    def when_idle(self) -> None:
        """Nothing is left to do for the moment."""
        if gc.get_count()[0] > _MANY:
            if self.read:
                gc.freeze()
            else:
                gc.collect()
            self.read = False
        self.swept = False

    def when_quiet(self) -> None:
        """Nothing was to do for a while."""
        gc.collect()
        self.swept = True


def main() -> None:
    """Work for the process at the other end of stdin and stdout."""
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library may print must not get between the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front ends first, then this process
    inbox = Inbox(stdin)

    def send(message: m.FromWorker) -> None:
        try:
            stdout.write(m.packed(message))
            stdout.flush()
        except OSError:
            os._exit(0)

    threading.Thread(target=inbox.listen, daemon=True).start()
    Worker(inbox, send).run()


if __name__ == "__main__":
    main()
