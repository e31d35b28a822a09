"""The engine: imports, spellings, positions, overlaps, line endings."""

from __future__ import annotations

import ast
import time

import pytest

from pygraph_lint.findings import Edit, Fix, Location
from pygraph_lint.fixes.engine.file_fixes import apply, fix_text
from pygraph_lint.fixes.engine.line_breaks import wrap
from pygraph_lint.fixes.engine.source import Source
from tests.fixes.support import decline, expect, finding, marked, offer


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import os\n\nfrom torch import nn\n",
            "import os\n\nimport torch\nfrom torch import nn\n",
        ),
        ("import torch.nn as nn\n", "import torch\nimport torch.nn as nn\n"),
        ("import torch.nn\n", "import torch.nn\n"),
    ],
)
def test_an_import_is_added_once(before: str, after: str) -> None:
    body = "\ndef forward(x):\n    «print(x)»\n    «print(2)»\n"
    guarded = "\ndef forward(x):\n    if not torch.compiler.is_compiling():\n"
    guarded += "        print(x)\n        print(2)\n"
    expect(before + body, after + guarded, "PG501", "unsafe")


def test_the_files_own_spelling_is_used() -> None:
    _, changed = offer("import torch as t\ndef f(x):\n    «print(x)»\n", "PG501")
    assert "if not t.compiler.is_compiling():" in changed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import torch\ndef f(torch):\n    «print(1)»\n", "means something else"),
        ("from torch import nn\ntorch = 1\ndef f(x):\n    «print(1)»\n", "means something else"),
        ("import os\ndef f(x):\n    «print(1)»\n", "does not import torch"),
        ("if x:\n    import torch\ndef f(x):\n    «print(1)»\n", "under a condition"),
    ],
)
def test_torch_is_not_imported_where_it_may_be_missing(text: str, reason: str) -> None:
    decline(text, "PG501", reason)


def test_a_conditional_import_is_enough_where_torch_is_used() -> None:
    text = "if y:\n    import torch\ndef f(x):\n    «print(1)»\n    return torch.abs(x)\n"
    fix, _ = offer(text, "PG501")
    assert fix is not None
    assert fix.applicability == "unsafe"


def test_a_file_that_libcst_does_not_give_back_is_left_alone() -> None:
    text = "import torch\rdef f(x):\r    «print(1)»\r"
    plain, spans = marked(text)
    place = finding(plain.replace("\r", "\n"), spans[0], "PG501")
    (fix,) = fix_text(plain, [place])
    assert fix is not None
    assert (fix.applicability, "give back" in fix.reason) == ("declined", True), fix.reason


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_marks_stay(newline: str, mark: str) -> None:
    plain, spans = marked(
        "# größer\nimport torch\ndef f(x):\n"
        "    ä = '€'; y = «torch.ones(2).cuda()»\n    «print(x)»\n"
    )
    text = mark + plain.replace("\n", newline)
    rows = [
        finding(plain, span, code) for span, code in zip(spans, ("PG101", "PG501"), strict=True)
    ]
    fixes = fix_text(text, rows)
    changed, applied = apply(text, [fix for fix in fixes if fix is not None])
    assert len(applied) == 2
    expected = (
        "# größer\nimport torch\ndef f(x):\n    ä = '€'; y = torch.ones(2, device='cuda')\n"
        "    if not torch.compiler.is_compiling():\n        print(x)\n"
    )
    assert changed == mark + expected.replace("\n", newline)


def test_overlapping_fixes_are_left_for_the_next_pass() -> None:
    def edit(start: int, end: int, content: str) -> Fix:
        place = Edit(content, Location(1, start + 1), Location(1, end + 1))
        return Fix("safe", content, edits=(place,))

    first, second, third = edit(0, 4, "one"), edit(2, 6, "two"), edit(4, 4, "-")
    assert apply("abcdefgh", [first, second, third]) == ("one-efgh", [first, third])
    assert apply("abcdefgh", [first, first]) == ("oneefgh", [first])


def test_findings_without_a_rewrite_and_broken_files_get_none() -> None:
    plain, spans = marked("import torch\nx = «torch.ones(2).cuda()»\n")
    assert fix_text(plain, [finding(plain, spans[0], "PG999")]) == (None,)
    assert fix_text("x = (\n", [finding(plain, (0, 1), "PG101")]) == (None,)


