"""Files and circumstances that are wrong: one clear line each, everything else still checked."""

from __future__ import annotations

import codecs
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.commands import check
from pygraph_lint.files import sources
from pygraph_lint.fixes.engine import loop
from pygraph_lint.report import FORMATS
from tests.lint.support import CLEAN, FIXABLE, FIXED, REPOSITORY, SYNCS, Lint, run_process

HEAD = "import torch\n"
BAD: dict[str, tuple[bytes, str, tuple[int, int] | None]] = {
    "syntax error": (b"import torch\nx = = 1\n", "PG001", (2, 5)),
    "not closed": (b"import torch\nf(1,\n", "PG001", (2, 2)),
    "no torch at all": (b"x = = 1\n", "PG001", (1, 5)),
    "python 2": (b"import torch\nprint 'x'\n", "PG001", (2, 1)),
    "python 2 raise": (b"import torch\ntry:\n    f()\nexcept E, e:\n    pass\n", "PG001", (4, 8)),
    "newer syntax": (b"import torch\nlazy import 3 as torch\n", "PG001", (2, 6)),
    "tabs and spaces": (b"import torch\nif x:\n\ty\n        z\n", "PG001", None),
    "NUL byte": (b"import torch\nx = '\0'\n", "PG001", (2, 6)),
    "not UTF-8": (b"import torch\nx = '\xff'\n", "PG002", (2, 6)),
    "unknown encoding": (b"# coding: klingon\nimport torch\n", "PG002", (1, 1)),
    "wrong encoding": (b"# coding: ascii\nimport torch  # \xc3\xa4\n", "PG002", (2, 17)),
    "UTF-16": ("import torch\n".encode("utf-16"), "PG002", (1, 1)),
    "BOM and another encoding": (codecs.BOM_UTF8 + b"# coding: latin-1\n", "PG002", (1, 1)),
    "3,000 parentheses": (f"{HEAD}x = {'(' * 3000}1{')' * 3000}\n".encode(), "PG001", None),
    "3,000 brackets": (f"{HEAD}x = {'[' * 3000}\n".encode(), "PG001", None),
    "3,000 lambdas": (f"{HEAD}x = {'lambda: ' * 3000}1\n".encode(), "PG001", None),
    "lone surrogate": (b"import torch\nx = '\xed\xa0\x80'\n", "PG002", (2, 6)),
    "random bytes": (bytes(range(256)) * 20, "PG002", None),
}
# Deep, but some Pythons can parse it; then there is just nothing to report.
DEEP = {
    "20,000-term sum": f"{HEAD}x = {' + '.join(['y'] * 20_000)}\n",
    "20,000 attributes": f"{HEAD}x = y{'.z' * 20_000}\n",
    "5,000 not": f"{HEAD}x = {'not ' * 5000}y\n",
    "2,000 elif": f"{HEAD}if x:\n    pass\n" + "elif x:\n    pass\n" * 2000,
    "40 nested lambdas": f"{HEAD}def forward(x):\n    return {'lambda: ' * 40}x\n",
    "90 nested ifs": HEAD + "".join(f"{' ' * n}if x:\n" for n in range(90)) + " " * 90 + "pass\n",
    "a sum in forward": SYNCS.replace("(peak + 1.0)", f"({' + '.join(['peak'] * 20_000)})"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("options", [(), ("--fix",)])
def test_one_clear_line_and_the_others_are_checked(
    lint: Lint, name: str, options: tuple[str, ...]
) -> None:
    data, code, position = BAD[name]
    lint.write({"bad.py": data, "good.py": SYNCS})
    result = lint(*options, ".")
    assert result.code == 1
    bad, good = result.lines
    assert good.startswith("good.py:6:16: PG201 ")
    path, row, column, said = bad.split(":", 3)
    assert path == "bad.py"
    assert said.startswith(f" {code} ")
    assert len(said) > len(" PG001 ") + 8
    if position is not None:
        assert (int(row), int(column)) == position
    assert "Traceback" not in result.out + result.err
    assert (lint.folder / "bad.py").read_bytes() == data


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("options", [(), ("--fix",)])
def test_deep_code_is_checked_or_refused_in_one_line(
    lint: Lint, name: str, options: tuple[str, ...]
) -> None:
    lint.write({"deep.py": DEEP[name], "good.py": SYNCS})
    result = lint(*options, ".")
    about = [line for line in result.lines if line.startswith("deep.py")]
    assert result.lines[-1].startswith("good.py:6:16: PG201 ")
    assert all(" PG001 " in line or " PG201 " in line for line in about)
    assert len(about) <= 1
    assert lint.read("deep.py") == DEEP[name]


LAYER = f"{HEAD}class M(torch.nn.Module):\n    def forward(self, v0):\n"
LONG = {
    "operations": LAYER
    + "".join(f"        v{n + 1} = torch.relu(v{n})\n" for n in range(1200))
    + "        return v1200.item()\n",
    "names": LAYER
    + "".join(f"        v{n + 1} = v{n}\n" for n in range(400))
    + "        return v400.item()\n",
    "calls": f"{LAYER}        return f0(v0)\n"
    + "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(300))
    + "def f300(x):\n    return x.item()\n",
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("options", [(), ("--fix",)])
def test_long_code_is_checked_to_its_end(lint: Lint, name: str, options: tuple[str, ...]) -> None:
    lint.write({"long.py": LONG[name], "good.py": SYNCS})
    good, long = lint(*options, ".").lines
    assert good.startswith("good.py:6:16: PG201 ")
    assert long.startswith(f"long.py:{LONG[name].count(chr(10))}:") and " PG201 " in long


def test_calls_that_go_too_deep_are_said_of_their_file(lint: Lint) -> None:
    calls = "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(2500))
    deep = f"{LAYER}        return f0(v0)\n{calls}def f2500(x):\n    return x.item()\n"
    lint.write({"deep.py": deep, "good.py": SYNCS})
    deep_line, good = lint(".").lines
    assert deep_line == "deep.py:1:1: PG002 nested too deeply to be analysed"
    assert good.startswith("good.py:6:16: PG201 ")


def test_big_file_is_refused_by_default_and_checked_on_request(lint: Lint) -> None:
    big = SYNCS + "x = 'some text to make it long'\n" * 330_000
    lint.write({"big.py": big, "good.py": SYNCS})
    big_line, good = lint(".").lines
    assert big_line.startswith("big.py:1:1: PG002 not checked: the file has 10")
    assert "max-file-size" in big_line
    assert good.startswith("good.py:6:16")


def test_long_lines(lint: Lint) -> None:
    lint.write({"long.py": SYNCS + f"text = '{'x' * 1_000_000}'\n"})
    result = lint("--output-format", "full", "long.py")
    assert len(result.lines) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(lint: Lint) -> None:
    lint.write({"secret.py": SYNCS, "good.py": SYNCS})
    (lint.folder / "secret.py").chmod(0)
    good, secret = lint(".").lines
    assert secret == "secret.py:1:1: PG002 cannot be read: Permission denied"
    assert good.startswith("good.py")


def test_unreadable_by_whatever_reason(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"secret.py": SYNCS, "good.py": SYNCS})
    original = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "secret.py":
            raise PermissionError(13, "Permission denied")
        return original(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    good, secret = lint(".").lines
    assert secret == "secret.py:1:1: PG002 cannot be read: Permission denied"
    assert good.startswith("good.py")


@pytest.mark.parametrize("given", [".", "closed", "good.py"])
def test_a_folder_that_may_not_be_looked_into(
    lint: Lint, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    lint.write({"closed/inner.py": SYNCS, "good.py": SYNCS})
    inside, stat, scan = f"{lint.folder}/closed", os.stat, os.scandir

    def refuse(path: Any, *arguments: Any, **keywords: Any) -> Any:
        if str(path).startswith(f"{inside}/"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *arguments, **keywords)

    def refuse_all(path: Any = ".") -> Any:
        if str(path) == inside:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "scandir", refuse_all)
    result = lint(given)
    found = {line.partition(":")[0] for line in result.lines}
    # Not checked must not look like checked: the folder is named, and the exit code is 2.
    assert (
        found == {".": {"closed", "good.py"}, "closed": {"closed"}, "good.py": {"good.py"}}[given]
    )
    assert result.code == (1 if given == "good.py" else 2)


def test_links_to_nowhere_and_to_themselves(lint: Lint) -> None:
    lint.write({"good.py": SYNCS})
    (lint.folder / "circle.py").symlink_to("circle.py")
    (lint.folder / "dangling.py").symlink_to("nothing.py")
    (lint.folder / "folder").symlink_to(".")
    circle, dangling, good = lint(".").lines
    assert circle.startswith("circle.py:1:1: PG002 cannot be read: ")
    assert dangling == "dangling.py:1:1: PG002 cannot be read: No such file or directory"
    assert good.startswith("good.py")


def test_pipe_is_not_waited_for(lint: Lint) -> None:
    lint.write({"good.py": SYNCS})
    os.mkfifo(lint.folder / "pipe.py")
    good, pipe = lint(".").lines
    assert pipe == "pipe.py:1:1: PG002 cannot be read: it is not a regular file"
    assert good.startswith("good.py")


def test_folder_called_like_a_file(lint: Lint) -> None:
    lint.write({"x.py/inner.py": SYNCS, "good.py": SYNCS})
    assert [line.split(":")[0] for line in lint(".").lines] == ["good.py", "x.py/inner.py"]
    assert len(lint("x.py").lines) == 1


def test_path_that_does_not_exist(lint: Lint) -> None:
    lint.write({"good.py": SYNCS})
    result = lint("nowhere.py", "good.py")
    assert result.code == 2
    missing, good = result.lines
    assert missing == "nowhere.py:1:1: PG002 there is no such file or folder"
    assert good.startswith("good.py")


def test_names_with_odd_characters(lint: Lint) -> None:
    names = ["a b.py", "ä.py", "new\nline.py", "[x].py", os.fsdecode(b"\xff.py"), "*.py"]
    for name in names:
        (lint.folder / name).write_text(SYNCS)
    result = lint(".")
    assert result.out.count(": PG201 ") == len(names)
    assert lint("--output-format", "json", ".").out.count('"PG201"') == len(names)
    for form in ("full", "github", "sarif"):
        assert lint("--output-format", form, ".").code == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_name_that_is_not_utf_8_in_every_format(lint: Lint, form: str) -> None:
    (lint.folder / os.fsdecode(b"\xff.py")).write_text(SYNCS)
    shown = lint("--output-format", form, ".")
    assert shown.code == 1
    assert "udcff" in shown.out or "%FF" in shown.out
    lint("--output-format", form, "-o", "report", ".")
    assert "udcff" in lint.read("report") or "%FF" in lint.read("report")


def test_output_that_a_terminal_cannot_show(lint: Lint) -> None:
    lint.write({"ä.py": SYNCS.replace("peak", "höhe")})
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "pygraph_lint", "--output-format", "full", "."]
    done = subprocess.run(command, cwd=lint.folder, env=environment, capture_output=True)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"\\xe4.py:6:16: PG201" in done.stdout


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 1), ("2>&-", 1)])
def test_standard_streams_that_are_closed(lint: Lint, closed: str, code: int) -> None:
    lint.write({"model.py": SYNCS})
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    given = "-" if closed == "<&-" else "model.py"
    command = f"{sys.executable} -m pygraph_lint {given} {closed}"
    done = subprocess.run(
        command, shell=True, cwd=lint.folder, env=environment, capture_output=True
    )
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("",), "a path is empty"),
        (("--select", "", "a.py"), "--select names no rule"),
        (("--add-noqa", "-"), "--add-noqa writes to files; it cannot be used with stdin"),
        (("--add-noqa", "--fix", "."), "--add-noqa cannot be used with --fix or --diff"),
        (("--write-baseline", "b", "--diff"), "--write-baseline cannot be used with --fix or"),
        (("--write-baseline", "b", "--add-noqa"), "--add-noqa and --write-baseline cannot"),
    ],
)
def test_what_would_be_left_undone_is_refused(
    lint: Lint, options: tuple[str, ...], said: str
) -> None:
    lint.write({"a.py": FIXABLE})
    result = lint(*options)
    assert result.code == 2
    assert result.err.startswith(f"error: {said}")
    assert result.err.count("\n") == 1
    assert lint.read("a.py") == FIXABLE


