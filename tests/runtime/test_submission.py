"""Updating and launching, through ctypes and in compiled code: the same driver calls with the same
bytes, whatever moves.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pygraph_rt.cuda import native
from pygraph_rt.cuda.native import build
from pygraph_rt.cuda.structures import (
    KERNEL,
    MEMCPY,
    MEMSET,
    KernelNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    RawNode,
)
from pygraph_rt.plan.graph import Patch, PatchPlan
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.replay.executable import Executable, ExecutableGraph
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.patch import NativePatcher, Patcher, PythonPatcher
from tests.runtime.fake_driver import FakeDriver

FIELD = 24
BLOCKS = [Block("input", 0), Block("output", 0), Block("pool", 0), Block("pool", 1)]
CONTEXT = 1234


class Recorder(FakeDriver):
    """Notes every update with the bytes it carries; refuses what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: tuple[int, int] | None = None

    def _note(self, kind: str, executable: int, node: int, content: bytes, context: int) -> int:
        self.calls.append((kind, executable, node, content, context))
        return self.refuse[1] if self.refuse and self.refuse[0] == node else 0

    def exec_set_kernel(self, executable: int, node: int, where: int) -> int:
        pointers = KernelParams.from_address(where).params
        content = b"".join(ctypes.string_at(pointers[i], FIELD) for i in range(2))
        return self._note("kernel", executable, node, content, 0)

    def exec_set_memcpy(self, executable: int, node: int, where: int, context: int = 0) -> int:
        content = ctypes.string_at(where, ctypes.sizeof(MemcpyParams))
        return self._note("copy", executable, node, content, context)

    def exec_set_memset(self, executable: int, node: int, where: int, context: int = 0) -> int:
        content = ctypes.string_at(where, ctypes.sizeof(MemsetParams))
        return self._note("fill", executable, node, content, context)

    def launch(self, executable: int, stream: int) -> int:
        self.calls.append(("launch", executable, stream))
        return 0


def raw_node(number: int, kind: int) -> RawNode:
    if kind == MEMCPY:
        return RawNode(number + 50, MemcpyParams(src_device=1, dst_device=2, width=number + 8))
    if kind == MEMSET:
        return RawNode(number + 50, MemsetParams(dst=3, element_size=4, width=number + 8))
    fields = (bytes([number]) * FIELD,) * 2
    layout = ((0, FIELD), (FIELD, FIELD))
    return RawNode(
        number + 50, KernelNode(f"k{number}", (), bytes(KernelParams()), layout, 0, fields)
    )


def fields_of(kind: int) -> int:
    return {KERNEL: 2, MEMCPY: 2, MEMSET: 1}[kind]


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[int], tuple[Patch, ...]]:
    """Node kinds, and which word of which field follows which block."""
    kinds = draw(st.lists(st.sampled_from([KERNEL, KERNEL, MEMCPY, MEMSET]), min_size=1))
    patches = []
    for number, kind in enumerate(kinds):
        for field in range(fields_of(kind)):
            places = [4, 12] if kind == KERNEL else [0]
            for place in places[: draw(st.integers(0, 2))]:
                block = draw(st.sampled_from(BLOCKS))
                patches.append(
                    Patch(3 * number, field, place, block, draw(st.integers(0, 1 << 33)))
                )
    return kinds, tuple(patches)


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = native.load(tmp_path_factory.getbasetemp())
    if found is None:
        pytest.skip("no C compiler")
    return found


def both(
    kinds: list[int], patches: tuple[Patch, ...], helper: Any
) -> list[tuple[Recorder, Patcher]]:
    made = []
    for function in (None, helper):
        driver = Recorder()
        patched = {p.node for p in patches}
        nodes = {3 * n: raw_node(n, kind) for n, kind in enumerate(kinds) if 3 * n in patched}
        templates = NodeTemplates(nodes, CONTEXT)
        groups = PatchPlan(patches, len(kinds)).by_block()
        addresses = array("Q", [0] * len(groups))
        executable = Executable(9, 1, templates)
        graph = ExecutableGraph(driver, executable, groups, addresses, function)  # type: ignore[arg-type]
        made.append((driver, graph.patcher))
    assert isinstance(made[0][1], PythonPatcher)
    assert isinstance(made[1][1], NativePatcher)
    return made


def blocks(patches: tuple[Patch, ...]) -> Iterable[Block]:
    """The blocks, in the order of the addresses."""
    return PatchPlan(patches, 1 + max((p.node for p in patches), default=0)).by_block()


moves = st.lists(
    st.tuples(st.integers(0, len(BLOCKS) - 1), st.integers(1, (1 << 47) - 1)), max_size=4
)


