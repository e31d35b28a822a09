"""A program's loop on a machine with two clocks, host and GPU, to see what selection makes of it.

Launching takes host time and is queued; the GPU works the queue off in order; a full queue holds
the host up. Nothing here knows how the product measures.
"""

from __future__ import annotations

import random
from bisect import insort
from collections import deque
from typing import Any

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.reports.report import Region
from pygraph_rt.select.groups import CompiledGraph, Selector
from pygraph_rt.select.remembered import Decisions
from pygraph_rt.select.trial import Instruments

QUEUE = 1024


class Machine:
    """Host time and GPU time, microseconds."""

    def __init__(self, noise: float = 0.0, seed: int = 0) -> None:
        self.host = 0.0
        self.gpu = 0.0
        self.noise = noise
        self.random = random.Random(seed)
        self.queue: deque[float] = deque()
        self.stamps = 0

    def clock(self) -> int:
        return int(self.host * 1000)

    def spend(self, us: float) -> None:
        self.host += us * (1 + self.noise * self.random.random())

    def launch(self, host_us: float, gpu_us: float) -> None:
        self.spend(host_us)
        while self.queue and self.queue[0] <= self.host:
            self.queue.popleft()
        if len(self.queue) >= QUEUE:
            self.host = max(self.host, self.queue.popleft())
        self.gpu = max(self.gpu, self.host) + gpu_us
        insort(self.queue, self.gpu)

    def synchronize(self) -> None:
        self.host = max(self.host, self.gpu)

    def stamp(self, device: int = 0) -> Stamp:
        self.stamps += 1
        self.launch(2.0, 0.0)
        return Stamp(self, self.gpu)

    def instruments(self) -> Instruments:
        return Instruments(self.clock, self.stamp, lambda: False)


class Stamp:
    def __init__(self, machine: Machine, at: float) -> None:
        self._machine, self.at = machine, at

    def query(self) -> bool:
        return self.at <= self._machine.host

    def elapsed_time(self, end: Any) -> float:
        return (end.at - self.at) / 1e3


class Part:
    """A partition: `kernels` launches, or one launch of a graph."""

    def __init__(
        self,
        machine: Machine,
        kernels: int = 300,
        launch_us: float = 8.0,
        kernel_us: float = 2.0,
        graph_us: float = 25.0,
        graph_gpu: float = 0.98,
        capture_ms: float = 50.0,
        refused: bool = False,
        name: str = "graph 0/0 partition 1 of 1",
    ) -> None:
        self.machine = machine
        self.kernels, self.launch_us, self.kernel_us = kernels, launch_us, kernel_us
        self.graph_us, self.graph_gpu, self.capture_ms = graph_us, graph_gpu, capture_ms
        self.refused = refused
        self.region = Region(name)
        self.key = name
        self.device = 0
        self.graphs = self.captured = False
        self.captures = 0
        self.may_capture = True
        self.watcher: Any = None
        self.served: list[bool] = []

    def __call__(self, args: list[Any]) -> Any:
        if self.watcher is not None:
            return self.watcher.call(self, self.run, args)
        return self.run(args)

    def run(self, args: list[Any]) -> Any:
        machine = self.machine
        if self.graphs and not self.captured and self.may_capture and not self.refused:
            self.captured = True
            self.captures += 1
            machine.spend(self.capture_ms * 1e3)
        if self.graphs and self.captured:
            machine.launch(self.graph_us, self.kernels * self.kernel_us * self.graph_gpu)
        else:
            for _ in range(self.kernels):
                machine.launch(self.launch_us, self.kernel_us)
        self.served.append(self.graphs and self.captured)
        return args

    def watch(self, watcher: Any, may_capture: bool) -> None:
        self.watcher, self.may_capture = watcher, may_capture

    def use(self, graphs: bool) -> None:
        self.graphs = graphs

    def leave(self, reason: str) -> None:
        self.graphs = self.captured = False
        self.region.decline(reason)

    def settled(self) -> str | None:
        if self.refused:
            return NO_GRAPH
        return GRAPH if self.captured else None

    @property
    def choice(self) -> str:
        return self.region.choice


def selector(machine: Machine) -> Selector:
    return Selector(machine.instruments())


def entry(selected: Selector, *parts: Part, decisions: Decisions | None = None) -> CompiledGraph:
    made = CompiledGraph(selected, decisions or Decisions(None))
    for part in parts:
        made.add(part)
    return made
