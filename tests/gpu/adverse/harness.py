"""The list of programs, one run of a program in one mode, and the comparison of two runs."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

import pygraph_rt

# "cpu" is for trying programs out: there are no graphs there.
DEVICE = os.environ.get("PYGRAPH_ADVERSE_DEVICE", "cuda")
CUDA = DEVICE == "cuda"
# What a program may be expected to give: None is the results of compiled code.
EXPECTED = (None, "limit")
# Options of the backend that torch.compile's default mode does not know.
OF_THE_BACKEND = {"observe", "verify", "variants", "graph_memory", "placement", "remember"}
# Dynamo's settings that programs change.
SETTINGS = (
    "allow_rnn",
    "capture_dynamic_output_shape_ops",
    "capture_scalar_outputs",
    "recompile_limit",
)
# Beside default mode, numbers may differ by rounding: kernels are not the same where values come
# from the CPU. Relative to the largest number of a tensor, by the bytes of an element.
ROUNDING = {1: 0.3, 2: 0.05, 4: 1e-3, 8: 1e-3, 16: 1e-3}


class Skip(Exception):
    """The program cannot run here; the text says why."""


@dataclass(frozen=True)
class Case:
    """One program. `auto`: it also runs with `graphs="auto"`. `cuda`: it needs a GPU. `env`: of its
    process. `expected="limit"`: its results differ as docs/reference/limits.md says.
    """

    run: Callable[[Context], object]
    auto: bool = False
    cuda: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    expected: str | None = None

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def subject(self) -> str:
        """The file that it is in."""
        return self.run.__module__.rpartition(".")[2]

    @property
    def modes(self) -> list[str]:
        return ["default", "always", *(["auto"] if self.auto else []), "never"]


CASES: dict[str, Case] = {}


def case(**marks: Any) -> Callable[[Callable[[Context], object]], Callable[[Context], object]]:
    """Put a program on the list, with marks of :class:`Case`."""

    def put(run: Callable[[Context], object]) -> Callable[[Context], object]:
        found = Case(run, **marks)
        if found.name in CASES:
            raise ValueError(f"there are two programs {found.name}")
        if found.expected not in EXPECTED:
            raise ValueError(
                f"{found.name} expects {found.expected!r}, which is none of {EXPECTED}"
            )
        CASES[found.name] = found
        return run

    return put


# -- one run


class Leaf(NamedTuple):
    """A tensor as it was. `kind`: type, dtype, shape, strides, device. `numbers`: 1-d."""

    kind: tuple[str, ...]
    numbers: torch.Tensor


def frozen(value: Any) -> Any:
    """A result as dictionaries, lists, strings and leaves, whose tensors nothing changes any more.
    Nothing waits for the GPU: numbers are copied on the current stream.
    """
    if isinstance(value, torch.Tensor):
        try:
            return frozen_tensor(value.detach())
        except RuntimeError as error:
            if lost(error):
                raise
            return f"unreadable tensor: {type(error).__name__}"
    if isinstance(value, dict):
        return {str(key): frozen(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [frozen(v) for v in value]
    if isinstance(value, float):  # both zeros, and all numbers exactly
        return f"float {value.hex()}"
    return f"{type(value).__name__} {value}"


def frozen_tensor(value: torch.Tensor) -> Any:
    """A tensor's leaf; of a subclass made of tensors, theirs."""
    if is_traceable_wrapper_subclass(value):
        names, _ = value.__tensor_flatten__()
        return {"type": type(value).__name__, **{n: frozen(getattr(value, n)) for n in names}}
    if value.layout != torch.strided:
        return {"layout": str(value.layout), "dense": frozen_tensor(value.to_dense())}
    shape, stride = str(tuple(value.shape)), str(value.stride())
    numbers = value.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return Leaf((str(value.dtype), shape, stride, value.device.type), numbers.view(-1))


def on_cpu(result: Any) -> Any:
    """A frozen result with all numbers on the CPU."""
    if isinstance(result, Leaf):
        return Leaf(result.kind, result.numbers.cpu())
    if isinstance(result, dict):
        return {key: on_cpu(v) for key, v in result.items()}
    return [on_cpu(v) for v in result] if isinstance(result, list) else result


