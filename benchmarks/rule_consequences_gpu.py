"""What the rule pages claim, against what a CUDA device does with their examples.

Every example of every page is run: does the host wait for the device, can it be captured in a CUDA
graph, where does torch.compile break. Needs a CUDA device and torch; nothing of the linter but its
page reader.

    python -m benchmarks.rule_consequences_gpu --out benchmarks/results/rule_consequences_gpu.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pygraph_lint.rules import catalogue
from tests.rules import examples
from tests.rules.observe import observe

SLEEP_MS = 40.0
TIMEOUT_S = 60.0
RUNNABLE = ("", "needs a CUDA device")


@dataclass
class Seen:
    """What one example did.

    ``waited_ms`` is how much longer a call took the host while the device slept ``SLEEP_MS``, None
    where it was not measured; ``sync_lines`` are the lines ``set_sync_debug_mode`` named; errors
    are empty where there was none.
    """

    waited_ms: float | None = None
    sync_lines: list[int] = field(default_factory=list)
    capture_error: str = ""
    break_lines: list[int] = field(default_factory=list)
    compile_error: str = ""
    fullgraph_error: str = ""
    main_error: str = ""
    main_differs: bool = False
    trouble: str = ""

    @property
    def waited(self) -> bool:
        """Whether the host was held for most of the device's sleep."""
        return self.waited_ms is not None and self.waited_ms > SLEEP_MS / 2


def text_of(error: BaseException) -> str:
    """One line of an error."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def watch_host(module: ModuleType, seen: Seen) -> None:
    """Run the example behind a sleeping device and see whether the host is held."""
    model = examples.program(module, "cuda")
    given = [examples.arguments(module, "cuda") for _ in range(4)]
    model(*given[0])
    idle = host_ms(model, given[1])
    torch.cuda._sleep(int(SLEEP_MS * 1.9e6))
    seen.waited_ms = round(host_ms(model, given[2]) - idle, 2)
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            model(*given[3])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    path = str(module.__file__)
    named = {
        each.lineno
        for each in caught
        if each.filename == path and "synchroniz" in str(each.message)
    }
    seen.sync_lines = sorted(named)


def host_ms(model: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """How long a call takes the host."""
    start = time.perf_counter()
    model(*given)
    return (time.perf_counter() - start) * 1e3


def try_capture(module: ModuleType, seen: Seen) -> None:
    """Capture the example in a CUDA graph, after a warm-up on a side stream, and replay it."""
    model = examples.program(module, "cuda")
    given = [examples.arguments(module, "cuda") for _ in range(4)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for each in given[:3]:
            model(*each)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            model(*given[3])
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        cause = error.__context__ if "capture" in str(error) and error.__context__ else error
        seen.capture_error = text_of(cause)


def run_main(module: ModuleType, seen: Seen) -> None:
    """Run a page's whole program; it may return what it got and what would be right."""
    try:
        result = module.main()
        torch.cuda.synchronize()
        if isinstance(result, tuple):
            got, right = result
            seen.main_differs = not torch.allclose(got.float(), right.float(), rtol=1e-2, atol=1e-3)
    except Exception as error:
        seen.main_error = text_of(error)


def look(example: examples.Example, folder: Path) -> Seen:
    """Everything seen of one example."""
    seen = Seen()
    module = examples.load(example, folder)
    if hasattr(module, "main"):
        run_main(module, seen)
        return seen
    for step in (compile_step, watch_host, try_capture):
        attempt(step, module, seen)
    return seen


def attempt(step: Callable[[ModuleType, Seen], None], module: ModuleType, seen: Seen) -> None:
    """One step; what goes wrong in it is noted and does not stop the next."""
    try:
        step(module, seen)
    except Exception as error:
        seen.trouble += f"{step.__name__}: {text_of(error)}; "


def compile_step(module: ModuleType, seen: Seen) -> None:
    """Where Dynamo breaks, and whether one graph can hold the example."""
    try:
        observed = observe(module, "cuda")
    except torch._dynamo.exc.TorchDynamoException as error:
        seen.compile_error = seen.fullgraph_error = text_of(error)
        return
    seen.break_lines = [*observed.break_lines, *observed.calling_lines]
    seen.fullgraph_error = observed.error[:200]


def healthy() -> bool:
    """Whether this process can still capture and draw after what the last example did to it."""
    try:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.rand(8, device="cuda")
        graph.replay()
        torch.rand(8, device="cuda").sum().item()
    except Exception:
        return False
    return True


def serve(pipe: Connection, folder: Path) -> None:
    """A worker process: answers examples until it is sent None or its device state is spoilt."""
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    while (example := pipe.recv()) is not None:
        seen = look(example, folder)
        fit = healthy()
        pipe.send((seen, fit))
        if not fit:
            return


