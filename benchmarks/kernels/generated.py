"""What a generated module does: its kernels, library calls and configurations, without names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_KERNEL = re.compile(
    r"^(\w+) = async_compile\.(triton|cpp_pybinding|cpp)\((.*?)'''(.*?)'''",
    re.MULTILINE | re.DOTALL,
)
_CALL = re.compile(
    r"(?:(extern_kernels\.\w+|(?:torch\.ops\.|aten\.|inductor_ops\.)[\w.]+)|(\w+)\.run|(\bcpp_\w+))\((.*)\)"
)
_COPY = re.compile(r"^\s*\w+\.copy_\(.*\)")
# Where it was written, what it is called, and what a cache is keyed by.
_NAMES = re.compile(
    r"'(?:kernel_name|backend_hash)': '[^']*',? ?|'autotune_local_cache': \w+, ?|#.*|"
    r"'force_disable_caches': \w+, ?"
)
_VALUES = re.compile(
    r"\b(buf\d+|arg\d+_\d+|primals_\d+|tangents_\d+|raw_stream\d+|partition\d*_args|[a-z]\w*_\d+)\b"
)


def operations(sources: Iterable[str]) -> Counter[str]:
    """Every launch and library call of some generated modules, names normalised: a kernel's whole
    text with its decorator (size hints, signature, divisibility), and the sizes it is launched on.
    """
    found: Counter[str] = Counter()
    for source in sources:
        kernels = {}
        for name, kind, head, body in _KERNEL.findall(source):
            text = body.replace(name, "KERNEL")
            arguments = _VALUES.sub("_", head) if kind != "triton" else ""
            kernels[name] = f"{kind} {arguments}\n{_NAMES.sub('', text)}"
        found.update(_calls(source, kernels))
    return found


def _calls(source: str, kernels: dict[str, str]) -> Iterable[str]:
    code = _KERNEL.sub("", source).split("def get_args")[0].split("async_compile = ")[-1]
    for line in code.splitlines():
        text = line.split("#")[0]
        call = _CALL.search(text)
        if _COPY.match(text):
            yield f"copy {_VALUES.sub('_', text.strip())}"
        elif call is not None:
            library, triton, cpp, arguments = call.groups()
            name = triton or cpp or ""
            sizes = _VALUES.sub(
                "_", arguments.replace(f"{name}_", "KERNEL ") if name else arguments
            )
            kernel = kernels.get(name)
            if kernel is not None:
                yield f"{kernel}\nlaunched on ({sizes})"
            elif library is not None:
                yield f"library {library}({sizes})"


def title(operation: str) -> str:
    """One line for an operation: the library call, or a kernel's signature and sizes."""
    if not operation.startswith(("triton", "cpp")):
        return operation
    signature = re.search(r"def KERNEL\((.*?)\)|void\s+kernel\((.*?)\)", operation, re.DOTALL)
    sizes = operation.rsplit("launched on ", 1)[-1]
    arguments = " ".join((signature.group(1) or signature.group(2)).split()) if signature else ""
    return f"{operation.split()[0]} kernel({arguments}) on {sizes}"


def difference(one: Counter[str], other: Counter[str]) -> tuple[list[str], list[str]]:
    """What only `one` has, and what only `other` has."""
    return sorted((one - other).elements()), sorted((other - one).elements())


def cause(operation: str) -> str:
    """Why only one of default mode and the backend has an operation, in a graph with CPU values."""
    if "from_sizes" in operation:
        return "placement: a value of sizes and constants is computed once, on the CPU"
    if operation.startswith("copy "):
        return "placement: CPU values are copied to the GPU"
    if operation.startswith("library torch.ops.aten.c"):
        return "placement: CPU values are joined for one copy"
    if operation.startswith("cpp"):
        return "placement: what is computed on the CPU also fills the memory that is copied"
    if operation.startswith("triton"):
        if ".item()" in operation:
            return "a CPU scalar is an argument of the kernel; placed, it is read from GPU memory"
        return "placement: the kernel computes a CPU value itself, or reads it from GPU memory"
    return "not known"
