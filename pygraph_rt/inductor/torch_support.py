"""What the installed torch is, has and can."""

from __future__ import annotations

import contextlib
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


# What the runtime asks of torch beside its public interface, in `torch._C` where not said.
_NEEDED = (
    "_construct_storage_from_data_pointer",
    "_cuda_clearCublasWorkspaces",
    "_cuda_getCurrentRawStream",
    "_cuda_getDevice",
    "_cuda_isCurrentStreamCapturing",
)


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
    if not torch.cuda.is_available():
        return "no CUDA GPU or driver was found"
    missing = [name for name in _NEEDED if not hasattr(torch._C, name)]
    if missing:
        return f"torch {torch.__version__} lacks torch._C.{missing[0]}, which pygraph needs"
    return None


def reinterpret() -> Callable[..., torch.Tensor]:
    """The function that generated code makes views of its buffers with."""
    from torch._C._dynamo import guards

    return guards._reinterpret_tensor  # type: ignore[attr-defined, no-any-return]


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