def drive(work: list[examples.Example], done: dict[str, Seen], folder: Path) -> None:
    """One thread: gives a worker process one example after the other, fresh ones where needed."""
    context = multiprocessing.get_context("fork")
    process, pipe = None, None
    while True:
        try:
            example = work.pop()
        except IndexError:
            break
        if process is None:
            pipe, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, folder), daemon=True)
            process.start()
            theirs.close()
        assert pipe is not None
        try:
            pipe.send(example)
            if not pipe.poll(TIMEOUT_S):
                raise TimeoutError(f"no answer in {TIMEOUT_S:.0f} s")
            done[example.name], fit = pipe.recv()
        except (EOFError, OSError, TimeoutError) as error:
            lost = Seen(main_error=text_of(error)) if "def main(" in example.text else Seen()
            lost.trouble = "the process ended or hung"
            done[example.name], fit = lost, False
        if not fit:
            process.kill()
            process, pipe = None, None
    if process is not None and pipe is not None:
        pipe.send(None)
        process.join(5)
        process.kill()


def judge(example: examples.Example, seen: Seen) -> dict[str, bool]:
    """For each kind of consequence, whether the claim agrees with what was seen."""
    claims = example.claims
    if example.good:
        claims = {"compile": "ok", "fullgraph": "ok", "cudagraph": "ok", "sync": "no"}
    if seen.waited_ms is None:
        if claims["cudagraph"] == "not capturable":
            return {"cudagraph": bool(seen.main_error)}
        if claims["cudagraph"] == "stale":
            return {"cudagraph": bool(seen.main_error) or seen.main_differs}
        return {"cudagraph": not seen.main_error and not seen.main_differs}
    own = {row for row, codes in example.marks.items() if example.code in codes}
    breaks = bool(seen.compile_error) or (bool(own) and own <= set(seen.break_lines))
    traced = not seen.break_lines and not seen.compile_error
    return {
        "compile": traced if claims["compile"] == "ok" else breaks,
        "fullgraph": bool(seen.fullgraph_error) == (claims["fullgraph"] == "error"),
        "cudagraph": bool(seen.capture_error) == (claims["cudagraph"] == "not capturable"),
        "sync": seen.waited == (claims["sync"] == "yes"),
    }


def environment() -> dict[str, str]:
    """What the figures belong to."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "python": platform.python_version(),
    }


def chosen(codes: list[str]) -> list[examples.Example]:
    """The examples that can run, of the rules asked for or of all."""
    return [
        example
        for rule in catalogue.load().values()
        if not codes or rule.code in codes
        for example in examples.of_rule(rule)
        if example.not_run in RUNNABLE
    ]


def kept(path: Path, wanted: list[examples.Example]) -> dict[str, Seen]:
    """What an earlier run saw of the examples that are still the same programs."""
    known = {row["digest"]: row["seen"] for row in json.loads(path.read_text())["examples"]}
    return {
        example.name: Seen(**known[example.digest]) for example in wanted if example.digest in known
    }


def table(rows: list[dict[str, Any]], write: Callable[[str], Any]) -> None:
    """Print what disagrees, then the count."""
    for row in rows:
        wrong = [key for key, agrees in row["agrees"].items() if not agrees]
        if wrong or row["seen"]["trouble"]:
            seen = {key: value for key, value in row["seen"].items() if value}
            write(f"{row['example']:14} {','.join(wrong):28} claims {row['claims']} seen {seen}\n")
    agreed = sum(all(row["agrees"].values()) for row in rows)
    write(f"{agreed} of {len(rows)} examples do what their page says\n")


def main() -> int:
    """Run all examples and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the JSON here")
    parser.add_argument("--jobs", type=int, default=8, help="worker processes")
    parser.add_argument(
        "--keep", type=Path, help="take examples that have not changed from this earlier JSON"
    )
    parser.add_argument("--select", nargs="*", default=[], help="codes; default all")
    options = parser.parse_args()
    wanted = chosen(options.select)
    done = kept(options.keep, wanted) if options.keep else {}
    work = [example for example in reversed(wanted) if example.name not in done]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        threads = [
            threading.Thread(target=drive, args=(work, done, Path(folder)))
            for _ in range(options.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [
        {
            "example": example.name,
            "digest": example.digest,
            "claims": example.claims,
            "marks": sorted(example.marks),
            "seen": asdict(done[example.name]),
            "agrees": judge(example, done[example.name]),
        }
        for example in wanted
    ]
    seconds = round(time.perf_counter() - start, 1)
    table(rows, sys.stdout.write)
    if options.out:
        result = {"environment": environment(), "seconds": seconds, "examples": rows}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