@settings(max_examples=150, deadline=None)
@given(programs(), st.lists(moves, min_size=1, max_size=5))
def test_both_ways_make_the_same_driver_calls(
    helper: Any, program: tuple[list[int], tuple[Patch, ...]], rounds: list[Any]
) -> None:
    pairs = both(*program, helper)
    for number, changes in enumerate(rounds):
        for driver, patcher in pairs:
            driver.calls.clear()
            for slot, address in changes:
                if slot < len(patcher.addresses):
                    patcher.addresses[slot] = address
            assert patcher.launch(70 + number) == 0
        (left, first), (right, second) = pairs
        assert left.calls[-1] == right.calls[-1] == ("launch", 9, 70 + number)
        assert sorted(left.calls[:-1]) == sorted(right.calls[:-1])
        assert first.patched == second.patched
        assert first.failed is second.failed is None


TWO_FIELDS = ([0], tuple(Patch(0, f, 4, block, 0) for f, block in enumerate(BLOCKS[:2])))


@settings(max_examples=100, deadline=None)
@given(programs(), st.lists(st.tuples(st.integers(0, 3), moves), min_size=1, max_size=12))
# What the parameters hold, the executable in use already has.
@example(TWO_FIELDS, [(0, [(1, 2)]), (1, []), (0, [(1, 1)]), (1, [(1, 2)]), (2, [])])
def test_executables_that_take_turns_get_the_same_driver_calls(
    helper: Any, program: tuple[list[int], tuple[Patch, ...]], rounds: list[Any]
) -> None:
    pairs = both(*program, helper)
    targets: list[list[Any]] = [[patcher.current()] for _, patcher in pairs]
    # By executable: the bytes of its nodes, as it was instantiated and as they were updated.
    nodes: list[dict[int, dict[int, bytes]]] = [{9: {}}, {9: {}}]
    for number, (chosen, changes) in enumerate(rounds):
        for (driver, patcher), known, held in zip(pairs, targets, nodes, strict=True):
            if chosen < len(known):
                patcher.use(known[chosen])
            else:
                executable = 100 + number
                before = patcher.current()
                known.append(patcher.target(executable))
                held[executable] = dict(held[before.executable])
                patcher.use(known[-1])
            driver.calls.clear()
            for slot, address in changes:
                if slot < len(patcher.addresses):
                    patcher.addresses[slot] = address
            assert patcher.launch(7) == 0
            *updates, (_, launched, _) = driver.calls
            assert launched == patcher.current().executable
            for _, executable, node, content, _ in updates:
                assert executable == launched
                held[executable][node] = content
            wanted = {
                p.node: patcher.addresses[list(blocks(program[1])).index(p.block)] + p.addend
                for p in program[1]
                if len([q for q in program[1] if q.node == p.node]) == 1
            }
            for node, word in wanted.items():
                if node // 3 + 50 in held[launched]:
                    assert (word % (1 << 64)).to_bytes(8, "little") in held[launched][
                        node // 3 + 50
                    ]
        (left, _), (right, _) = pairs
        assert sorted(left.calls[:-1]) == sorted(right.calls[:-1])
        assert left.calls[-1] == right.calls[-1]


PROGRAM = (
    [KERNEL, MEMCPY, MEMSET],
    (
        Patch(0, 0, 4, BLOCKS[0], 16),
        Patch(3, 0, 0, BLOCKS[1], 0),
        Patch(3, 1, 0, BLOCKS[0], 0),
        Patch(6, 0, 0, BLOCKS[2], 512),
    ),
)


def test_words_carry_address_and_addend_and_copies_their_context(helper: Any) -> None:
    for driver, patcher in both(*PROGRAM, helper):
        patcher.addresses[0], patcher.addresses[1], patcher.addresses[2] = 96, 112, 128
        assert patcher.launch(7) == 0
        found = {call[0]: call for call in driver.calls}
        assert found["kernel"][3][4:12] == (96 + 16).to_bytes(8, "little")
        copy = MemcpyParams.from_buffer_copy(found["copy"][3])
        assert (copy.src_device, copy.dst_device, copy.width) == (112, 96, 9)
        fill = MemsetParams.from_buffer_copy(found["fill"][3])
        assert (fill.dst, fill.width) == (128 + 512, 10)
        assert found["copy"][4] == found["fill"][4] == CONTEXT
        assert patcher.patched == 3


