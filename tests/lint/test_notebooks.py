"""Notebooks: checked as one program, fixed cell by cell, everything else left byte for byte."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pygraph_lint.files.notebooks import cell_text, placed, to_program, with_program
from pygraph_lint.findings import Location
from pygraph_lint.report import FORMATS
from tests.lint.support import Lint, run_process

IMPORTS = "import torch"
MODEL = """\
%load_ext autoreload
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(x.shape[0]).to(x.device)  # starts empty
        return x + mask * x.max().item()"""
MARKDOWN = {"cell_type": "markdown", "metadata": {}, "source": ["# A title"]}


def code(source: str, as_list: bool = True, **more: Any) -> dict[str, Any]:
    """A code cell with an output."""
    return {
        "cell_type": "code",
        "execution_count": 7,
        "metadata": {"tags": ["ä", "\u2028"]},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["source: 1\n"]}],
        "source": source.splitlines(keepends=True) if as_list else source,
        **more,
    }


def notebook(*cells: dict[str, Any], indent: int | None = 1, **more: Any) -> bytes:
    """A notebook as Jupyter writes it."""
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return (json.dumps(content, indent=indent, ensure_ascii=False) + "\n").encode()


BOOK = notebook(MARKDOWN, code(IMPORTS), code(MODEL))


def test_findings_name_cell_and_row(lint: Lint) -> None:
    lint.write({"book.ipynb": BOOK})
    first, second = lint(".").lines
    assert first.startswith("book.ipynb:cell 3:4:16: PG101 [*]")
    assert second.startswith("book.ipynb:cell 3:5:27: PG201")
    (found, _) = lint("--output-format", "json", "book.ipynb").json()
    assert (found["cell"], found["location"]) == (3, {"row": 4, "column": 16})
    assert found["fix"]["edits"][0]["location"]["row"] == 4


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_the_cell(lint: Lint, form: str) -> None:
    lint.write({"book.ipynb": BOOK})
    out = lint("--output-format", form, "book.ipynb").out
    assert "cell 3:" in out or '"cell": 3' in out
    if form == "full":
        assert "4 |         mask = torch.zeros(x.shape[0]).to(x.device)" in out


def test_fix_changes_the_cell_and_nothing_else(lint: Lint) -> None:
    lint.write({"book.ipynb": BOOK})
    result = lint("--fix", "book.ipynb")
    assert "Fixed 1 finding." in result.err
    wanted = BOOK.replace(b"x.shape[0]).to(x.device)", b"x.shape[0], device=x.device)")
    assert (lint.folder / "book.ipynb").read_bytes() == wanted
    lint("--fix", "book.ipynb")
    assert (lint.folder / "book.ipynb").read_bytes() == wanted


def test_diff_shows_the_cell(lint: Lint) -> None:
    lint.write({"book.ipynb": BOOK})
    out = lint("--diff", "book.ipynb").out
    assert "+        mask = torch.zeros(x.shape[0], device=x.device)  # starts empty\n" in out
    assert (lint.folder / "book.ipynb").read_bytes() == BOOK


def test_stdin(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BOOK)))
    assert len(lint("--stdin-filename", "book.ipynb", "-").lines) == 2
    done = run_process("--fix", "--stdin-filename", "b.ipynb", "-", cwd=lint.folder, stdin=BOOK)
    assert json.loads(done.stdout)["cells"][2]["source"][3].strip().endswith("# starts empty")
    assert b"device=x.device" in done.stdout


def test_comments_and_noqa(lint: Lint) -> None:
    silenced = MODEL.replace("x.max().item()", "x.max().item()  # noqa: PG201")
    lint.write({"book.ipynb": notebook(code(IMPORTS), code(silenced))})
    assert [line.split()[2] for line in lint("book.ipynb").lines] == ["PG101"]
    lint.write({"book.ipynb": BOOK})
    lint("--add-noqa", "book.ipynb")
    assert lint("book.ipynb").lines == []
    assert b"x.max().item()  # noqa: PG201" in (lint.folder / "book.ipynb").read_bytes()


def test_a_notebook_is_no_module(lint: Lint) -> None:
    lint.write({"model.py": "import torch\n", "model.ipynb": BOOK, "use.py": "import model\n"})
    assert len(lint(".").lines) == 2


@pytest.mark.parametrize(
    "data",
    [b"{", b"[]", b'{"cells": 3}', b'{"cells": [{"cell_type": "code"}]}', b"\xff", b"null", b"1"],
)
def test_a_damaged_notebook_is_reported(lint: Lint, data: bytes) -> None:
    lint.write({"book.ipynb": data})
    result = lint("book.ipynb")
    assert result.code == 1
    assert result.lines[0].startswith("book.ipynb:1:1: PG002 is not a ")


def test_a_cell_that_does_not_parse(lint: Lint) -> None:
    lint.write({"book.ipynb": notebook(code(IMPORTS), code("def f(:\n    pass"))})
    assert lint("book.ipynb").lines[0].startswith("book.ipynb:cell 2:1:7: PG001")


def test_empty_and_foreign_notebooks(lint: Lint) -> None:
    r_language = {"language_info": {"name": "R"}}
    lint.write(
        {
            "empty.ipynb": b"",
            "none.ipynb": notebook(),
            "r.ipynb": notebook(code("x <- .item()"), metadata=r_language),
            "bash.ipynb": notebook(code("%%bash\nfor x in 1; do echo; done")),
        }
    )
    assert lint(".").code == 0


@pytest.mark.parametrize(
    "magic",
    [
        "%matplotlib inline",
        "!pip install \\\n    torch",
        "torch.nn?",
        "??torch",
        "files = !ls",
        "time = %time 1",
        "%%time\nx = 1",
        "%%html\n<a>",
        "if True:\n    %cd ..",
    ],
)
def test_magics_are_left_alone(magic: str) -> None:
    data = notebook(code(magic), code("x = 1"))
    program = to_program(data)
    compile(program, "book", "exec")
    assert with_program(data, program) == data
    changed = with_program(data, program.replace(b"\nx = 1\n# %%", b"\nx = 2\n# %%"))
    cells = json.loads(changed)["cells"]
    if "x = 1" in magic:
        assert "".join(cells[0]["source"]) == magic.replace("x = 1", "x = 2")
    else:
        assert changed == data


def test_lines_above_the_first_cell_go_into_it() -> None:
    data = notebook(code("x = 1"), code("y = 2"))
    changed = with_program(data, b"import math\n" + to_program(data))
    assert [cell["source"] for cell in json.loads(changed)["cells"]] == [
        ["import math\n", "x = 1"],
        ["y = 2"],
    ]


SOURCES = st.text(st.sampled_from('ax= \n\t"\\%!?{}[],#é\u2028'), max_size=30)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(SOURCES, st.booleans()), max_size=4), st.sampled_from([None, 1, 4]))
def test_any_cells_come_back(cells: list[tuple[str, bool]], indent: int | None) -> None:
    data = notebook(MARKDOWN, *(code(text, as_list) for text, as_list in cells), indent=indent)
    program = to_program(data)
    assert with_program(data, program) == data
    for number, (text, _) in enumerate(cells, 2):
        found = cell_text(program.decode().removesuffix("\n"), number)
        assert found.count("\n") == text.count("\n")


@given(st.lists(st.tuples(SOURCES, st.booleans()), min_size=1, max_size=3), SOURCES)
def test_a_new_line_at_the_end_of_a_cell(cells: list[tuple[str, bool]], added: str) -> None:
    data = notebook(*(code(text, as_list) for text, as_list in cells))
    line = f"new = {len(added)}"
    lines = to_program(data).decode().removesuffix("\n").split("\n")
    changed = json.loads(with_program(data, "\n".join([*lines, line, ""]).encode()))
    before = json.loads(data)
    last = "".join(changed["cells"][-1].pop("source"))
    assert last == "".join(before["cells"][-1].pop("source")) + f"\n{line}"
    assert changed == before


def test_places() -> None:
    program = to_program(notebook(MARKDOWN, code("a\nb"), code("c"))).decode()
    shown = [str(placed(program, Location(row, 2))) for row in range(1, 6)]
    assert shown == ["cell 2:1:2", "cell 2:1:2", "cell 2:2:2", "cell 3:1:2", "cell 3:1:2"]
