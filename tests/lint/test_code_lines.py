"""What counts as a line of code."""

from __future__ import annotations

from benchmarks.code_lines import native_lines, python_lines

PYTHON = '''"""A module.

Its docstring.
"""

# a comment
X = """a string
# that is no comment

is code"""


def f(a,
      b):  # two lines
    """A docstring."""
    "no docstring"
    return (a,

            b)
'''

NATIVE = """/* a comment
   of two lines */
int x;  // a comment
// another
char *url = "http://a";

int y; /* here
there */ int z;
"""


def test_python() -> None:
    assert python_lines(PYTHON) == 4 + 2 + 1 + 2


def test_native() -> None:
    assert native_lines(NATIVE) == 4