@pytest.mark.parametrize("node", [0, 3, 6])
def test_a_refused_update_names_its_node_and_nothing_is_launched(helper: Any, node: int) -> None:
    for driver, patcher in both(*PROGRAM, helper):
        driver.refuse = (node // 3 + 50, 719)
        for slot in range(3):
            patcher.addresses[slot] = 4096
        assert patcher.launch(7) == 719
        assert patcher.failed == node
        assert not any(call[0] == "launch" for call in driver.calls)


def test_another_executable_takes_over(helper: Any) -> None:
    for driver, patcher in both(*PROGRAM, helper):
        patcher.addresses[0] = 4096
        patcher.launch(7)
        patcher.use(patcher.target(11))
        driver.calls.clear()
        patcher.addresses[2] = 8192
        patcher.launch(8)
        assert [(c[0], c[1]) for c in driver.calls] == [("fill", 11), ("launch", 11)]


def test_without_a_compiler_everything_goes_through_ctypes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "compiler", list)
    assert native.built_in(tmp_path) is None


@pytest.mark.parametrize("command", ["/nonexistent/cc", "false", "true"])
def test_a_compiler_that_does_not_work_is_no_error(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", command)
    assert native.load.__wrapped__(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def built(helper: Any, tmp_path: Path) -> Path:
    """A helper in a cache folder of this test's own."""
    file = native.built_in(tmp_path)
    assert file is not None
    assert native.load.__wrapped__(tmp_path) is not None
    return file


def test_the_cache_folder_is_this_users_alone(built: Path) -> None:
    assert stat.S_IMODE(built.parent.stat().st_mode) == 0o700
    built.parent.chmod(0o777)  # as an earlier version made it
    assert native.load.__wrapped__(built.parent) is not None
    assert stat.S_IMODE(built.parent.stat().st_mode) == 0o700


def test_a_file_that_others_may_write_is_not_loaded(built: Path) -> None:
    built.chmod(0o777)
    assert native.load.__wrapped__(built.parent) is None
    assert built.exists()


@pytest.mark.parametrize("kept", [0.25, 0.6, 0.99])
def test_a_file_that_is_cut_short_is_not_loaded(built: Path, kept: float) -> None:
    """To load it may end the process."""
    whole, folder = built.read_bytes(), built.parent / "other"
    folder.mkdir(0o700)
    file = folder / built.name
    file.write_bytes(whole[: int(len(whole) * kept)])
    file.chmod(0o755)
    assert not build.trusted(file)
    assert native.load.__wrapped__(folder) is None
    file.write_bytes(whole)
    assert build.trusted(file)


def test_neither_are_files_and_folders_of_another_user(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not build.trusted(built)
    assert not build.private(built.parent)
    assert native.load.__wrapped__(built.parent) is None


def test_nor_what_a_link_points_to(built: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(built)
    assert not build.trusted(link)
    folder = tmp_path / "folder"
    folder.symlink_to(built.parent)
    assert not build.private(folder)


def test_a_file_that_this_c_library_rejects_stays(tmp_path: Path) -> None:
    """Another node that shares the folder may use it."""
    file = build.target(tmp_path, build.LAUNCH)
    file.write_bytes(b"no module")
    assert native.load.__wrapped__(tmp_path) is None
    assert file.read_bytes() == b"no module"


def test_other_c_libraries_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    here = build.target(Path(), build.LAUNCH)
    monkeypatch.setattr(build.platform, "libc_ver", lambda: ("glibc", "2.17"))
    assert build.target(Path(), build.LAUNCH) != here


def test_the_environment_switches_it_off(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYGRAPH_RT_NATIVE", "0")
    assert native.load.__wrapped__(built.parent) is None
    assert build.build_launch(built.parent / "other.so") is None


def test_what_was_built_with_the_package_comes_first(
    helper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a packaging hook builds it: with this file alone, and no torch."""
    code = (
        "import importlib.util, pathlib, sys; "
        f"spec = importlib.util.spec_from_file_location('build', {build.__file__!r}); "
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module); "
        "assert module.build_launch(module.installed_launch(pathlib.Path(sys.argv[1]))); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-I", "-c", code, str(tmp_path)], check=True)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("_launch.")
    monkeypatch.setattr(native, "__path__", [*native.__path__, str(tmp_path)])
    monkeypatch.setattr(native, "built_in", None)  # is not asked
    try:
        found = native.load.__wrapped__(tmp_path / "cache")
        assert found.__self__.__file__ == str(file)
    finally:
        sys.modules.pop("pygraph_rt.cuda.native._launch", None)


def test_wrong_arguments_are_errors(helper: Any) -> None:
    with pytest.raises(TypeError):
        helper(1)
    with pytest.raises(TypeError):
        helper("table", 0)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert native.built_in(tmp_path / "file" / "folder") is None


def test_builders_at_the_same_time_agree(helper: Any, tmp_path: Path) -> None:
    built: list[Path | None] = []
    threads = [
        threading.Thread(target=lambda: built.append(native.built_in(tmp_path))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 4
    assert set(built) == set(tmp_path.iterdir())
    assert len(set(built)) == 1