@pytest.mark.parametrize(
    "options", [("--add-noqa",), ("--write-baseline", "b.json"), ("--show-files",), ("--diff",)]
)
def test_what_cannot_be_read_is_named_by_everything(lint: Lint, options: tuple[str, ...]) -> None:
    lint.write({"bad.py": "x = = 1\n", "a.py": CLEAN})
    missing = lint(*options, "gone.py", "a.py")
    assert missing.code == 2
    assert "gone.py:1:1: PG002 there is no such file or folder\n" in missing.err
    if options != ("--show-files",):
        broken = lint(*options, "bad.py")
        assert broken.code == 1
        assert "bad.py:1:5: PG001 " in broken.err


def test_a_cache_that_may_not_be_written(
    lint: Lint, monkeypatch: pytest.MonkeyPatch, own_caches: Path
) -> None:
    lint.write({"a.py": SYNCS, "b.py": SYNCS})
    lint(".")
    (lint.folder / "b.py").unlink()
    lint.write({"a.py": FIXABLE})
    refused = []

    def refuse(path: Path, *arguments: Any, **keywords: Any) -> None:
        refused.append(path)
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("unlink", "write_bytes", "replace", "mkdir"):
        monkeypatch.setattr(Path, name, refuse)
    result = lint(".")
    assert result.lines[0].startswith("a.py:6:16: PG101")
    assert (result.code, result.err) == (1, "")
    assert any(own_caches in path.parents for path in refused)


