"""Count lines of code: no blank lines, comments or docstrings; native code counts.

    python -m benchmarks.code_lines [FOLDER ...] [--json FILE]

A line of code is one that holds at least one token of the program itself. Docstrings are the
strings that Python takes as such; comments of C and C++ are `//` and `/* */`.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from pathlib import Path

PACKAGES = ("pygraph_lint", "pygraph_rt")
NATIVE = (".c", ".cpp", ".h", ".hpp")
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# A string, a character, or a comment: strings are matched so that `//` in one is no comment.
_NATIVE_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)


def python_lines(text: str) -> int:
    """The number of lines of Python code in ``text``, which must parse."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def native_lines(text: str) -> int:
    """The number of lines of C or C++ code in ``text``."""

    def without_comment(match: re.Match[str]) -> str:
        found = match.group()
        return "\n" * found.count("\n") if found[0] == "/" else found

    return sum(bool(line.strip()) for line in _NATIVE_TOKEN.sub(without_comment, text).splitlines())


def count(folder: Path) -> dict[str, int]:
    """Lines of code by file below ``folder``, largest first."""
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".py":
            found[path.as_posix()] = python_lines(path.read_text(encoding="utf-8"))
        elif path.suffix in NATIVE:
            found[path.as_posix()] = native_lines(path.read_text(encoding="utf-8"))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=PACKAGES)
    parser.add_argument("--json", type=Path, help="write the counts of all files here")
    given = parser.parse_args()
    counts = {folder: count(Path(folder)) for folder in given.folders}
    for folder, files in counts.items():
        print(f"{folder}: {sum(files.values())} lines of code in {len(files)} files")
    if given.json:
        given.json.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
