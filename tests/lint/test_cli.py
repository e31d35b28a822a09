"""The command as a user types it."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint import __version__
from pygraph_lint.cli import main
from tests.lint.support import (
    BOTH,
    BOTH_FIXED,
    CLEAN,
    FIXABLE,
    FIXED,
    REPOSITORY,
    SYNCS,
    Lint,
    run_process,
)


def test_findings_give_exit_code_1_and_none_give_0(lint: Lint) -> None:
    lint.write({"bad.py": SYNCS, "good.py": CLEAN})
    assert lint("check", "good.py").code == 0
    found = lint("check", "bad.py")
    assert found.code == 1
    assert len(found.lines) == 1
    assert found.lines[0].startswith("bad.py:6:16: PG201 ")


def test_check_is_the_default_command(lint: Lint) -> None:
    lint.write({"bad.py": SYNCS})
    assert lint("bad.py").lines == lint("check", "bad.py").lines != []
    assert lint("--select", "PG201", "bad.py").lines == lint("bad.py").lines
    # Without a path the current folder is meant.
    assert lint().lines == lint("bad.py").lines


def test_fix_works_without_a_command_word(lint: Lint) -> None:
    lint.write({"src/model.py": FIXABLE})
    result = lint("--fix", "src/")
    assert result.code == 0, result
    assert lint.read("src/model.py") == FIXED


def test_wrong_usage_is_one_line_and_exit_code_2(lint: Lint) -> None:
    for arguments in (["--nonsense"], ["--jobs", "0"], ["--target", "cpu"], ["rule"]):
        result = lint(*arguments)
        assert result.code == 2, arguments
        assert result.err.count("\n") == 1
        assert result.err.startswith("error: ")


def test_select_ignore_and_extend_select(lint: Lint) -> None:
    lint.write({"bad.py": BOTH})

    def codes(*arguments: str) -> set[str]:
        return {line.split()[1] for line in lint(*arguments, "bad.py").lines}

    assert codes() == {"PG101", "PG201"}
    assert codes("--select", "PG2") == {"PG201"}
    assert codes("--select", "PG201,PG101") == {"PG101", "PG201"}
    assert codes("--select", "PG2", "--select", "PG101") == {"PG101", "PG201"}
    assert codes("--ignore", "PG201") == {"PG101"}
    assert codes("--select", "PG2", "--extend-select", "PG101") == {"PG101", "PG201"}
    # The more exact selector wins, as in ruff.
    assert codes("--select", "PG201", "--ignore", "PG2") == {"PG201"}
    assert codes("--select", "item") == {"PG201"}


def test_target_leaves_out_what_does_not_matter_there(lint: Lint) -> None:
    lint.write({"bad.py": SYNCS})
    assert lint("--target", "cudagraph", "bad.py").lines
    assert lint("--target", "compile", "bad.py").lines
    # `.item()` used as a value is no error under fullgraph=True: see the page of PG201.
    assert not lint("--target", "fullgraph", "bad.py").lines


def test_exit_zero(lint: Lint) -> None:
    lint.write({"bad.py": SYNCS})
    result = lint("--exit-zero", "bad.py")
    assert result.code == 0
    assert result.lines


def test_stdin_has_the_name_it_is_given(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    lint.write({"pkg/__init__.py": "", "pkg/base.py": CLEAN.replace("Model", "Base")})
    derived = SYNCS.replace("import torch\n", "import torch\nfrom pkg.base import Base\n")
    derived = derived.replace("(torch.nn.Module)", "(Base)")

    def by_stdin(text: str, *arguments: str) -> list[str]:
        stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        return lint(*arguments, "-").lines

    assert by_stdin(SYNCS)[0].startswith("stdin.py:6:16: PG201")
    found = by_stdin(derived, "--stdin-filename", "pkg/model.py")
    assert found[0].startswith("pkg/model.py:7:16: PG201")
    assert not (lint.folder / "pkg/model.py").exists()


def test_fix_of_stdin_goes_to_stdout_and_the_report_to_stderr(lint: Lint) -> None:
    done = run_process("--fix", "-", cwd=lint.folder, stdin=BOTH.encode())
    assert done.stdout.decode() == BOTH_FIXED
    assert b"stdin.py:12:16: PG201" in done.stderr
    assert done.returncode == 1


def test_diff_shows_and_writes_nothing(lint: Lint) -> None:
    lint.write({"model.py": FIXABLE})
    result = lint("--diff", "model.py")
    assert result.code == 1
    assert "-        mask = torch.zeros(x.shape[0]).to(x.device)  # starts empty\n" in result.out
    assert (
        "+        mask = torch.zeros(x.shape[0], device=x.device)  # starts empty\n" in result.out
    )
    assert lint.read("model.py") == FIXABLE
    lint.write({"model.py": FIXED})
    assert lint("--diff", "model.py").code == 0


def test_show_fixes_fix_only_and_exit_non_zero_on_fix(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    result = lint("--fix", "--show-fixes", "model.py")
    assert "fixed model.py:6: PG101" in result.out
    assert result.code == 1
    lint.write({"model.py": BOTH})
    result = lint("--fix-only", "model.py")
    assert (result.code, result.lines) == (0, [])
    lint.write({"model.py": FIXABLE})
    assert lint("--fix", "--exit-non-zero-on-fix", "model.py").code == 1
    assert lint("--fix", "--exit-non-zero-on-fix", "model.py").code == 0


def test_unfixable_findings_stay(lint: Lint) -> None:
    lint.write({"model.py": FIXABLE})
    assert len(lint("--fix", "--unfixable", "PG1", "model.py").lines) == 1
    assert lint.read("model.py") == FIXABLE


def test_unsafe_fixes_only_on_request(lint: Lint) -> None:
    logs = CLEAN.replace("        return", '        print("step")\n        return')
    lint.write({"model.py": logs})
    assert [line.split()[1] for line in lint("--fix", "model.py").lines] == ["PG501"]
    assert lint.read("model.py") == logs
    result = lint("--fix", "--unsafe-fixes", "model.py")
    assert result.lines == []
    assert "is_compiling" in lint.read("model.py")


def test_unsafe_fixes_of_rules_that_settings_name_are_made_as_safe_ones(lint: Lint) -> None:
    logs = CLEAN.replace("        return", '        print("step")\n        return')
    lint.write({"model.py": logs, "pygraph-lint.toml": 'extend-safe-fixes = ["PG2"]'})
    assert [line.split()[1] for line in lint("--fix", "model.py").lines] == ["PG501"]
    lint.write({"pygraph-lint.toml": 'extend-safe-fixes = ["PG2", "PG50"]'})
    assert " [*] " in lint("model.py").lines[0]
    assert lint("--fix", "model.py").lines == []
    assert "is_compiling" in lint.read("model.py")
    lint.write({"pygraph-lint.toml": 'extend-safe-fixes = ["PG999"]'})
    result = lint("model.py")
    assert (result.code, "PG999" in result.err) == (2, True)


def test_statistics(lint: Lint) -> None:
    lint.write({"a.py": SYNCS, "b.py": SYNCS, "c.py": FIXABLE})
    result = lint("--statistics", ".")
    assert result.out == "2\tPG201\titem\n1\tPG101\tfactory-then-move\n"


def test_add_noqa_silences_everything(lint: Lint) -> None:
    lint.write({"a.py": SYNCS, "b.py": FIXABLE})
    assert lint("--add-noqa", ".").code == 0
    assert lint.read("a.py").splitlines()[5].endswith(".item()  # noqa: PG201")
    assert "# starts empty  # noqa: PG101" in lint.read("b.py")
    assert lint(".").lines == []


def test_no_matching_file_warns_and_is_no_failure(lint: Lint) -> None:
    result = lint(".")
    assert result.code == 0
    assert "no Python files" in result.err
    assert result.out == "Nothing was checked.\n"
    assert lint("--fix", ".").out == "Nothing was checked.\n"


def test_a_folder_that_cannot_be_read_is_no_pass(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    lint.write({"good.py": CLEAN, "closed/bad.py": SYNCS})
    scan = os.scandir

    def refused(folder: Any) -> Any:
        if Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refused)
    for given in (".", "closed"):
        result = lint(given)
        assert result.code == 2
        assert "closed:1:1: PG002 the folder cannot be read: Permission denied" in result.out
        assert "passed" not in result.out


def test_diff_and_fix_only_name_what_cannot_be_read(lint: Lint) -> None:
    lint.write({"broken.py": "import torch\nx = = 1\n"})
    shown = lint("--diff", "broken.py")
    assert shown.code == 1
    assert "broken.py:2:5: PG001" in shown.err
    assert lint("--diff", "missing.py").code == 2
    only = lint("--fix-only", "broken.py")
    assert only.code == 1
    assert "broken.py:2:5: PG001" in only.out


def test_statistics_of_nothing(lint: Lint) -> None:
    lint.write({"good.py": CLEAN})
    assert lint("--statistics", "good.py").out == "All checks passed.\n"


def test_rule_and_rules_print_the_catalogue(lint: Lint) -> None:
    page = lint("rule", "PG201")
    assert page.code == 0
    assert page.out.startswith("# PG201 item\n")
    assert "graph break under torch.compile" in page.out
    assert lint("rule", "item").out == page.out == lint("rule", "pg201").out
    listed = lint("rules").out.splitlines()
    assert len(listed) == len(list((REPOSITORY / "rules").glob("PG*.md")))
    assert all(line.startswith("PG") for line in listed)
    assert lint("rules", "--output-format", "json").json()[0]["code"] == "PG001"
    wrong = lint("rule", "PG2001")
    assert wrong.code == 2
    assert "did you mean PG20" in wrong.err


def test_version_is_fast(lint: Lint) -> None:
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run_process("--version", cwd=lint.folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU time: a busy machine must not fail the test.
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.stdout.decode() == f"pygraph-lint {__version__}\n"
    # 0.1 s on a machine that is not busy; to import libcst alone takes more than this.
    assert min(spent) < 0.25


def test_a_clean_check_imports_neither_torch_nor_libcst(lint: Lint) -> None:
    lint.write({"model.py": CLEAN})
    program = (
        "import sys; from pygraph_lint.cli import main; main(['model.py', '--no-cache']);"
        "print([m for m in ('torch', 'libcst', 'multiprocessing', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=lint.folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().splitlines()[-1] == "[]"


def test_what_to_do_about_a_random_tensor_of_the_host_is_said(lint: Lint) -> None:
    forward = "def forward(self, x):\n        return x + torch.rand(3).to(x.device)\n"
    text = f"import torch\n\n\nclass M(torch.nn.Module):\n    {forward}"
    lint.write({"a.py": text})
    (found,) = lint("--output-format", "json", "a.py").json()
    assert found["code"] == "PG101"
    assert found["by_hand"].startswith("Draw on the device, `torch.rand(n, device=x.device)`")


def test_what_a_capture_by_hand_makes_of_a_print_is_said(lint: Lint) -> None:
    captured = """
