"""No page says a measured number that is not in a result file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures.data import RESULTS
from tests.docs import claims
from tests.docs.pages import ROOT

_FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"<!-- table: [\w-]+ -->\n(?:\|.*\n)+")
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)|<img [^>]*>")
_CODE = re.compile(r"`[^`\n]*`")
_TARGET = re.compile(r"\]\([^)]*\)")
_UNIT = (
    r"%|x|ms|us|s|[KMG]iB|[kMG]B|times|seconds|of|→|"
    r"models|programs|tests|breaks|errors|findings|files|lines|workloads|edits|rewrites|rows|"
    r"packages|fixes|syncs|regions|graphs|calls|layers|nodes|kernels|events|recompilations|runs|"
    r"differences|comparisons|minutes|hours|samples|inputs|operators|cases|parts|GPUs|ranks"
)
_FIGURE = re.compile(rf"(?<![\w.,#/-])(?<!torch )(\d[\d,]*(?:\.\d+)?) ?(?:{_UNIT})(?![\w-])")
# A cell of a table that holds numbers and nothing else: `2.1 to 7.6`, `3 -> 1`.
_CELL = re.compile(r"(?<=\|) *((?:[\d.,]+|->|→|to|%| )+) *(?=\|)")
CLAIMS = claims.claims()
# Written by a program from results; their own tests compare them.
GENERATED = {
    "explanation/accuracy.md",  # tests/truth/test_report.py
    "explanation/benchmarks-details.md",
    "explanation/benchmarks.md",  # tests/workloads/test_report.py
    "explanation/complaints.md",  # tests/workloads/test_complaints.py
}
# Pages whose numbers are looked up one by one in the files that the page names.
NAMED = {
    "explanation/fixes-measured.md",
    "explanation/safe-fixes.md",
    "how-to/editors.md",
    "how-to/pre-commit.md",
    "how-to/record.md",
    "how-to/trace.md",
    "internals/not-built.md",
    "internals/several-gpus.md",
}
# What is no measurement: limits in the code, in torch or in a library, sizes of what was measured;
# in the first two pages a sum over a file's rows, a rounded count, and another's figure.
NO_MEASUREMENT: dict[str, set[str]] = {
    "explanation/fixes-measured.md": {"147 breaks", "435", "68"},  # sums over safe and unsafe fixes
    "explanation/indirection.md": {"256 MiB"},
    "explanation/runtime-measured.md": {"256 MiB", "200 calls"},
    "how-to/editors.md": {"0.7 s", "95 %", "200 ms", "300 ms", "1,500 ms", "2,000 ms"},  # goals
    "how-to/decoding.md": {"85 %"},  # a goal
    "how-to/regional.md": {"32 times"},
    "internals/glossary.md": {"64 calls"},
    "internals/how-it-works.md": {
        *("1 MiB", "4 KiB", "32 MiB", "64 KiB"),
        *("32 calls", "64 inputs"),
    },
    "internals/invariants.md": {"32 MiB"},
    "internals/not-built.md": {"259 breaks"},
    "internals/memory.md": {
        *("4 KiB", "32 KiB", "64 KiB", "128 KiB", "512 KiB"),
        *("1 MiB", "8 MiB", "10 MiB", "16 MiB", "20 MiB"),
    },
    "internals/trials.md": {"256 times", "8 calls", "16 calls", "64 calls", "128 calls"},
    "reference/limits.md": {"20 MiB", "32 KiB", "128 KiB"},
    "reference/runtime.md": {"4 KiB", "64 KiB"},
    "reference/trace-format.md": {"100 times"},
    "tutorial.md": {"15 minutes", "3 graphs"},  # to read it; what its commands print
    "index.md": {"15 minutes"},
    "README.md": {"15 minutes"},
}


def _pages() -> dict[str, Path]:
    docs = {p.relative_to(ROOT / "docs").as_posix(): p for p in (ROOT / "docs").rglob("*.md")}
    rules = {f"rules/{page.name}": page for page in (ROOT / "rules").glob("*.md")}
    return {**docs, **rules, "README.md": ROOT / "README.md"}


def _plain(text: str) -> str:
    """A page's own words on one line: no code, pictures, generated tables, addresses of links."""
    for pattern in (_FENCED, _TABLE, _PICTURE):
        text = pattern.sub("", text)
    return " ".join(text.split())


def _cells(text: str) -> list[str]:
    """The numbers in cells of a page's own tables that hold nothing else."""
    for pattern in (_FENCED, _TABLE):
        text = pattern.sub("", text)
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return [number for cell in _CELL.findall(rows) for number in re.findall(r"\d[\d.,]*", cell)]


def _figures(text: str) -> list[str]:
    return [match[0] for match in _FIGURE.finditer(_TARGET.sub("]", _CODE.sub("`", text)))]


PAGES = {name: page for name, page in sorted(_pages().items()) if name not in GENERATED}


@pytest.mark.parametrize("name", CLAIMS)
def test_sentences_say_what_the_result_files_hold(name: str) -> None:
    text = _plain(_pages()[name].read_text("utf-8"))
    for sentence in CLAIMS[name]:
        assert sentence in text


@pytest.mark.parametrize("name", PAGES)
def test_every_number_with_a_unit_has_a_source(name: str) -> None:
    text = PAGES[name].read_text("utf-8")
    plain = _plain(text)
    for sentence in CLAIMS.get(name, []):
        plain = plain.replace(sentence, "")
    left = set(_figures(plain))
    if name in NAMED:
        left |= set(_cells(text))
        known = set(_numbers_of_named_files(text))
        left = {figure for figure in left if not _is_in(figure, known)}
    assert not left - NO_MEASUREMENT.get(name, set())


def test_every_exception_is_needed() -> None:
    for name in NO_MEASUREMENT.keys() - NAMED:
        figures = NO_MEASUREMENT[name]
        assert figures <= set(_figures(_plain(PAGES[name].read_text("utf-8")))), name


def _numbers_of_named_files(text: str) -> Iterator[float]:
    for name in set(re.findall(r"results/(\w+\.json)", text)):
        yield from _numbers(json.loads((RESULTS / name).read_text("utf-8")))


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        yield len(value)
        for own in value.values():
            yield from _numbers(own)
    elif isinstance(value, list):
        yield len(value)
        for own in value:
            yield from _numbers(own)
    elif isinstance(value, (int, float)):
        yield float(value)


def _is_in(figure: str, known: set[float]) -> bool:
    """Whether a known number, as it is or in the figure's unit, rounds to the figure."""
    number = figure.split()[0].rstrip("%x").replace(",", "")
    digits = len(number.partition(".")[2])
    scales = (1, 100, 0.001)  # a share as per cent; microseconds as milliseconds
    near = 0.5 * 10**-digits + 1e-9
    return any(abs(own * scale - float(number)) <= near for own in known for scale in scales)


def test_a_number_without_a_source_is_seen() -> None:
    assert _figures("It takes 3.5 ms, `9 ms` less, on [7 files](a9s.md), torch 2.11 of 2026.") == [
        "3.5 ms",
        "7 files",
    ]
    assert _cells("| a 5 | 2.1 to 7.6 | 3 -> 1 |\n| `8` | 9 x |\n") == ["2.1", "7.6", "3", "1"]
    assert _is_in("57 %", {0.5749}) and not _is_in("57 %", {0.58})
    assert _is_in("0.58 ms", {576.8}) and not _is_in("0.58 ms", {500.0})
