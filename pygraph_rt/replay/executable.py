"""One executable graph of a replay, from its instantiation to its end."""

from __future__ import annotations

import contextlib
import ctypes
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.cuda.structures import MEMCPY, MEMSET, MemcpyParams, MemsetParams, RawNode
from pygraph_rt.errors import DriverError
from pygraph_rt.memory import pool
from pygraph_rt.plan.graph import Capture, Patch
from pygraph_rt.plan.memory_blocks import Block, aligned
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.patch import NativePatcher, Patcher, PythonPatcher
from pygraph_rt.replay.weight_sets import Executables, WeightSets, patched_often

REINSTANTIATE_AT = (2, 512)
"""The launches after which an executable graph is instantiated again."""
_WORTH_IT = 4
_MUCH = 4 << 20


class Executable(NamedTuple):
    """An executable graph, the graph it was instantiated from, and parameters of the nodes that are
    patched.
    """

    handle: int
    graph: int
    templates: NodeTemplates


def instantiate(
    driver: Driver, captured: Capture, nodes: range, patched: Collection[int], device: int
) -> Executable:
    """A sub-graph of a captured graph as an executable of its own. `patched` are nodes that will be
    updated. Raises DriverError; nothing is left then.
    """
    clone = driver.clone_graph(captured.handle)
    try:
        raw = {
            i: RawNode(driver.find_in_clone(node.raw.handle, clone), node.raw.params)
            for i, node in enumerate(captured.nodes)
            if i in patched and i in nodes
        }
        templates = NodeTemplates(raw, driver.current_context())
        for i in captured.changed:
            if i in nodes:
                templates.store(i, driver)
        outside = [node.raw.handle for i, node in enumerate(captured.nodes) if i not in nodes]
        for handle in (*outside, *captured.surplus):
            driver.remove_node(driver.find_in_clone(handle, clone))
        memory = move_off_placeholders(driver, raw, device)
        handle = driver.instantiate(clone)
        del memory
        return Executable(handle, clone, templates)
    except BaseException:
        driver.destroy_graph(clone)
        raise


def move_off_placeholders(driver: Driver, nodes: Mapping[int, RawNode], device: int) -> Any:
    """Point copies and memory sets at ordinary memory, which has to live until the graph is
    instantiated: that is what is returned.

    An executable graph accepts new addresses for such nodes only when they are memory of the kind
    it was instantiated with, and placeholder addresses are of another kind than what torch's
    allocator hands out. The driver wants as much there as a node touches.
    """
    every = [node.params for node in nodes.values()]
    sizes = [p.width for p in every if isinstance(p, MemcpyParams)]
    sizes += [p.width * p.element_size for p in every if isinstance(p, MemsetParams)]
    if not sizes:
        return None
    address, memory = _ordinary_memory(aligned(max(sizes)), device)
    for handle, params in nodes.values():
        if isinstance(params, MemcpyParams):
            copy = MemcpyParams.from_buffer_copy(params)
            copy.src_device = copy.dst_device = address
            driver.set_node(MEMCPY, handle, ctypes.addressof(copy))
        elif isinstance(params, MemsetParams):
            fill = MemsetParams.from_buffer_copy(params)
            fill.dst = address
            driver.set_node(MEMSET, handle, ctypes.addressof(fill))
    return memory


def _ordinary_memory(nbytes: int, device: int) -> tuple[int, Any]:
    """Address of memory as torch's allocator hands it out, and what keeps it. Nobody reads or
    writes it there; so where it would be much, it is some that torch has in use.
    """
    if nbytes > _MUCH:
        for segment in pool.snapshot():
            in_use = segment["device"] == device and segment["active_size"]
            if in_use and segment["total_size"] >= nbytes and not any(segment["segment_pool_id"]):
                return int(segment["address"]), None
    memory = torch.empty(nbytes, dtype=torch.uint8, device=torch.device("cuda", device))
    return memory.data_ptr(), memory


