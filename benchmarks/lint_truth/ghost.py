"""A pretended CUDA device on the CPU: which lines would synchronise, copy, or make host tensors.

Parameters, buffers and inputs are marked as being "on the device"; every tensor is really an
ordinary CPU tensor. A `TorchFunctionMode` answers `.device` with `cuda:0` for marked tensors,
takes device arguments away from factories and `.to`, and sees Python-level reads; a
`TorchDispatchMode` passes the mark on from inputs to outputs and sees reads inside operators.
A factory without a device makes an unmarked tensor, as it would beside a real GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.lint_truth.ghost_patches import as_if_compiling as as_if_compiling
from benchmarks.lint_truth.ghost_patches import cuda_answered, unseen_recorded
from benchmarks.lint_truth.packages import relative_name

DEVICE = torch.device("cuda", 0)
HOST = torch.device("cpu")

#: Operators whose output shape depends on data: on CUDA each of them waits for the device.
DATA_SHAPED = frozenset(
    {
        "nonzero",
        "argwhere",
        "masked_select",
        "_unique",
        "_unique2",
        "unique_dim",
        "unique_consecutive",
        "unique_dim_consecutive",
        "bincount",
    }
)

#: Operators that read a value of the device back to the host for another reason.
READ_BACK = frozenset(
    {"_local_scalar_dense", "equal", "_linalg_check_errors", "_ctc_loss", "is_nonzero"}
    # These check for errors inside: no mode sees their call of _linalg_check_errors.
    | {"_linalg_svd", "_linalg_eigh", "linalg_eig", "linalg_pinv"}
)

#: Torch functions that check values on the host for CPU tensors only; on CUDA they do not.
CPU_ONLY_CHECKS = frozenset({"quantile", "nanquantile"})

_DEVICE_GETTERS = {
    torch.Tensor.device.__get__: lambda on_device: DEVICE if on_device else HOST,
    torch.Tensor.is_cuda.__get__: lambda on_device: on_device,
    torch.Tensor.is_cpu.__get__: lambda on_device: not on_device,
    torch.Tensor.get_device: lambda on_device: 0 if on_device else -1,
}

_PYTHON_READS = {
    torch.Tensor.tolist: "tolist",
    torch.Tensor.numpy: "numpy",
    torch.Tensor.__array__: "numpy",
    torch.Tensor.__repr__: "repr",
    torch.Tensor.__format__: "format",
}

_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu, torch.Tensor.type_as)

#: Functions that make a tensor on the default device even when an argument is a device tensor.
FACTORIES = frozenset(
    {"arange", "range", "linspace", "logspace", "zeros", "ones", "empty", "full", "eye", "rand"}
    | {"randn", "randint", "randperm", "tril_indices", "triu_indices", "scalar_tensor"}
)

_FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor)


#: The key of a tensor that hides its memory (those of torch._vmap_internals); on the device.
WRAPPED = -1


@dataclass(frozen=True)
class Event:
    """One thing that happened at one line of a measured package.

    `kind` is "sync" (device to host read), "d2h", "h2d" (blocking copies), "h2d_async",
    "d2h_async", "host_tensor", "dynamic_shape" or "device_mismatch"; `what` names the call;
    `callers` are the lines of measured packages that led there, innermost first.
    """

    kind: str
    what: str
    file: str
    line: int
    callers: tuple[tuple[str, int], ...] = ()


CALLERS = 3


def user_lines() -> list[tuple[str, int]]:
    """("package/path.py", line) of the innermost frames of measured packages."""
    found: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) <= CALLERS:
        name = relative_name(frame.f_code.co_filename)
        if name is not None:
            found.append((name, frame.f_lineno))
        frame = frame.f_back
    return found


def tensors_in(*values: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested lists, tuples and dictionaries."""
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, slice):
            for part in (leaf.start, leaf.stop, leaf.step):
                if isinstance(part, torch.Tensor):
                    yield part