def test_a_second_run_finds_nothing_to_change() -> None:
    text = "import torch\ndef f(x):\n    return «torch.zeros(2).to(x.device)»\n"
    _, changed = offer(text, "PG101")
    start = changed.index("torch.zeros")
    again = finding(changed, (start, changed.rindex(")") + 1), "PG101")
    fix = fix_text(changed, [again])[0]
    assert fix is not None
    assert fix.applicability == "declined"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("x = f(aaaa, bbbb)", ["x = f(aaaa, bbbb)"]),
        ("x = function(aaaaaa, bbbbbb)", ["x = function(", "    aaaaaa, bbbbbb", ")"]),
        (
            "x = function(aaaaaaaaaaa, bbbbbbbbbbb)",
            ["x = function(", "    aaaaaaaaaaa,", "    bbbbbbbbbbb,", ")"],
        ),
        (
            "x = f(function(aaaaaaaaaaa, bbbbbbbbbbb))",
            [
                "x = f(",
                "    function(",
                "        aaaaaaaaaaa,",
                "        bbbbbbbbbbb,",
                "    )",
                ")",
            ],
        ),
        ("yyyy = aaaaaaa + bbbbbbbbbb", ["yyyy = (", "    aaaaaaa + bbbbbbbbbb", ")"]),
        ("yyyyy = z = aaaaaaa + bbbbbb", ["yyyyy = z = aaaaaaa + bbbbbb"]),
        (
            "return one, two, three, four",
            ["return (", "    one,", "    two,", "    three,", "    four,", ")"],
        ),
        ("return one, two, lambda a, b: a", ["return one, two, lambda a, b: a"]),
        (
            "x = a and bb and cc and dd and e",
            ["x = (", "    a", "    and bb", "    and cc", "    and dd", "    and e", ")"],
        ),
        ("x = a and function(bbbb, cccc)", ["x = a and function(", "    bbbb, cccc", ")"]),
        ("assert a or b, f'{c} {d} {e}' \\", ["assert (", "    a or b", "), f'{c} {d} {e}' \\"]),
        ("assert aaaaaa or bbbbbbbbbbb \\", ["assert aaaaaa or bbbbbbbbbbb \\"]),
        (
            "  f('a, (b', cccccccccccccccc),",
            ["  f(", "      'a, (b',", "      cccccccccccccccc,", "  ),"],
        ),
        (
            "x[aaaaaaaaaaaa, bbbbbbbbbbbbbbb]",
            ["x[", "    aaaaaaaaaaaa,", "    bbbbbbbbbbbbbbb", "]"],
        ),
        ('n["a = b"] = aaaa(1) + bbbbb', ['n["a = b"] = (', "    aaaa(1) + bbbbb", ")"]),
        ("x = aaaa(bbbbbb, ccc) < y[:, None]", ["x = aaaa(", "    bbbbbb, ccc", ") < y[:, None]"]),
        ("x = function(aaaaaaaaaaaaaa) \\", ["x = function(aaaaaaaaaaaaaa) \\"]),
        ("x = function(aaaa, bbb)  # why so", ["x = function(aaaa, bbb)  # why so"]),
    ],
)
def test_long_lines_break_at_brackets(line: str, lines: list[str]) -> None:
    assert wrap(line, 26) == lines
    if line[0] != " " and line[-1] != "\\":
        assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(line))


def test_places_are_found_in_long_files() -> None:
    body = "".join(f"@d(\n{n})\ndef f{n}(x):\n    a = 1; b = 2; print({n})\n\n" for n in range(50))
    source = Source(body)
    for wanted in ("print(0)", "print(7)", "print(49)", "a = 1", "b = 2", "7)\ndef", "f33"):
        start = body.index(wanted)
        path = source.path(start, start + 1)
        low, high = source.span(path[-1])
        assert low <= start < high
        assert high - low < 60


def test_thousands_of_findings_take_seconds() -> None:
    text = "import torch\n" + "def f(x):\n    «print(x)»\n" * 3000
    plain, spans = marked(text)
    findings = [finding(plain, span, "PG501") for span in spans[:300]]
    started = time.process_time()
    fixes = fix_text(plain, findings)
    assert all(fix is not None and fix.applicability == "unsafe" for fix in fixes)
    assert time.process_time() - started < 5


def test_continued_lines_are_joined() -> None:
    expect(
        "import torch\ndef f(x: torch.Tensor):\n"
        "    assert «x.max() < 3» \\\n        and x.min() \\\n        > 0\n",
        "import torch\ndef f(x: torch.Tensor):\n"
        "    assert (x.max() < 3) & (x.min() \\\n        > 0)\n",
        "PG304",
        "unsafe",
    )


FLAGS = "with «torch.backends.cudnn.flags(enabled=False)»:\n        return x.relu()\n"


@pytest.mark.parametrize(
    ("head", "inside"),
    [
        ("if TYPE_CHECKING:\n    import contextlib\n", ""),
        ("try:\n    import missing\n    import contextlib\nexcept ImportError:\n    pass\n", ""),
        ("import contextlib\ndel contextlib\n", ""),
        ("from other import *\n", ""),
        ("contextlib = None\n", ""),
        ("", "if x is None:\n        import contextlib\n    "),
        ("import contextlib\n", "if x is None:\n        import contextlib\n    "),
    ],
)
def test_a_module_that_may_not_be_imported_is_not_used(head: str, inside: str) -> None:
    before = f"import torch\n{head}\ndef forward(x):\n    {inside}{FLAGS}"
    _, changed = offer(before, "PG519")
    assert "contextlib.nullcontext" not in changed