class ExecutableGraph:
    """Patches and launches one executable graph. `launch(stream)` is `Patcher.launch`, on the
    addresses that it was given.

    An executable instantiated at the addresses of the capture runs each kernel about a third of a
    microsecond slower than one instantiated at the addresses in use (H200, driver 580), so it is
    instantiated again after its second launch. One whose nodes have been updated on hundreds of
    calls may become as slow again, and stays so: so it is instantiated once more then.
    """

    def __init__(
        self,
        driver: Driver,
        executable: Executable,
        groups: Mapping[Block, Sequence[Patch]],
        addresses: array[int],
        launch: Callable[[int, int], int] | None,
    ) -> None:
        """`groups` are the patches of the sub-graph by block, in the order of `addresses`; `launch`
        is the compiled helper.
        """
        self._driver = driver
        # The first one is in use, or is yet to be freed; others are those of sets of weights.
        self._handles = [executable.handle]
        self._graph, self._templates = executable.graph, executable.templates
        given = (driver, self._templates, groups, addresses, executable.handle)
        self.patcher: Patcher = (
            PythonPatcher(*given) if launch is None else NativePatcher(*given, launch)
        )
        self.launch: Callable[[int], int] = self.patcher.launch
        self._inputs = [place for place, block in enumerate(groups) if block.kind == "input"]
        self._nodes_of = [len({p.node for p in group}) for group in groups.values()]

    @property
    def executables(self) -> int:
        """How many there are."""
        return len(self._handles)

    def look_for_weight_sets(self, launches: int, room: Callable[[], int]) -> None:
        """Find out whether an executable for each set of weights is faster (see weight_sets.py),
        where many nodes were patched in so many `launches`. `room` says for how many more there
        is memory.
        """
        if patched_often(self.patcher.patched, launches):
            given = Executables(self._instantiate, self._free_others, room)
            sets = WeightSets(self.patcher, self._inputs, self._nodes_of, given, self._settle)
            self.launch = sets.launch

    def _settle(self, launch: Callable[[int], int]) -> None:
        self.launch = launch
        self.reinstantiate()  # what was put off

    def describe(self, code: int) -> str:
        """What went wrong in a launch that returned an error code."""
        error = self._driver.describe(code)
        node = self.patcher.failed
        if node is None:
            return f"cuGraphLaunch failed with {error}"
        return f"{self._templates.describe(node)} could not be updated: {error}"

    def reinstantiate(self) -> None:
        """Instantiate the graph at the addresses in use, if enough nodes gain by it. Where the
        driver refuses, the executable in use stays.
        """
        alone = self.launch == self.patcher.launch
        if len(list(self._templates.nodes())) < _WORTH_IT or not alone:
            return
        with contextlib.suppress(DriverError):
            self.patcher.use(self.patcher.target(self._instantiate()))
            # The driver frees it after its last launch; it also reports errors of earlier launches.
            self._driver.destroy_exec(self._handles.pop(0))

    def _instantiate(self) -> int:
        """One more executable, at the addresses in use. Raises DriverError."""
        if not self._graph:
            raise DriverError("the graph is gone")
        for node in self._templates.nodes():
            self._templates.store(node, self._driver)
        self._handles.extend(map(self._driver.instantiate, [self._graph]))
        return self._handles[-1]

    def _free_others(self) -> None:
        """Free all executables but the one in use."""
        here = self.patcher.current().executable
        for handle in [each for each in self._handles if each != here]:
            self._handles.remove(handle)
            with contextlib.suppress(DriverError):
                self._driver.destroy_exec(handle)

    def detach(self) -> tuple[list[int], int, NodeTemplates]:
        """Take the handles out, so that no call can launch them again: executables, the graph that
        they were instantiated from, and the templates.
        """
        self.launch = self.patcher.launch  # what refers to this is let go of
        handles, self._handles = self._handles, []
        graph, self._graph = self._graph, 0
        return handles, graph, self._templates