def test_reader_that_goes_away(lint: Lint) -> None:
    for number in range(300):
        lint.write({f"m{number}.py": SYNCS})
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pygraph_lint", "--output-format", "json", "."]
    process = subprocess.Popen(
        command, cwd=lint.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    process.wait(60)
    assert error == b""


# --- while fixing ---


def test_disk_full_leaves_the_file_and_says_so(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"a.py": FIXABLE, "b.py": FIXABLE})
    original = os.fsync
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        original(descriptor)

    monkeypatch.setattr(sources.os, "fsync", fsync)
    result = lint("--fix", ".")
    assert result.code == 2
    assert result.lines[0] == (
        "a.py:1:1: PG002 not written, the file is as it was: No space left on device"
    )
    assert [line.split()[1] for line in result.lines[1:]] == ["PG101"]
    assert lint.read("a.py") == FIXABLE
    assert lint.read("b.py") == FIXED
    assert sorted(path.name for path in lint.folder.iterdir()) == ["a.py", "b.py", "pyproject.toml"]


def test_a_bug_of_the_linter_is_no_finding(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a bug")

    lint.write({"a.py": FIXABLE})
    monkeypatch.setattr(loop, "fix_files", broken)
    result = lint("--fix", ".")
    assert result.code == 2
    assert "in broken" in result.err
    assert result.err.endswith(
        "TypeError: a bug\nerror: pygraph-lint has a bug: please report the lines above\n"
    )


def test_ctrl_c_while_writing_leaves_whole_files(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint.write({"a.py": FIXABLE, "b.py": FIXABLE})
    original = os.fsync
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise KeyboardInterrupt
        original(descriptor)

    monkeypatch.setattr(sources.os, "fsync", fsync)
    result = lint("--fix", ".")
    assert result.code == 130
    assert result.err == "interrupted; each file is unchanged or completely fixed\n"
    assert sorted([lint.read("a.py"), lint.read("b.py")]) == sorted([FIXED, FIXABLE])
    assert len(list(lint.folder.iterdir())) == 3


def test_ctrl_c_of_a_check_says_nothing_of_fixes(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    lint.write({"a.py": FIXABLE})
    monkeypatch.setattr(check, "check", interrupted)
    result = lint(".")
    assert (result.code, result.err) == (130, "interrupted\n")


def test_a_file_that_the_system_refuses_is_named(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "locked/known.json")

    lint.write({"a.py": FIXABLE})
    monkeypatch.setattr(check, "check", refused)
    result = lint("--write-baseline", "locked/known.json", ".")
    assert result.code == 2
    assert result.err == "error: locked/known.json: Permission denied\n"


def test_ctrl_c_from_a_terminal(lint: Lint, own_caches: Path) -> None:
    for number in range(400):
        lint.write({f"m{number}.py": FIXABLE * 8})
    process = subprocess.Popen(
        [sys.executable, "-m", "pygraph_lint", "--fix", "--jobs", "2", "."],
        cwd=lint.folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # Once the cache is there, the run is well under way.
    while not any(own_caches.rglob("files/*")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == b"interrupted; each file is unchanged or completely fixed\n"
    assert {lint.read(f"m{number}.py") for number in range(400)} <= {FIXABLE * 8, FIXED * 8}
    assert not list(lint.folder.glob("*.tmp"))


def test_file_edited_meanwhile_is_left_alone(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"a.py": FIXABLE})
    original = loop.fix_files

    def fix_files(*arguments: object) -> loop.Fixed:
        fixed = original(*arguments)  # type: ignore[arg-type]
        lint.write({"a.py": "edited = True\n"})
        return fixed

    monkeypatch.setattr(loop, "fix_files", fix_files)
    result = lint("--fix", "a.py")
    assert result.code == 2
    assert "changed while it was being checked" in result.lines[0]
    assert lint.read("a.py") == "edited = True\n"


def test_second_fix_changes_nothing(lint: Lint) -> None:
    lint.write({"a.py": FIXABLE})
    lint("--fix", "a.py")
    status = (lint.folder / "a.py").stat()
    assert lint("--fix", "a.py").code == 0
    assert (lint.folder / "a.py").stat().st_mtime_ns == status.st_mtime_ns
    assert lint.read("a.py") == FIXED


def test_only_given_paths_are_written(lint: Lint) -> None:
    lint.write({"a.py": FIXABLE, "b.py": FIXABLE})
    lint("--fix", "a.py")
    assert (lint.read("a.py"), lint.read("b.py")) == (FIXED, FIXABLE)


def test_read_only_file_is_reported(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"a.py": FIXABLE})
    monkeypatch.setattr(sources.os, "access", lambda path, mode: False)
    result = lint("--fix", "a.py")
    assert result.code == 2
    assert "no permission to write it" in result.lines[0]
    assert lint.read("a.py") == FIXABLE
    assert result.lines[1] == lint("a.py").lines[0].replace("[*] ", "")


def test_stdin_that_is_no_source(lint: Lint) -> None:
    done = run_process("-", cwd=lint.folder, stdin=b"\xff\xfe\x00")
    assert done.returncode == 1
    assert done.stdout.startswith(b"stdin.py:1:1: PG002 is UTF-16")
    assert done.stderr == b""