def test_a_module_that_the_function_imports_is_used() -> None:
    body = f"def forward(x: torch.Tensor):\n    import contextlib\n    {FLAGS}"
    _, changed = offer(f"import torch\n\n{body}", "PG519")
    assert "contextlib.nullcontext()" in changed and changed.count("import contextlib") == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import contextlib\n\nimport torch\n"),
        ("import os\nimport torch\n", "import os\nimport contextlib\nimport torch\n"),
        ("import abc\nimport torch\n", "import abc\nimport contextlib\nimport torch\n"),
    ],
)
def test_an_import_stands_where_the_file_would_have_it(before: str, after: str) -> None:
    body = f"\n\ndef forward(x: torch.Tensor):\n    {FLAGS}"
    _, changed = offer(before + body, "PG519")
    assert changed.startswith(f"{after}\n")


@pytest.mark.parametrize("test", ["self.bump() > 0", "(n := x.shape[0]) > 1", "left.pop() > 1"])
def test_a_condition_that_may_have_an_effect_stays_in_front(test: str) -> None:
    before = f"import torch\n\ndef forward(self, x, left):\n    if {test}:\n        «print(1)»\n"
    after = (
        f"import torch\n\ndef forward(self, x, left):\n    if {test}:\n"
        "        if not torch.compiler.is_compiling():\n            print(1)\n"
    )
    expect(before, after, "PG501", "unsafe")


@pytest.mark.parametrize("said", ["left.pop()", "k := 3", "x.add_(1)", "next(left)"])
def test_what_is_said_must_have_no_effect(said: str) -> None:
    before = f"import torch\n\ndef forward(x, left):\n    «print({said})»\n"
    decline(before, "PG501", "has an effect")


@pytest.mark.parametrize(
    ("longest", "lines", "limit"),
    [(40, 9, 88), (72, 9, 88), (79, 9, 79), (79, 1, 88), (80, 9, 80), (84, 9, 88), (97, 1, 100)],
)
def test_the_line_length_that_a_file_keeps(longest: int, lines: int, limit: int) -> None:
    code = ("y = " + "1" * (longest - 4) + "\n") * lines
    assert Source(f"x = 1\n{code}# {'a long comment ' * 12}\n").width == limit


def test_a_line_length_that_few_lines_do_not_keep() -> None:
    code = ("y = " + "1" * 80 + "\n") * 40 + "y = " + "1" * 92 + "\n"
    assert Source(code).width == 88
    text = "def f():\n    '''\n" + ("    " + "a word " * 16 + "\n") * 9 + "    '''\n"
    assert Source(code + text).width == 88


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("elif one_question and more(here):", ["elif (", "    one_question and more(here)", "):"]),
        (
            "elif not torch.compiler.is_compiling() and self.debug and bad(x):",
            [
                "elif (",
                "    not torch.compiler.is_compiling()",
                "    and self.debug",
                "    and bad(x)",
                "):",
            ],
        ),
        (
            "while not_very_long and (this or the_other):",
            ["while (", "    not_very_long", "    and (this or the_other)", "):"],
        ),
        (
            "if first and second or third(x, y, z, zz):",
            ["if (", "    first and second", "    or third(x, y, z, zz)", "):"],
        ),
    ],
)
def test_long_conditions_break_at_their_operators(line: str, lines: list[str]) -> None:
    assert wrap(f"{line}  # so:", 20) == [f"{line}  # so:"]
    width = 31 if len(lines) == 3 else 40
    assert wrap(line, width) == lines


def test_the_guard_stands_in_front_of_a_condition_whose_first_part_is_a_choice() -> None:
    text = "import torch\n\ndef forward(x, y):\n    if (x is y or y is None) and x.dim():\n"
    _, after = offer(f"{text}        «print(x)»\n    return x\n", "PG501")
    assert "if not torch.compiler.is_compiling() and (x is y or y is None) and x.dim():" in after


def test_what_is_not_whole_stays_on_its_line() -> None:
    line = "value = one and two and three), f(four and five"
    assert wrap(line, 26, inside=True) == wrap(line, 26) == [line]


@pytest.mark.parametrize("text", ("return (alpha * beta,)", "value = table[first + second,]"))
def test_a_comma_that_makes_a_tuple_stays_where_a_line_is_broken(text: str) -> None:
    broken = wrap(text, 18, "    ")
    assert len(broken) > 1
    joined = "".join(part.strip() for part in broken)
    assert joined.replace(" ", "") == text.replace(" ", "")
