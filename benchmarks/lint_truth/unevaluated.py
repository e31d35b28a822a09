"""Parts of statements that no program evaluated: note them in a truth table.

`x.item() if x is not None else 0` runs without its first arm where `x` is None. What a finding
says about that arm is neither right nor wrong then, as with a line that did not run. So the
programs are run once more, and such parts of statements that ran (arms, what is behind an `and`,
the inside of a comprehension) are noted where no program evaluated them.

    .venv-truth-newer/bin/python -m benchmarks.lint_truth.unevaluated --set newer

Run it after each merge, in the environment of the set.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

from benchmarks.lint_truth import second_run
from benchmarks.lint_truth.findings import Part, statements_of
from benchmarks.lint_truth.pool import Report, run_all
from benchmarks.lint_truth.statements import Sources
from benchmarks.lint_truth.truth import is_model_code

Parts = dict[str, set[Part]]

#: Instructions that carry the place of the expression before them, evaluated or not.
_BESIDE = frozenset({"RETURN_VALUE", "LIST_APPEND", "SET_ADD", "MAP_ADD", "JUMP_BACKWARD"})


def conditional_parts(source: str) -> list[Part]:
    """The expressions that are evaluated under a condition that their statement holds itself."""
    return [
        (part.lineno, part.col_offset, part.end_lineno or 0, part.end_col_offset or 0)
        for node in ast.walk(ast.parse(source))
        for part in _under_condition(node)
    ]


def _under_condition(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from node.values[1:]
    elif isinstance(node, ast.Lambda):
        yield node.body
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        yield node.elt
    elif isinstance(node, ast.DictComp):
        yield from (node.key, node.value)
    elif isinstance(node, ast.comprehension):
        yield from node.ifs


def wanted_parts(
    ran: Mapping[str, str],
    read_source: Callable[[str], str | None],
    counted: Callable[[str], bool],
) -> Parts:
    """The conditional parts of statements that ran, in `counted` files."""
    statement = Sources(read_source).statement
    found: Parts = {}
    for file in filter(counted, ran):
        reached = statements_of({file: ran[file]}, statement)
        parts = conditional_parts(read_source(file) or "")
        found[file] = {part for part in parts if (file, statement(file, part[0])) in reached}
    return {file: held for file, held in found.items() if held}


def outermost(parts: Collection[Part]) -> list[Part]:
    """The parts that lie in no other one."""
    return sorted(
        part
        for part in parts
        if not any(p != part and p[:2] <= part[:2] and part[2:] <= p[2:] for p in parts)
    )


class Recorder:
    """Which of the `wanted` parts are evaluated during calls."""

    def __init__(self, wanted: Mapping[str, Collection[Part]]) -> None:
        self._wanted = wanted
        self._tables: dict[CodeType, dict[int, list[Part]]] = {}
        self.seen: Parts = defaultdict(set)

    def during(self, call: Callable[[], Any], name_of: Callable[[str], str | None]) -> None:
        """Make `call`; `name_of` gives a source file's name in `wanted`."""

        def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
            name = name_of(frame.f_code.co_filename)
            table = self._table(name, frame.f_code) if name in self._wanted else {}
            if name is None or not table:
                return None
            found = self.seen[name]

            def step(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
                if event == "opcode":
                    found.update(table.get(frame.f_lasti, ()))
                return step

            frame.f_trace_opcodes = True
            return step

        previous = sys.gettrace()
        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(previous)

    def _table(self, name: str | None, code: CodeType) -> dict[int, list[Part]]:
        """The parts that each instruction of `code` belongs to, by the instruction's offset."""
        table = self._tables.get(code)
        if table is None:
            table = self._tables[code] = {}
            for instruction in dis.get_instructions(code):
                place = instruction.positions
                if instruction.opname in _BESIDE or place is None or None in place:
                    continue
                start, stop = (place.lineno, place.col_offset), place[1::2]
                held = [p for p in self._wanted[name or ""] if p[:2] <= start and stop <= p[2:]]
                if held:
                    table[instruction.offset] = held
        return table


def _observe_model(entry: Any, mode: str, wanted: Parts, report: Report) -> None:
    import torch

    from benchmarks.lint_truth.builders import build
    from benchmarks.lint_truth.packages import relative_name
    from benchmarks.lint_truth.worker import calls_of, prepare_on, seed_all

    recorder = Recorder(wanted)

    def run() -> None:
        model, inputs = build(entry, mode)
        seed_all()
        with torch.set_grad_enabled(mode == "train"):
            prepare_on(model, "cpu")
            calls = calls_of(inputs, mode)
            recorder.during(lambda: [model(**each) for each in calls], relative_name)

    _report(f"{entry.name}:{mode}", run, recorder, report)


def _observe_program(program: Any, wanted: Parts, report: Report) -> None:
    from benchmarks.lint_truth.packages import relative_name
    from benchmarks.lint_truth_packages.worker import CALLS, built

    recorder = Recorder(wanted)

    def run() -> None:
        call = built(program)
        recorder.during(lambda: [call.run() for _ in range(CALLS)], relative_name)

    _report(program.label, run, recorder, report)


def _report(label: str, run: Callable[[], None], recorder: Recorder, report: Report) -> None:
    """Report what `run` evaluates, in eager mode and with the branches that are meant for
    compilation; also where it ends with an error.
    """
    from benchmarks.lint_truth import ghost

    errors = _error_of(run, contextlib.nullcontext()), _error_of(run, ghost.as_if_compiling())
    seen = {file: sorted(parts) for file, parts in recorder.seen.items()}
    report({"label": label, "seen": seen, "error": "; ".join(filter(None, errors))})


def _error_of(run: Callable[[], None], mode: contextlib.AbstractContextManager[None]) -> str:
    from benchmarks.lint_truth.worker import quiet, short_traceback

    try:
        with quiet(), mode:
            run()
    except Exception as error:
        return short_traceback(error)
    return ""


def _model_jobs(
    chosen: str, truth: Mapping[str, Any], wanted: Parts
) -> Iterator[tuple[str, Callable[[Report], None]]]:
    from benchmarks.lint_truth import packages, preload
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.versions import SETS

    packages.declare_vision_operators()
    preload.load()
    for entry in catalogue(SETS[chosen]):
        mine = {
            file: held
            for file, held in wanted.items()
            if entry.name in truth["files"].get(file, ())
        }
        for mode in entry.modes if mine else ():
            job = functools.partial(_observe_model, entry, mode, mine)
            yield f"{entry.name}:{mode}", job


def _program_jobs(wanted: Parts) -> Iterator[tuple[str, Callable[[Report], None]]]:
    """The programs of each package that has such a part."""
    from benchmarks.lint_truth import packages
    from benchmarks.lint_truth_packages.catalogue import PACKAGES, programs

    packages.declare_vision_operators()
    for name, imported in PACKAGES.items():
        mine = {file: held for file, held in wanted.items() if file.startswith(f"{imported}/")}
        for program in programs(name) if mine else ():
            yield program.label, functools.partial(_observe_program, program, mine)


def main() -> int:
    """Command line; returns the exit status."""
    arguments = second_run.started(__doc__)
    chosen = arguments.set
    path, truth = second_run.read(chosen)
    of_packages = chosen == "packages"
    counted = (lambda file: True) if of_packages else is_model_code
    wanted = wanted_parts(truth["ran"], second_run.reader(chosen), counted)
    jobs = list(_program_jobs(wanted) if of_packages else _model_jobs(chosen, truth, wanted))
    print(f"{sum(map(len, wanted.values()))} parts, {len(jobs)} programs", flush=True)
    for records in run_all(jobs, arguments.workers, arguments.seconds):
        for record in records:
            print(record["label"], record.get("error", ""), flush=True)
            for file, parts in record.get("seen", {}).items():
                wanted[file].difference_update(map(tuple, parts))  # jobs that start later ask less
    left = {file: outermost(held) for file, held in sorted(wanted.items()) if held}
    truth["unevaluated"] = left
    second_run.write(chosen, path, truth)
    print(f"{sum(map(len, left.values()))} parts were evaluated by no program -> {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
