"""One executable graph of a replay: its nodes are updated and launched, and it is made anew when
many of them hold addresses that no longer change.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pygraph_rt.capture.diff import Block, Patch
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError
from pygraph_rt.replay.disposal import Handles
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.patch import make_submission

_FIRST_WINDOW = 2
_WINDOW_GROWTH = 2
_WORTH_SETTLING = 4
# What a node at an address of its own saves in each launch, and what instantiating one costs until
# that has been measured (H200, driver 580).
_SAVED_S, _INSTANTIATED_S = 0.33e-6, 50e-6


class Executable(NamedTuple):
    """An executable graph, the graph it was made from, and parameters of the nodes that are
    patched.
    """

    handle: int
    graph: int
    templates: NodeTemplates


class Stage:
    """Launches one executable graph. `launch(stream)` is `Submission.launch`, on the addresses
    that it was given.

    An executable made at the addresses of the capture runs each kernel about a third of a
    microsecond slower than one made at the addresses in use (H200, driver 580), so it is made
    again after its second launch. Later it is looked at in windows of launches that grow, and made
    again when as many launches as there were would save what that costs.
    """

    def __init__(
        self,
        driver: Driver,
        executable: Executable,
        nodes: range,
        groups: Mapping[Block, Sequence[Patch]],
        addresses: array[int],
        native: Any,
    ) -> None:
        """`nodes` of the capture are what it runs; `groups` are the patches of the whole capture by
        block, in the order of `addresses`.
        """
        self._driver = driver
        self._handle, self._graph, self._templates = executable
        own = {block: [p for p in group if p.node in nodes] for block, group in groups.items()}
        self.submission = make_submission(
            driver, self._templates, own, addresses, self._handle, native
        )
        self.launch = self.submission.launch
        # Nodes updated since the executable was made, before and in the current window of launches.
        self._loose: set[int] = set()
        self._window_start = 0
        self._window = _FIRST_WINDOW
        self._cost_s = len(nodes) * _INSTANTIATED_S
        self.settle_at = _FIRST_WINDOW

    def describe(self, code: int) -> str:
        """What went wrong in a launch that returned an error code."""
        error = self._driver.describe(code)
        node = self.submission.failed
        if node is None:
            return f"cuGraphLaunch failed with {error}"
        return f"{self._templates.describe(node)} could not be updated: {error}"

    def settle(self, launches: int) -> None:
        """Make a new executable if that is worth it; for the launch that `settle_at` asked for."""
        touched = self.submission.touched_since(self._window_start)
        rested = self._loose - touched
        first = launches == _FIRST_WINDOW
        if first:
            rested = touched  # the first executable was made at addresses of the capture
        self._loose |= touched
        self._window_start = self.submission.mark()
        self._window *= _WINDOW_GROWTH
        self.settle_at = launches + self._window
        pays = len(rested) * _SAVED_S * launches > self._cost_s
        if len(rested) < _WORTH_SETTLING or not (first or pays):
            return
        started = time.perf_counter()
        try:
            for node in self._loose:
                self._templates.store(node, self._driver)
            executable = self._driver.instantiate(self._graph)
        except DriverError:  # the executable in use stays right, only slower
            self.settle_at = 1 << 62
            return
        old, self._handle = self._handle, executable
        self._loose.clear()
        self.submission.bind(executable)
        with contextlib.suppress(DriverError):  # it also reports errors of earlier launches
            self._driver.destroy_exec(old)  # the driver frees it after its last launch
        self._cost_s = time.perf_counter() - started

    def detach(self, keep: Any) -> Handles:
        """Take the handles out, so that no call can launch them again; `keep` is what their kernels
        need.
        """
        handles = (self._handle, self._graph, (keep, self._templates))
        self._handle = self._graph = 0
        return handles