class Context:
    """What a program is given: numbers, a compiler, and places to put results."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.failures: list[str] = []
        self._generator = torch.Generator().manual_seed(1234)
        self._alive: list[Any] = []
        self._kept: list[tuple[Any, Any]] = []
        self._regions: list[dict[str, Any]] = []

    def tensor(
        self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0
    ) -> torch.Tensor:
        """Numbers of the program's own generator: the same in each mode."""
        drawn: Any = {"generator": self._generator, "device": "cpu"}
        if dtype is torch.bool:
            return (torch.rand(*shape, **drawn) > 0.5).to(DEVICE)
        if not (dtype.is_floating_point or dtype.is_complex):
            return torch.randint(0, 50, shape, **drawn).to(dtype).to(DEVICE)
        numbers = torch.randn(*shape, **drawn) * scale
        if dtype.is_complex:
            numbers = torch.complex(numbers, torch.randn(*shape, **drawn))
        return numbers.to(dtype).to(DEVICE)

    def compile(
        self,
        function: Any,
        options: Mapping[str, Any] | None = None,
        hold: bool = True,
        **more: Any,
    ) -> Any:
        """Compile for this run's mode. Without `hold`, it lives as long as the program wants."""
        known = torch._inductor.config.get_config_copy()
        theirs = {k: v for k, v in (options or {}).items() if k in known or k == "guard_filter_fn"}
        if self.mode == "default":
            made = torch.compile(function, options=theirs or None, **more)
        else:
            ours = {k: v for k, v in (options or {}).items() if k in OF_THE_BACKEND}
            chosen = {"remember": False, **ours} if self.mode == "auto" else ours
            every = {**theirs, **chosen, "graphs": self.mode}
            made = torch.compile(function, backend=pygraph_rt.pygraph, options=every, **more)
        if hold:
            self._alive.append(made)
        return made

    def keep(self, *values: Any) -> None:
        """Put results down as they are now, and look at the same tensors again at the end."""
        again = tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, list(values))
        self._kept.append((frozen(values), again))

    def note(self, *values: Any) -> None:
        """Put results down now, on the CPU, and let go of them."""
        self._kept.append((on_cpu(frozen(values)), None))

    def attempt(self, function: Callable[..., Any], *args: Any) -> Any:
        """The result, or a text with the type of the exception."""
        try:
            return function(*args)
        except (KeyboardInterrupt, Skip):
            raise
        except BaseException as error:
            if lost(error):
                raise
            self.failures.append(type(error).__name__)
            return f"raised {type(error).__name__}"

    def reset(self) -> None:
        """Reset Dynamo, and remember the regions of what was compiled until now."""
        self._regions += report()
        torch._dynamo.reset()

    def results(self) -> dict[str, Any]:
        """What was put down, as it was then and as it is now."""
        found = {
            "then": on_cpu([then for then, _ in self._kept]),
            "at the end": on_cpu([frozen(again) for _, again in self._kept]),
        }
        self._kept.clear()
        return found

    def regions(self) -> list[dict[str, Any]]:
        """All regions of the report that this run made."""
        return [*self._regions, *report()]


def report() -> list[dict[str, Any]]:
    """The rows of the report."""
    found: list[dict[str, Any]] = pygraph_rt.report().to_dict()["regions"]
    return found


def lost(error: BaseException) -> bool:
    """Whether the process cannot use its GPU any more."""
    return "CUDA error" in str(error) or "illegal memory" in str(error)


@dataclass
class Run:
    """What came of one run. `raised`: how the program itself ended, or None."""

    mode: str
    results: dict[str, Any] = field(default_factory=dict)
    raised: str | None = None
    failures: list[str] = field(default_factory=list)
    regions: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def run(program: Callable[[Context], object], mode: str) -> Run:
    """Run a program once. Raises Skip, and what leaves the process without its GPU."""
    started = time.monotonic()
    torch._dynamo.reset()
    pygraph_rt.pygraph.reset()
    gc.collect()
    random.seed(0)
    torch.manual_seed(99)
    context, found = Context(mode), Run(mode)
    returned = None
    settings = {name: getattr(torch._dynamo.config, name) for name in SETTINGS}
    # The key of torch 2.11's cache leaves out the default dtype and those of autocast: default mode
    # may run code that was compiled for another one.
    cached = {"enable_autograd_cache": False} if mode == "default" else {}
    try:
        with torch._dynamo.config.patch(settings), torch._functorch.config.patch(cached):
            returned = program(context)  # it may change them
    except Skip:
        raise
    except BaseException as error:
        if lost(error):
            raise
        found.raised = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    wait()
    found.results = {"returned": on_cpu(frozen(returned)), **context.results(), **generators()}
    found.failures = context.failures
    found.regions = context.regions()
    found.seconds = round(time.monotonic() - started, 1)
    return found


