"""Notebooks: checked as one program, fixed cell by cell, everything else left byte for byte."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pygraph_lint.files.notebooks import Places, cell_text, placed, to_program, with_program
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


# How each format says where the finding in row 4 of cell 3 is. What services show needs the line of
# the file, and has the cell in the message.
SHOWN = {
    "azure": "sourcepath=book.ipynb;linenumber={line};code=PG101;]cell 3:4:16: `torch.zeros`",
    "concise": "book.ipynb:cell 3:4:16: PG101 [*] `torch.zeros`",
    "full": "4 |         mask = torch.zeros(x.shape[0]).to(x.device)",
    "github": "book.ipynb,line={line}::book.ipynb:cell 3:4:16: PG101 `torch.zeros`",
    "gitlab": '"description": "PG101: cell 3:4:16: `torch.zeros`',
    "grouped": "book.ipynb:\n  cell 3:4:16 PG101 [*] `torch.zeros`",
    "json": '"cell": 3,',
    "json-lines": '"cell": 3, "location": {{"row": 4, "column": 16}}, "end_location": {{"row": 4, ',
    "junit": '<testcase name="PG101 cell 3:4:16" classname="book.ipynb"',
    "pylint": "book.ipynb:{line}: [PG101] cell 3:4:16: `torch.zeros`",
    "rdjson": '"message": "cell 3:4:16: `torch.zeros`',
    "sarif": '"text": "cell 3:4:16: `torch.zeros`',
}
LINES: dict[str, Callable[[Any], Any]] = {
    "gitlab": lambda found: found[0]["location"]["positions"],
    "rdjson": lambda found: found["diagnostics"][0]["location"]["range"],
    "sarif": lambda found: found["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
        "region"
    ],
}


@pytest.mark.parametrize("indent", [1, None])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_the_cell(lint: Lint, form: str, indent: int | None) -> None:
    data = notebook(MARKDOWN, code(IMPORTS), code(MODEL), indent=indent)
    line = data[: data.index(b"torch.zeros")].count(b"\n") + 1
    assert line == (1 if indent is None else 54)
    lint.write({"book.ipynb": data})
    out = lint("--output-format", form, "book.ipynb").out
    assert SHOWN[form].format(line=line) in out
    if form in LINES:
        place = LINES[form](json.loads(out))
        expected = {"begin": {"line": line}, "end": {"line": line}}
        if form == "rdjson":
            expected = {"start": {"line": line}, "end": {"line": line}}
        assert place == ({"startLine": line, "endLine": line} if form == "sarif" else expected)


def test_shown_fixes_name_the_cell(lint: Lint) -> None:
    lint.write({"book.ipynb": BOOK})
    said = "book.ipynb:cell 3:4: PG101 Make the tensor on its device"
    assert f"would fix {said}" in lint("--diff", "--show-fixes", "book.ipynb").err
    assert f"fixed {said}" in lint("--fix", "--show-fixes", "book.ipynb").out


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
    assert out.startswith("--- book.ipynb:cell 3\n+++ book.ipynb:cell 3\n@@ -1,5 +1,5 @@\n")
    assert " %load_ext autoreload\n" in out
    assert "+        mask = torch.zeros(x.shape[0], device=x.device)  # starts empty\n" in out
    assert (lint.folder / "book.ipynb").read_bytes() == BOOK


def test_stdin(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BOOK)))
    assert len(lint("--stdin-filename", "book.ipynb", "-").lines) == 2
    done = run_process("--fix", "--stdin-filename", "b.ipynb", "-", cwd=lint.folder, stdin=BOOK)
    assert json.loads(done.stdout)["cells"][2]["source"][3].strip().endswith("# starts empty")
    assert b"device=x.device" in done.stdout


def test_stdin_without_a_notebooks_name_is_no_program(lint: Lint) -> None:
    done = run_process("-", cwd=lint.folder, stdin=BOOK)
    assert done.returncode == 2
    assert b"name it as one: --stdin-filename book.ipynb" in done.stderr


@pytest.mark.parametrize("options", [(), ("--fix",), ("--diff",)])
def test_stdin_that_is_no_notebook(lint: Lint, options: tuple[str, ...]) -> None:
    done = run_process(*options, "--stdin-filename", "b.ipynb", "-", cwd=lint.folder, stdin=b"[1")
    assert done.returncode == 2
    said = done.stderr if options else done.stdout
    assert said.startswith(b"b.ipynb:1")
    assert b": PG002 is not a valid notebook: line 1, column 3" in said
    assert options == () or done.stdout == b""


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
    [
        b"{",
        b"[]",
        b'{"cells": 3}',
        b'{"cells": [{"cell_type": "code"}]}',
        b"\xff",
        b"null",
        b"1",
        b'{"cells": [{"cell_type": "code", "source": 5}]}',
        b'{"cells": [{"cell_type": "code", "source": [5]}]}',
    ],
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
    odd: list[Any] = [[], None, {"language_info": None}, {"language_info": []}]
    for number, metadata in enumerate(odd):
        lint.write({f"odd{number}.ipynb": notebook(code("x = 1"), metadata=metadata)})
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
        "found['a'] = !ls",
        "found[names[0]].files = !ls",
        "n: int = %time f()",
        "%%time\nx = 1",
        "%%html\n<a>\n  <b>",
        "%%bash\nfor i in 1 2; do\n  echo hi\ndone",
        "z = (\n    3\n    % 2\n    != 1\n)",
        "z = 'is %s' \\\n    % (2,)",
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


@pytest.mark.parametrize(
    "text",
    [
        'n = 3\n"n=%d" % n',
        'print(\n    "loss=%f" % 1.0\n)',
        "names = [\n    'lr=%g' % 0.1,\n]",
        "found = {\n    'q': 'a=%g' % 0.1,\n}",
        'show = (lambda:\n    "n=%d" % 3)',
        'label: str = "n=%d" % 3',
    ],
)
def test_a_percent_sign_in_a_string_is_no_magic(text: str) -> None:
    assert text in to_program(notebook(code(text))).decode()


def test_what_a_magic_gives_a_value_to_is_bound_there() -> None:
    data = notebook(code("draw = 1\nif True:\n    draw = %sum -2\n    a, b = !ls \\\n  -l"))
    lines = to_program(data).decode().split("\n")
    assert [line.split("=")[0] for line in lines[3:5]] == ["    draw ", "    a, b "]
    assert with_program(data, to_program(data)) == data


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


@given(st.lists(st.tuples(SOURCES, st.booleans()), min_size=1, max_size=4), st.sampled_from([1, 4]))
def test_each_row_is_on_its_line_of_the_file(cells: list[tuple[str, bool]], indent: int) -> None:
    data = notebook(MARKDOWN, *(code(text, as_list) for text, as_list in cells), indent=indent)
    lines = data.decode().split("\n")
    rows = to_program(data).decode().split("\n")
    places = Places(data)
    for number in range(1, len(rows)):
        place = places(Location(number, 1))
        assert place.cell is not None
        text = cells[place.cell - 2][0]
        row = text.split("\n")[place.row - 1]
        if text and rows[number - 1] == row:
            # Jupyter cuts there, too.
            last = row.rpartition("\u2028")[2]
            shown = json.dumps(last, ensure_ascii=False)[1:-1]
            assert place.line is not None
            assert shown in lines[place.line - 1]


def test_a_row_of_several_strings() -> None:
    cell = code("") | {"source": ["a", "b\n", "c\nd", "\n", "e"]}
    data = notebook(cell)
    first = data.decode().split("\n").index('    "a",') + 1
    lines = [Places(data)(Location(row, 1)).line for row in range(2, 6)]
    assert lines == [first + 1, first + 2, first + 3, first + 4]


def test_places() -> None:
    program = to_program(notebook(MARKDOWN, code("a\nb"), code("c"))).decode()
    shown = [str(placed(program, Location(row, 2))) for row in range(1, 6)]
    assert shown == ["cell 2:1:2", "cell 2:1:2", "cell 2:2:2", "cell 3:1:2", "cell 3:1:2"]


TOP_LEVEL = """\
w = otherlib.make()
print(torch.linalg.norm(w))
if torch.linalg.norm(w) > 1:
    w = torch.linalg.solve(w, w)
"""
STEP = """\
def step(w: torch.Tensor):
    return w * w.max().item()
"""
LOOP = """\
for x, y in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.parametrize("first", ["import torch, otherlib", "import torch, otherlib  # a graph"])
def test_the_top_level_of_a_notebook_is_a_script(lint: Lint, first: str) -> None:
    parts = (first, TOP_LEVEL, STEP, LOOP)
    cells = [code(part) for part in parts]
    lint.write({"book.ipynb": notebook(*cells), "script.py": "\n".join(parts)})
    found = lint("--regions", "all", "--output-format", "json", ".").json()
    of: dict[str, list[str]] = {"book.ipynb": [], "script.py": []}
    for each in found:
        of[each["filename"].rpartition("/")[2]].append(each["code"])
    assert of["book.ipynb"] == of["script.py"] == ["PG201", "PG704", "PG701"]
