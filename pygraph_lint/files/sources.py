"""Reading source files as Python would, and writing them back as they were: encoding, BOM, line
ends, mode. A notebook is read as the program of its code cells.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from pygraph_lint.errors import SourceError
from pygraph_lint.files import notebooks

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#[^\r\n]*)?$")
_NEWLINE = re.compile(r"\r\n|\n|\r")
_ADVICE = "save the file as UTF-8 or correct its coding line"


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text and how its bytes said it. ``newline`` is the line end that most lines have."""

    text: str
    encoding: str
    bom: bool
    newline: str

    def encode(self, text: str) -> bytes:
        """``text`` in the file's encoding, with its BOM if it had one. Raises SourceError if that
        cannot be.
        """
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise SourceError(f"cannot be written in {self.encoding}: {error.reason}") from None
        return codecs.BOM_UTF8 + data if self.bom else data


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """The source in a regular file, of a notebook the program of its cells. Raises SourceError if
    it is none, is too large, or may not be read.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SourceError("cannot be read: it is not a regular file")
        if limit is not None and status.st_size > limit:
            raise SourceError(
                f"not checked: the file has {status.st_size / 1e6:.1f} MB and `max-file-size` is "
                f"{limit / 1e6:.1f} MB; raise that or exclude the file"
            )
        return source_of(path, path.read_bytes())
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL byte in the path itself
        raise SourceError(f"cannot be read: {error}") from None


def source_of(path: Path, data: bytes) -> bytes:
    """The source in a file's bytes. Raises SourceError for a damaged notebook."""
    return notebooks.to_program(data) if path.suffix == notebooks.SUFFIX else data


def with_source(path: Path, data: bytes, source: bytes) -> bytes:
    """The bytes of a file, in which another ``source`` stands. Raises SourceError for a notebook
    whose cells cannot be told apart.
    """
    return notebooks.with_program(data, source) if path.suffix == notebooks.SUFFIX else source


def decode(data: bytes) -> Source:
    """The text in ``data``, by BOM and coding line as Python reads it. Raises SourceError with a
    position.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data = data[len(codecs.BOM_UTF8) :]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SourceError(f"is UTF-16, which Python cannot read as source; {_ADVICE}", 1, 1)
    encoding = _declared(data, bom)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        byte = data[error.start]
        raise SourceError(
            f"is not valid {encoding}: byte 0x{byte:02x} cannot be decoded; {_ADVICE}", line, column
        ) from None
    return Source(text, encoding, bom, _usual_newline(text))


def refuse_nul(text: str) -> None:
    """Raise SourceError, with its place, for a NUL character."""
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        column = nul - (text.rfind("\n", 0, nul) + 1) + 1
        raise SourceError("there is a NUL byte in the source; remove it", line, column)


def _declared(data: bytes, bom: bool) -> str:
    for number, line in enumerate(re.split(rb"\r\n|\n|\r", data[:4096], maxsplit=2)[:2], 1):
        match = _COOKIE.match(line)
        if match:
            name = match[1].decode("ascii")
            try:
                codec = codecs.lookup(name)
                known = codec._is_text_encoding
            except LookupError:
                known = False
            if not known:
                raise SourceError(f"declares the unknown encoding {name!r}; {_ADVICE}", number, 1)
            if bom and codec.name != "utf-8":
                raise SourceError(
                    f"starts with a UTF-8 BOM but declares {name}; {_ADVICE}", number, 1
                )
            return codec.name
        if not _BLANK.match(line):
            break
    return "utf-8"


def _usual_newline(text: str) -> str:
    windows = text.count("\r\n")
    unix = text.count("\n") - windows
    old_mac = text.count("\r") - windows
    if windows > max(unix, old_mac):
        return "\r\n"
    return "\r" if old_mac > unix else "\n"


def split_lines(text: str) -> list[str]:
    r"""The lines of ``text`` without their ends, split as Python does: at \n, \r\n and \r only."""
    return _NEWLINE.split(text)


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Replace the source in the file at ``path`` by ``data``: whole or not at all; mode kept, a
    link's target written. A file that holds it already is left alone.

    ``expected`` is the source it is believed to hold. Raises SourceError, with the file as it was,
    if it holds something else by now or if writing fails.
    """
    target = Path(os.path.realpath(path))
    # In the same folder, because a rename is atomic only within one file system.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        held = target.read_bytes()
        present = source_of(path, held)
        if present == data:  # written already, by another name of the file
            return
        if present != expected:
            raise SourceError("not written: it was changed while it was being checked; run again")
        data = with_source(path, held, data)
        if not os.access(target, os.W_OK):
            raise SourceError("not written: no permission to write it")
        mode = stat.S_IMODE(target.stat().st_mode)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(mode)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(
            f"not written, the file is as it was: {error.strerror or error}"
        ) from None
