"""Settings files: which one holds, what they may say, and how wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.settings_reference import reference
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.selection import Selection, matches_glob
from pygraph_lint.files.settings import DECLARED, Resolver, Settings, read_file
from pygraph_lint.rules.catalogue import load
from tests.lint.support import REPOSITORY, SYNCS, Lint


def test_nearest_file_wins_whole(lint: Lint) -> None:
    lint.write(
        {
            "pyproject.toml": '[tool.pygraph-lint]\nignore = ["PG201"]\n',
            "outer.py": SYNCS,
            "inner/pygraph-lint.toml": 'ignore = ["PG102"]\n',
            "inner/model.py": SYNCS,
            "other/pyproject.toml": "[project]\nname = 'no table of ours'\n",
            "other/model.py": SYNCS,
        }
    )
    assert [line.split(":")[0] for line in lint(".").lines] == ["inner/model.py"]


def test_own_file_wins_over_pyproject_beside_it(lint: Lint) -> None:
    lint.write(
        {
            "pyproject.toml": '[tool.pygraph-lint]\nignore = ["PG201"]\n',
            "pygraph-lint.toml": 'select = ["PG2"]\n',
            "model.py": SYNCS,
        }
    )
    assert len(lint("model.py").lines) == 1


def test_command_line_wins_over_files(lint: Lint) -> None:
    lint.write({"pygraph-lint.toml": 'select = ["PG1"]\n', "model.py": SYNCS})
    assert lint("model.py").lines == []
    assert len(lint("--select", "PG2", "model.py").lines) == 1


def test_config_option_stands_for_all_files(lint: Lint) -> None:
    lint.write(
        {
            "pygraph-lint.toml": 'select = ["PG1"]\n',
            "other/mine.toml": 'select = ["PG2"]\n',
            "model.py": SYNCS,
        }
    )
    assert len(lint("--config", "other/mine.toml", "model.py").lines) == 1
    missing = lint("--config", "nowhere.toml", "model.py")
    assert missing.code == 2
    assert "nowhere.toml: cannot be read" in missing.err


def test_a_table_with_an_underscore_is_not_left_out_without_a_word(lint: Lint) -> None:
    lint.write({"pyproject.toml": '[tool.pygraph_lint]\nignore = ["PG201"]\n', "a.py": SYNCS})
    result = lint("a.py")
    assert result.code == 2
    assert "[tool.pygraph_lint] must be [tool.pygraph-lint]" in result.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("selct = ['PG2']", "unknown setting `selct`; did you mean `select`?"),
        ("frobnicate = 1", "unknown setting `frobnicate`; known keys: select,"),
        ("select = 'PG2'", "`select` must be a list of strings, not 'PG2'"),
        ("select = ['PG999']", "no rule matches `PG999`; did you mean PG"),
        ("ignore = ['E501']", "no rule matches `E501`"),
        ("per-file-ignores = ['x']", "`per-file-ignores` must be a table of globs"),
        ("per-file-ignores = {'a.py' = ['Q1']}", "no rule matches `Q1`"),
        ("target = 'gpu'", "`target` must be one of compile, fullgraph, cudagraph, not 'gpu'"),
        (
            "target-torch = '2'",
            '`target-torch` must be a torch version, 2.11 or later, such as "2.13"',
        ),
        (
            "target-torch = '2.9'",
            '`target-torch` must be a torch version, 2.11 or later, such as "2.13"',
        ),
        ("preview = 'yes'", "`preview` must be true or false"),
        ("max-file-size = -1", "`max-file-size` must be a positive number of bytes"),
        ("select = [", "is not valid TOML"),
        ('select = ["\\ud800"]', "is not valid TOML"),
    ],
)
def test_wrong_settings_are_one_clear_line(lint: Lint, text: str, said: str) -> None:
    lint.write({"pygraph-lint.toml": text + "\n", "model.py": SYNCS})
    result = lint("model.py")
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    assert "pygraph-lint.toml" in result.err
    assert said in result.err


def test_wrong_settings_are_placed(lint: Lint) -> None:
    head = '[project]\nname = "select"\n\n[tool.pygraph-lint]\n'
    for text, line in (
        ('preview = true\nselect = ["PG201",\n  "PG999"]\n', 7),
        ("preview = true\nselekt = []\n", 6),
        ("preview = 3\n", 5),
    ):
        lint.write({"pyproject.toml": head + text, "model.py": SYNCS})
        result = lint("model.py")
        assert result.err.startswith(f"error: {lint.folder}/pyproject.toml:{line}: ")
    # What the command line says is not blamed on a file.
    lint.write({"pyproject.toml": head})
    assert lint("--select", "PG999", "model.py").err.startswith("error: no rule matches `PG999`")


def test_the_command_line_switches_off_what_settings_switch_on(lint: Lint) -> None:
    noqa = SYNCS.replace(".item()", ".item()  # noqa: PG201")
    lint.write(
        {
            "pygraph-lint.toml": "ignore-noqa = true\nforce-exclude = true\nexclude = ['old.py']\n"
            "respect-gitignore = false\nunsafe-fixes = true\n",
            ".git/HEAD": "",
            ".gitignore": "ignored.py\n",
            "ignored.py": noqa,
            "old.py": SYNCS,
        }
    )
    assert len(lint(".").lines) == 1
    assert lint("--no-ignore-noqa", ".").lines == []
    assert lint("--respect-gitignore", ".").lines == []
    assert lint("old.py").lines == []
    assert len(lint("--no-force-exclude", "old.py").lines) == 1
    lint("--fix", "--no-unsafe-fixes", "--no-force-exclude", "old.py")
    assert lint.read("old.py") == SYNCS


def test_settings_that_are_not_text(lint: Lint) -> None:
    lint.write({"pygraph-lint.toml": b"\xff\xfe\x00", "model.py": SYNCS})
    result = lint("model.py")
    assert result.code == 2
    assert "is not UTF-8 text" in result.err


def test_wrong_code_on_the_command_line(lint: Lint) -> None:
    lint.write({"model.py": SYNCS})
    result = lint("--select", "PG2O1", "model.py")
    assert result.code == 2
    assert "no rule matches `PG2O1`; did you mean PG201?" in result.err


def test_per_file_ignores(lint: Lint) -> None:
    lint.write(
        {
            "pygraph-lint.toml": 'per-file-ignores = {"scripts/*" = ["PG2"], "old.py" = ["ALL"]}\n',
            "model.py": SYNCS,
            "scripts/model.py": SYNCS,
            "deep/old.py": SYNCS,
        }
    )
    assert [line.split(":")[0] for line in lint(".").lines] == ["model.py"]


def test_preview_rules_are_off_until_asked_for() -> None:
    rules = load()
    code = next(code for code, rule in rules.items() if rule.status == "preview")
    folder = Path("/")
    assert not Selection(Settings(folder), rules).enabled(code)
    assert not Selection(Settings(folder, select=(code[:3],)), rules).enabled(code)
    assert Selection(Settings(folder, preview=True), rules).enabled(code)
    assert Selection(Settings(folder, select=(code,)), rules).enabled(code)
    uncertain = Selection(Settings(folder), rules)
    assert uncertain.enabled("PG201")
    assert not uncertain.enabled("PG201", preview=True)


@pytest.mark.parametrize(
    ("glob", "path", "meant"),
    [
        ("tests", "/p/tests/test_a.py", True),
        ("tests/", "/p/tests/test_a.py", True),
        ("tests/*", "/p/tests/test_a.py", True),
        ("test_*.py", "/p/deep/test_a.py", True),
        ("deep/*.py", "/p/deep/test_a.py", True),
        ("tests", "/p/src/model.py", False),
        ("a/b", "/p/a/b/c/d.py", True),
        ("b", "/p/a/bc.py", False),
    ],
)
def test_globs(glob: str, path: str, meant: bool) -> None:
    assert matches_glob(Path(path), glob, Path("/p")) is meant


def test_settings_are_read_once_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pygraph-lint.toml").write_text("preview = true\n")
    seen: list[Settings] = []
    resolver = Resolver(check=seen.append)
    for name in ("a", "a/b", "a/b/c"):
        assert resolver.of(tmp_path / name).preview
    # The default settings once, and the file's once.
    assert [settings.preview for settings in seen] == [False, True]


def test_every_setting_is_documented() -> None:
    """`make docs-settings` writes the table."""
    assert reference() in (REPOSITORY / "docs" / "reference" / "settings.md").read_text()


def test_the_example_in_the_docs_is_valid(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "settings.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "pyproject.toml"
    path.write_text(example)
    settings = read_file(path)
    assert settings is not None
    Selection(settings, load())
    path.write_text(example + "\nunknown-key = 1\n")
    with pytest.raises(SettingsError):
        read_file(path)


def test_extend_takes_what_the_file_leaves_open(lint: Lint) -> None:
    lint.write(
        {
            "base.toml": 'ignore = ["PG201"]\ntarget-torch = "2.13"\n',
            "middle/pygraph-lint.toml": 'extend = "../base.toml"\npreview = true\n',
            "middle/inner/pygraph-lint.toml": 'extend = "../pygraph-lint.toml"\nignore = []\n',
        }
    )
    middle = read_file(lint.folder / "middle" / "pygraph-lint.toml")
    inner = read_file(lint.folder / "middle" / "inner" / "pygraph-lint.toml")
    assert middle is not None
    assert inner is not None
    assert (middle.ignore, middle.preview) == (("PG201",), True)
    assert (inner.ignore, inner.preview, inner.target_torch) == ((), True, "2.13")
    assert inner.folder == lint.folder / "middle" / "inner"


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ('extend = "pygraph-lint.toml"', "leads back to"),
        ('extend = "nowhere.toml"', "nowhere.toml: cannot be read"),
        ('extend = "other/pyproject.toml"', "has no [tool.pygraph-lint] table"),
        ("extend = 3", "must be the path of a file"),
    ],
)
def test_a_wrong_extend_is_refused(lint: Lint, said: str, complaint: str) -> None:
    lint.write({"pygraph-lint.toml": said, "other/pyproject.toml": "", "model.py": SYNCS})
    result = lint("model.py")
    assert result.code == 2
    assert complaint in result.err
    assert result.err.count("\n") == 1


def test_isolated_reads_no_file(lint: Lint) -> None:
    lint.write({"pygraph-lint.toml": 'ignore = ["PG201"]', "model.py": SYNCS})
    assert lint("model.py").lines == []
    assert len(lint("--isolated", "model.py").lines) == 1
    both = lint("--isolated", "--config", "pygraph-lint.toml", "model.py")
    assert both.code == 2


def test_shown_settings_can_be_used_as_settings(lint: Lint) -> None:
    written = (
        'ignore = ["PG5"]\ntarget = "cudagraph"\npreview = true\nbaseline = "known.json"\n'
        '[per-file-ignores]\n"tests/*" = ["PG2", "PG3"]\n'
    )
    lint.write({"pygraph-lint.toml": written})
    shown = lint("--show-settings").out
    assert "# target-torch: not set\n" in shown
    lint.write({"pygraph-lint.toml": shown})
    again = lint("--show-settings")
    assert (again.out, again.code) == (shown, 0)


def test_show_files_and_show_settings(lint: Lint) -> None:
    lint.write(
        {"pygraph-lint.toml": 'exclude = ["old.py"]', "a.py": SYNCS, "old.py": "", "b/c.py": ""}
    )
    shown = lint("--show-files", ".")
    assert (shown.out, shown.code) == ("a.py\nb/c.py\n", 0)
    shown = lint("--show-settings", "--select", "PG2")
    assert 'exclude = ["old.py"]\n' in shown.out
    assert 'select = ["PG2"]\n' in shown.out
    assert "PG201" not in shown.out


def test_rules_are_off_in_some_files_by_an_option(lint: Lint) -> None:
    lint.write(
        {
            "pyproject.toml": '[tool.pygraph-lint.per-file-ignores]\n"a.py" = ["PG201"]\n',
            "a.py": SYNCS,
            "b.py": SYNCS,
            "c.py": SYNCS,
        }
    )
    assert [line.split(":")[0] for line in lint(".").lines] == ["b.py", "c.py"]
    said = lint("--per-file-ignores", "b.py:PG1,PG2,c.py:item", ".")
    assert [line.split(":")[0] for line in said.lines] == ["a.py"]
    assert lint("--per-file-ignores", "PG2", ".").code == 2
    assert "no rule matches `PG999`" in lint("--per-file-ignores", "*:PG999", ".").err


def test_config_explains_settings(lint: Lint) -> None:
    keys = lint("config")
    assert (keys.out.splitlines(), keys.code) == ([*DECLARED], 0)
    for key in DECLARED:
        shown = lint("config", key)
        assert str(DECLARED[key].metadata["meaning"]) in shown.out
        assert "Default: " in shown.out
    wrong = lint("config", "targt")
    assert (wrong.code, "did you mean `target`?" in wrong.err) == (2, True)