def wait() -> None:
    """Wait for the GPU."""
    if CUDA:
        torch.cuda.synchronize()


def generators() -> dict[str, Any]:
    """Where random numbers stand."""
    found = {"the CPU's generator": on_cpu(frozen(torch.get_rng_state()))}
    if CUDA:
        found["the GPU's generator"] = on_cpu(frozen(torch.cuda.get_rng_state()))
    return found


# -- comparing


def difference(found: Any, wanted: Any, rounding: bool = False, path: str = "") -> str | None:
    """The first place where two frozen results differ, or None. With `rounding`, numbers may differ
    by as much.
    """
    if type(found) is not type(wanted):
        return f"{path}: {shown(found)} / {shown(wanted)}"
    if isinstance(found, Leaf):
        return leaf_difference(found, wanted, rounding, path)
    if isinstance(found, dict):
        if list(found) != list(wanted):
            return f"{path}: {list(found)} / {list(wanted)}"
        pairs = [(f"{path}.{key}", found[key], wanted[key]) for key in found]
    elif isinstance(found, list):
        if len(found) != len(wanted):
            return f"{path}: {len(found)} / {len(wanted)} items"
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(found, wanted, strict=True))]
    else:
        return None if found == wanted else f"{path}: {shown(found)} / {shown(wanted)}"
    told = (difference(a, b, rounding, place) for place, a, b in pairs)
    return next((text for text in told if text), None)


def shown(value: Any) -> str:
    """A frozen value, in a few words."""
    return " ".join(value.kind) if isinstance(value, Leaf) else str(value)[:60]


def leaf_difference(found: Leaf, wanted: Leaf, rounding: bool, path: str) -> str | None:
    """How two tensors differ, or None."""
    if found.kind != wanted.kind:
        return f"{path}: {shown(found)} / {shown(wanted)}"
    if torch.equal(bits(found.numbers), bits(wanted.numbers)):
        return None
    a, b = plain(found.numbers), plain(wanted.numbers)
    same = (a == b) | (a.isnan() & b.isnan())
    gap = torch.where(same, 0.0, (a - b).abs())
    worst = gap.nan_to_num(nan=float("inf")).max().item()
    share = worst / (b.nan_to_num(posinf=0.0, neginf=0.0).abs().max().item() or 1.0)
    dtype = wanted.numbers.dtype
    inexact = dtype.is_floating_point or dtype.is_complex
    if rounding and inexact and share <= ROUNDING[dtype.itemsize]:
        return None
    how = "bits alone" if bool(same.all()) else f"by {share:.3g} of the largest"
    return f"{path}: {int((~same).sum())} of {same.numel()} {wanted.kind[0]} differ, {how}"


def bits(numbers: torch.Tensor) -> torch.Tensor:
    """The bytes of a 1-d tensor."""
    flat = torch.view_as_real(numbers).reshape(-1) if numbers.is_complex() else numbers
    return flat.view(torch.uint8)


def plain(numbers: torch.Tensor) -> torch.Tensor:
    """A 1-d tensor's numbers as float64."""
    return (torch.view_as_real(numbers).reshape(-1) if numbers.is_complex() else numbers).double()


def beside_compiled(found: Run, never: Run) -> str | None:
    """How a run with graphs differs from one of the same code without, bit for bit."""
    if found.raised != never.raised and (found.raised is None or never.raised is None):
        return f"{found.mode}: raised {found.raised} / {never.raised}"
    told = difference(found.results, never.results)
    return told and f"{found.mode}{told}"


def beside_default(found: Run, default: Run) -> str | None:
    """How a run differs from default mode by more than rounding. What fails under default mode
    alone is no difference.
    """
    if default.raised or set(default.failures) - set(found.failures):
        return None
    if found.raised:
        return f"{found.mode} beside default mode: raised {found.raised}"
    told = difference(found.results, default.results, rounding=True)
    return told and f"{found.mode} beside default mode{told}"


def judged(runs: Mapping[str, Run], expected: str | None) -> tuple[str, str]:
    """(verdict, the first difference): equal, limit, different, or error where the program proves
    nothing.
    """
    never, default = runs["never"], runs["default"]
    graphs = [found for mode, found in runs.items() if mode in ("always", "auto")]
    told = [beside_compiled(found, never) for found in graphs]
    told += [beside_default(found, default) for found in graphs]
    first = next((text for text in told if text), None)
    if first:
        return ("limit" if expected == "limit" else "different"), first
    if never.raised:
        return "error", f"the program itself raised {never.raised}"
    return "equal", ""
