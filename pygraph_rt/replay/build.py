"""From a capture to a `Replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pygraph_rt.capture import generated
from pygraph_rt.capture.capture import capture
from pygraph_rt.capture.observe import Observed
from pygraph_rt.capture.operators import Operators
from pygraph_rt.capture.record import Recording
from pygraph_rt.cuda.driver import Driver
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.plan.graph import Capture
from pygraph_rt.plan.replay_plan import ReplayPlan
from pygraph_rt.replay.executable import Executable, instantiate
from pygraph_rt.replay.launcher import Code
from pygraph_rt.replay.platform import Platform
from pygraph_rt.replay.replay import Replay


class Built(NamedTuple):
    """A replay, and the recording it was built from, to be closed once the replay was compared:
    what it uses of the capture's addresses by mistake has to show. may_keep_memory: whether an
    operator may keep memory of results for itself.
    """

    replay: Replay
    recording: Recording
    may_keep_memory: bool


def capture_and_build(
    driver: Driver,
    platform: Platform,
    function: Callable[..., Any],
    args: Sequence[Any],
    signature: Signature,
    observed: Observed,
) -> Built:
    """Capture `function` for these arguments and build its replay; see `capture`."""
    stream = platform.stream(signature.device)
    operators = Operators(platform.native.fill_stack)
    plan, recording = capture(driver, function, args, signature, observed, stream, operators)
    try:
        code = Code(function, generated.allocator_of(function))
        replay = build(driver, platform, plan, recording.capture, code)
        return Built(replay, recording, operators.may_keep_memory)
    except BaseException:
        recording.close()
        raise


def build(
    driver: Driver, platform: Platform, plan: ReplayPlan, graph: Capture, code: Code
) -> Replay:
    """The replay of a captured graph. Raises DriverError; nothing is left then."""
    patched = {patch.node for patch in plan.patches.patches}
    executables: list[Executable] = []
    try:
        for part in plan.sub_graphs:  # one by one: after an error, those that were made are freed
            made = instantiate(driver, graph, part.nodes, patched, plan.launch.device)
            executables.append(made)
        return Replay(plan, executables, code, driver, platform)
    except BaseException:
        for executable in executables:
            driver.destroy_exec(executable.handle)
            driver.destroy_graph(executable.graph)
        raise
