"""What the installed torch is, has and can."""

from __future__ import annotations

import contextlib
import pkgutil
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

OLDEST, NEWEST = (2, 11), (2, 15)


def torch_version() -> tuple[int, int]:
    """(major, minor) of the running torch."""
    numbers = re.findall(r"\d+", torch.__version__)
    return int(numbers[0]), int(numbers[1])


NEEDED = (
    "torch.Tag.cudagraph_unsafe",
    "torch.Tensor._use_count",
    "torch._C._CUDAGraph",
    "torch._C._autograd._top_saved_tensors_default_hooks",
    "torch._C._construct_storage_from_data_pointer",
    "torch._C._cuda_clearCublasWorkspaces",
    "torch._C._cuda_endAllocateToPool",
    "torch._C._cuda_getCurrentRawStream",
    "torch._C._cuda_getDevice",
    "torch._C._cuda_isCurrentStreamCapturing",
    "torch._C._cuda_isHistoryEnabled",
    "torch._C._cuda_releasePool",
    "torch._C._dispatch_get_all_op_names",
    "torch._C._dynamo.guards._reinterpret_tensor",
    "torch._C._is_any_autocast_enabled",
    "torch._C._storage_Use_Count",
    "torch._guards.CompileContext",
    "torch._guards.TracingContext",
    "torch._guards.detect_fake_mode",
    "torch._higher_order_ops.effects.with_effects",
    "torch._higher_order_ops.invoke_subgraph.invoke_subgraph",
    "torch._inductor.codegen.wrapper.SubgraphPythonWrapperCodegen",
    "torch._inductor.compile_fx.compile_fx_inner",
    "torch._inductor.config.unsafe_marked_cacheable_functions",
    "torch._inductor.cpp_builder.get_cpp_compiler",
    "torch._inductor.exc.InvalidCxxCompiler",
    "torch._inductor.list_mode_options",
    "torch._inductor.lowering.fallback_handler",
    "torch._inductor.lowering.lowerings",
    "torch._inductor.lowering.register_lowering",
    "torch._inductor.utils.BoxedBool",
    "torch._inductor.utils.get_donated_idxs",
    "torch._inductor.virtualized.V",
    "torch._ops.HigherOrderOperator",
    "torch._ops.OpOverload",
    "torch._subclasses.fake_tensor.FakeTensor",
    "torch._subclasses.fake_tensor.FakeTensorMode",
    "torch.cuda.memory._record_memory_history",
    "torch.cuda.memory._snapshot",
    "torch.fx.experimental.symbolic_shapes.free_unbacked_symbols",
    "torch.library._impls",
    "torch.multiprocessing.reductions.StorageWeakRef",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch.utils._python_dispatch.is_traceable_wrapper_subclass",
)
"""What the runtime uses of torch beside its public interface. Compilation without graphs needs none
of it; what is not here is used only where it is there.
"""


def why_plain() -> str | None:
    """Why this process can only compile without graphs, a clause; None when graphs are possible."""
    version = torch_version()
    if not OLDEST <= version <= NEWEST:
        return (
            f"pygraph knows torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, and this is "
            f"{torch.__version__}"
        )
    if torch.version.cuda is None:
        return f"this build of torch ({torch.__version__}) has no CUDA"
    missing = _missing()
    if missing is not None:
        return f"torch {torch.__version__} lacks {missing}, which pygraph needs"
    if not torch.cuda.is_available():
        return "no CUDA GPU or driver was found"
    return None


def _missing() -> str | None:
    """The first name of NEEDED that this torch does not have."""
    for name in NEEDED:
        with contextlib.suppress(ImportError, AttributeError):
            pkgutil.resolve_name(name)
            continue
        return name
    return None


def reinterpret() -> Callable[..., torch.Tensor]:
    """The function that generated code makes views of its buffers with."""
    from torch._C._dynamo import guards

    return guards._reinterpret_tensor  # type: ignore[attr-defined, no-any-return]


def guard_of() -> Callable[[list[Any]], Callable[..., bool]] | None:
    """What makes a guard of tensors in C++ (`Platform.guard_of`); None where torch has none."""
    from torch._C._dynamo import guards

    make = getattr(guards, "TensorGuards", None)
    if make is None:
        return None

    def of(tensors: list[Any]) -> Callable[..., bool]:
        sizes = [list(tensor.shape) for tensor in tensors]
        strides = [list(tensor.stride()) for tensor in tensors]
        guard = make(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        check: Callable[..., bool] = guard.check
        return check

    return of


def option_names() -> frozenset[str]:
    """Every name that Inductor's configuration knows."""
    from torch._inductor import config

    return frozenset(config.get_config_copy())


def versions() -> dict[str, str]:
    """Versions of what compiles and runs the generated code."""
    found = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    for package in ("triton", "pygraph-rt"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def cache_folder() -> Path:
    """Where Inductor keeps what it compiled for this machine."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def mode_options(mode: str | None) -> dict[str, Any]:
    """Inductor options of a `torch.compile` mode, without its own CUDA graphs."""
    if mode is None or mode == "default":
        return {}
    import torch._inductor

    options = dict(torch._inductor.list_mode_options(mode))
    options.pop("triton.cudagraphs", None)
    return options