import torch

def run(x: torch.Tensor, g: torch.cuda.CUDAGraph) -> torch.Tensor:
    with torch.cuda.graph(g):
        y = x.relu()
        print("captured")
    return y
"""
    compiled = captured.replace("def run", "@torch.compile\ndef run")
    compiled = compiled.replace("with torch.cuda.graph(g):", "if True:")
    lint.write({"captured.py": captured, "compiled.py": compiled})
    by_hand, traced = sorted(
        lint("--output-format", "json").json(), key=lambda found: found["filename"]
    )
    assert by_hand["message"] == "`print` runs at the capture only: no replay repeats it"
    assert by_hand["consequences"]["cudagraph"] == "stale"
    assert (by_hand["consequences"]["compile"], by_hand["consequences"]["fullgraph"]) == (
        "ok",
        "ok",
    )
    assert traced["message"] == "`print` inside the region breaks the graph"
    assert traced["consequences"]["compile"] == "break"


def test_a_mistyped_command_is_no_path(lint: Lint) -> None:
    result = lint("chekc", "src/")
    assert result.code == 2
    assert result.err.startswith(
        "error: there is no file or command 'chekc'; did you mean `check`?"
    )
    assert "did you mean `rule`?" in lint("explain", "PG301").err
    lint.write({"rulez/model.py": SYNCS})
    assert len(lint("rulez").lines) == 1  # a folder of that name is one


def test_unsafe_fixes_alone_say_that_they_do_nothing(lint: Lint) -> None:
    lint.write({"model.py": SYNCS})
    assert "no effect without --fix" in lint("--unsafe-fixes", "model.py").err
    assert lint("--unsafe-fixes", "--diff", "model.py").err.startswith("0 fixes")
    lint.write({"pygraph-lint.toml": "unsafe-fixes = true"})
    assert lint("model.py").err == ""


def test_fix_only_does_not_say_that_all_is_well(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    result = lint("--fix-only", "model.py")
    assert result.out == "1 finding is left; the same command without `--fix-only` shows it.\n"
    assert result.code == 0


def test_the_summary_counts_what_can_be_fixed(lint: Lint) -> None:
    lint.write({"model.py": BOTH})
    said = "Found 2 findings in 1 file. [*] 1 fixable with `--fix`."
    assert lint("model.py").out.splitlines()[-1] == said
    lint.write({"model.py": SYNCS})
    assert lint("model.py").out.splitlines()[-1] == "Found 1 finding in 1 file."


def test_reasons_of_unsafe_fixes_are_shown_with_a_diff(lint: Lint) -> None:
    program = BOTH.replace("return x / (peak + 1.0)", 'print("seen")\n        return x')
    lint.write({"model.py": program})
    result = lint("--diff", "--unsafe-fixes", "--show-fixes", "model.py")
    assert "would fix model.py:6: PG101" in result.err
    assert "(unsafe: " in result.err
    assert lint("--diff", "--unsafe-fixes", "model.py").err.endswith("would be made\n")
    only_safe = lint("--diff", "model.py").err
    assert only_safe == "1 fix in 1 file would be made; 1 more with `--unsafe-fixes`\n"


def test_a_prefix_lists_rules(lint: Lint) -> None:
    shown = lint("rule", "PG6").out.splitlines()
    assert len(shown) > 5
    assert all(line.startswith("PG6") for line in shown)
    assert lint("rule", "PG9").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh", "fish", "powershell"])
def test_completion_scripts(lint: Lint, shell: str) -> None:
    script = lint("completion", shell)
    assert script.code == 0
    assert "unsafe-fixes" in script.out


def test_help_says_what_the_arguments_may_be(lint: Lint) -> None:
    assert "GB0170" in lint("rule", "--help").out
    helped = lint("completion", "--help").out
    assert "powershell" in helped
    assert "eval" in helped


def test_watch_reports_again_after_a_change(lint: Lint) -> None:
    lint.write({"model.py": CLEAN})
    command = [sys.executable, "-u", "-m", "pygraph_lint", "--watch", "--no-cache", "model.py"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    watching = subprocess.Popen(
        command,
        cwd=lint.folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stderr is not None
    try:
        assert watching.stdout.readline() == "All checks passed.\n"
        lint.write({"model.py": SYNCS})
        assert watching.stdout.readline().startswith("model.py:6:16: PG201")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=30) == 130
        # Nothing was being fixed, so there is nothing to say about files.
        assert "interrupted" not in watching.stderr.read()
    finally:
        watching.kill()
        watching.stdout.close()
        watching.stderr.close()


def test_watch_needs_something_to_watch(lint: Lint) -> None:
    assert lint("--watch", "-").code == 2
    assert lint("--watch", "--fix", ".").code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_no_traceback(lint: Lint) -> None:
    lint.write({"model.py": SYNCS})
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pygraph_lint", "model.py"],
            cwd=lint.folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the report cannot be written")
    assert "Traceback" not in done.stderr


def test_rules_by_torchs_id_of_a_break(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "gb0170"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("GB0170 Data-dependent branching\n") and "\nPG301  tensor-branch" in said
    assert "/gb/gb0170.html" in said
    assert main(["rule", "GB9999"]) == 0
    assert "no rule reports it\n" in capsys.readouterr().out