@dataclass
class Marks:
    """Which storages are on the device, and the events seen so far."""

    on_device: dict[int, bool] = field(default_factory=dict)
    kept: dict[int, StorageWeakRef] = field(default_factory=dict)
    events: set[Event] = field(default_factory=set)
    context: list[bool | None] = field(default_factory=list)
    quiet: int = 0

    def key(self, tensor: torch.Tensor) -> int:
        """Identity of the memory behind `tensor` (of the object itself where it has none)."""
        tensor = self._plain(tensor)
        if tensor.layout is not torch.strided:
            return id(tensor)
        try:
            return int(tensor.untyped_storage()._cdata)
        except NotImplementedError:
            return WRAPPED

    def _plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor inside the wrappers of torch.func transforms."""
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = torch._C._functorch.get_unwrapped(tensor)
        return tensor

    def mark(self, value: Any, on_device: bool) -> None:
        """Mark every tensor in `value`."""
        for tensor in tensors_in(value):
            key = self.key(tensor)
            if key == WRAPPED:
                continue
            self.on_device[key] = on_device
            if key not in self.kept and tensor.layout is torch.strided:
                # As long as a weak reference lives, no new storage gets the same address.
                self.kept[key] = StorageWeakRef(self._plain(tensor).untyped_storage())

    def made_on_host(self, value: Any, what: str) -> None:
        """Note that a constructor made `value` on the host."""
        self.mark(value, False)
        self.record("host_tensor", what)

    def marked(self, tensor: torch.Tensor) -> bool:
        """Whether `tensor` is on the device."""
        key = self.key(tensor)
        return key == WRAPPED or self.on_device.get(key, False)

    def any_marked(self, *values: Any) -> bool:
        """Whether any tensor in `values` is on the device."""
        return any(self.marked(tensor) for tensor in tensors_in(*values))

    def record(self, kind: str, what: str) -> None:
        """Note an event at the current line, unless inside a check that CUDA does not do."""
        if self.quiet:
            return
        places = user_lines()
        if places:
            self.events.add(Event(kind, what, *places[0], callers=tuple(places[1:])))


def _device_argument(value: Any) -> torch.device | None:
    """`value` as a device if it is one, else None."""
    if isinstance(value, torch.device):
        return value
    if isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu", "meta"):
        return torch.device(value)
    return None


def _has_host_index(index: Any) -> bool:
    """Whether an index expression holds a list or an array, which becomes a tensor first."""
    if isinstance(index, (list, np.ndarray)):
        return not any(True for _ in tensors_in(index))
    return isinstance(index, tuple) and any(isinstance(part, (list, np.ndarray)) for part in index)


class GhostFunctions(TorchFunctionMode):
    """The Python-level half: devices, factories, copies and reads."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        marks = self.marks
        with torch._C.DisableTorchFunction():
            answer = _DEVICE_GETTERS.get(func)
        if answer is not None:
            return answer(marks.marked(args[0]))
        if func in _MOVES:
            return self._moved(func, args, kwargs)
        if func in _PYTHON_READS and marks.marked(args[0]):
            marks.record("sync", _PYTHON_READS[func])
        if func in _PYTHON_READS and func is not torch.Tensor.__array__:
            return func(*args, **kwargs)
        indexed = func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__)
        if indexed and marks.marked(args[0]) and _has_host_index(args[1]):
            marks.record("h2d", "list index")
        if func is torch.Tensor.__setitem__:
            return self._set_item(args)
        if func in (torch.histc, torch.Tensor.histc) and not args[0].is_floating_point():
            counts = self._called(func, (args[0].double(), *args[1:]), kwargs)
            return counts.to(args[0].dtype)  # CUDA has integer histograms, the CPU does not
        return self._called(func, args, kwargs)

    def _called(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Any other function: take its device away, run it, mark what it made."""
        marks = self.marks
        name = getattr(func, "__name__", str(func))
        target = _device_argument(kwargs.get("device"))
        if "device" in kwargs and (target is not None or isinstance(kwargs["device"], int)):
            kwargs["device"] = HOST if target is None or target.type != "meta" else target
            target = target or DEVICE
        from_device = marks.any_marked(args, kwargs)
        factory = name in FACTORIES
        made = factory or not any(True for _ in tensors_in(args, kwargs))
        wants = target.type == "cuda" if target is not None else from_device and not factory
        marks.context.append(wants)
        silent = self._is_cpu_only_check(name, args, kwargs)
        marks.quiet += silent
        try:
            out = func(*args, **kwargs)
        finally:
            marks.quiet -= silent
            marks.context.pop()
        if func in _FROM_DATA:
            return self._from_data(name, func, args, target, from_device, out)
        if made or (target is not None):
            marks.mark(out, wants)
            if not wants and target_is_host(out, target):
                marks.record("host_tensor", name)
        return out

    def _from_data(
        self,
        name: str,
        func: Callable[..., Any],
        args: Any,
        target: torch.device | None,
        from_device: bool,
        out: torch.Tensor,
    ) -> torch.Tensor:
        """torch.tensor and its kind: data comes from the host, or is read element by element."""
        marks = self.marks
        data = args[0] if args else None
        if func is torch.Tensor.new_tensor:
            wants = marks.marked(args[0]) if target is None else target.type == "cuda"
            data = args[1] if len(args) > 1 else None
        elif isinstance(data, torch.Tensor):
            wants = marks.marked(data) if target is None else target.type == "cuda"
        else:
            wants = target is not None and target.type == "cuda"
        if isinstance(data, torch.Tensor):
            source = marks.marked(data)
            if source != wants and data.numel():
                marks.record("h2d" if wants else "d2h", name)
                out = out.clone() if out is data else out
            marks.mark(out, wants)
            return out
        if isinstance(data, (list, tuple)) and marks.any_marked(data):
            marks.record("sync", name)
        marks.mark(out, wants)
        if not wants or out.numel():
            marks.record("h2d" if wants else "host_tensor", name)
        return out

    def _is_cpu_only_check(self, name: str, args: Any, kwargs: dict[str, Any]) -> bool:
        if name == "one_hot":
            classes = kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
            return bool(classes != -1)
        return name in CPU_ONLY_CHECKS

    def _moved(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        """`.to`, `.cuda` and `.cpu`."""
        marks = self.marks
        tensor: torch.Tensor = args[0]
        source = marks.marked(tensor)
        wants = source
        rest: list[Any] = []
        flags = [value for value in args[1:] if isinstance(value, bool)]  # non_blocking, copy
        blocking = not (kwargs.pop("non_blocking", False) or any(flags[:1]))
        if flags[1:]:
            kwargs["copy"] = flags[1]
        if func in (torch.Tensor.to, torch.Tensor.type_as):
            for position, value in enumerate(args[1:]):
                device = _device_argument(value)
                if device is not None:
                    wants = device.type == "cuda"
                elif isinstance(value, torch.Tensor):
                    wants = marks.marked(value)
                    rest.append(value.dtype)
                elif isinstance(value, bool):
                    continue
                elif position == 0 and isinstance(value, int):
                    wants = True
                elif value is not None:
                    rest.append(value)
            device = _device_argument(kwargs.pop("device", None))
            if device is not None:
                wants = device.type == "cuda"
            other = kwargs.pop("other", None)
            if other is not None:
                wants = marks.marked(other)
                rest.append(other.dtype)
        else:
            wants = func is torch.Tensor.cuda
            kwargs.pop("device", None)
        out = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
        if wants == source:
            marks.mark(out, source)
            return out
        direction = "h2d" if wants else "d2h"
        name = getattr(func, "__name__", "to")
        if tensor.numel():
            marks.record(direction if blocking else f"{direction}_async", name)
        if out is tensor:
            out = tensor.detach().clone() if not tensor.requires_grad else tensor.clone()
        marks.mark(out, wants)
        return out

    def _set_item(self, args: Any) -> None:
        """Assignment by index: a Python number becomes a host tensor that may be copied."""
        marks = self.marks
        target, index, value = args
        if not isinstance(value, torch.Tensor):
            value = torch.as_tensor(value, dtype=target.dtype)
            marks.mark(value, False)
        marks.context.append(marks.marked(target))
        try:
            torch.Tensor.__setitem__(target, index, value)
        finally:
            marks.context.pop()


def target_is_host(out: Any, target: torch.device | None) -> bool:
    """Whether a factory's output really is a host tensor (not a meta tensor, not a number)."""
    if target is not None and target.type != "cpu":
        return False
    return any(tensor.device.type == "cpu" for tensor in tensors_in(out))


class GhostOperators(TorchDispatchMode):
    """The operator-level half: marks flow from inputs to outputs; hidden reads are seen."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        marks = self.marks
        name = func._overloadpacket.__name__
        inputs = list(tensors_in(args, kwargs))
        device = any(marks.marked(tensor) for tensor in inputs)
        self._before(name, func, args, kwargs, inputs, device)
        out = func(*args, **kwargs)
        if not inputs:
            made_on_device = bool(marks.context and marks.context[-1])
            marks.mark(out, made_on_device)
            if not marks.context and any(True for _ in tensors_in(out)):
                marks.record("host_tensor", name)
        elif name == "copy_":
            pass
        elif name == "lift_fresh":
            marks.mark(out, device)
        else:
            self._mark_outputs(out, inputs, device)
        return out

    def _mark_outputs(self, out: Any, inputs: Iterable[torch.Tensor], device: bool) -> None:
        known = {self.marks.key(tensor) for tensor in inputs}
        for tensor in tensors_in(out):
            if self.marks.key(tensor) not in known:
                self.marks.mark(tensor, device)

    def _before(
        self,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        inputs: list[torch.Tensor],
        device: bool,
    ) -> None:
        marks = self.marks
        if name in DATA_SHAPED or self._is_data_shaped(name, func, args, kwargs):
            marks.record("dynamic_shape", name)
            if device:
                marks.record("sync", name)
            return
        if not device:
            return
        if name in READ_BACK:
            if marks.marked(inputs[0]):
                marks.record("sync", name)
        elif name in ("masked_fill", "masked_fill_"):
            if func._overloadname == "Tensor" and marks.marked(args[2]):
                marks.record("sync", "masked_fill with a tensor value")
        elif name == "copy_":
            self._copied(args, kwargs)
        elif name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            self._indexed(name, args)
        elif name not in ("where", "fill_", "_to_copy"):
            unlike = [t for t in inputs if not marks.marked(t) and t.dim() > 0 and t.numel()]
            if unlike:
                marks.record("device_mismatch", name)

    def _is_data_shaped(self, name: str, func: Any, args: Any, kwargs: Any) -> bool:
        if name == "repeat_interleave":
            return kwargs.get("output_size") is None and func._overloadname == "Tensor"
        if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
            if name != "index" and self._is_masked_fill(args):
                return False
            return any(
                index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
            )
        return False

    def _is_masked_fill(self, args: Any) -> bool:
        """Whether index_put with these arguments becomes masked_fill (no read-back)."""
        indices, value = args[1], args[2]
        present = [index for index in indices if index is not None]
        accumulate = len(args) > 3 and args[3]
        return (
            not accumulate
            and len(present) == 1
            and present[0].dtype in (torch.bool, torch.uint8)
            and value.numel() == 1
            and not self.marks.marked(value)
        )

    def _copied(self, args: Any, kwargs: Any) -> None:
        marks = self.marks
        target, source = args[0], args[1]
        to_device, from_device = marks.marked(target), marks.marked(source)
        if to_device == from_device or not source.numel():
            return
        asynchronous = (len(args) > 2 and bool(args[2])) or bool(kwargs.get("non_blocking"))
        direction = "h2d" if to_device else "d2h"
        marks.record(f"{direction}_async" if asynchronous else direction, "copy_")

    def _indexed(self, name: str, args: Any) -> None:
        """Host indices are copied to the device, and so is a host value that is not filled in."""
        marks = self.marks
        if any(index is not None and not marks.marked(index) for index in args[1]):
            marks.record("h2d", f"{name} with host indices")
        if name != "index" and not marks.marked(args[2]) and not self._is_masked_fill(args):
            marks.record("h2d", f"{name} of a host value")


def observe(
    call: Callable[[], Any], on_device: Any, prepare: Callable[[], None] | None = None
) -> set[Event]:
    """Run `call` with the tensors in `on_device` (nested containers) on the pretended device.

    `prepare` runs before, on the pretended device too, and is not observed.
    """
    marks = Marks()
    marks.mark(on_device, True)
    with (
        cuda_answered(),
        unseen_recorded(marks.made_on_host),
        GhostFunctions(marks),
        GhostOperators(marks),
    ):
        if prepare is not None:
            marks.quiet += 1
            prepare()
            marks.quiet -= 1
        call()
    return marks.events
