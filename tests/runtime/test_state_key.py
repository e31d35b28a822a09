"""Each switch that library calls read changes the key, in its old and its new spelling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from pygraph_rt.cuda.global_flags import families, state_of
from pygraph_rt.errors import Unprovable

global_state = state_of(None)  # a function it knows nothing of: every switch

matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn


def attribute(owner: Any, name: str) -> tuple[Callable[[Any], None], Callable[[], Any]]:
    return lambda value: setattr(owner, name, value), lambda: getattr(owner, name)


SWITCHES: dict[str, tuple[Callable[[Any], None], Callable[[], Any], Any]] = {
    "matmul tf32": (*attribute(matmul, "allow_tf32"), True),
    "matmul precision": (
        torch.set_float32_matmul_precision,
        torch.get_float32_matmul_precision,
        "high",
    ),
    "fp16 reduction": (*attribute(matmul, "allow_fp16_reduced_precision_reduction"), False),
    "bf16 reduction": (*attribute(matmul, "allow_bf16_reduced_precision_reduction"), False),
    "cudnn tf32": (*attribute(cudnn, "allow_tf32"), False),
    "cudnn enabled": (*attribute(cudnn, "enabled"), False),
    "cudnn benchmark": (*attribute(cudnn, "benchmark"), True),
    "cudnn deterministic": (*attribute(cudnn, "deterministic"), True),
    "flash": (torch.backends.cuda.enable_flash_sdp, torch.backends.cuda.flash_sdp_enabled, False),
    "efficient": (
        torch.backends.cuda.enable_mem_efficient_sdp,
        torch.backends.cuda.mem_efficient_sdp_enabled,
        False,
    ),
    "math": (torch.backends.cuda.enable_math_sdp, torch.backends.cuda.math_sdp_enabled, False),
    "cudnn sdp": (
        torch.backends.cuda.enable_cudnn_sdp,
        torch.backends.cuda.cudnn_sdp_enabled,
        False,
    ),
    "math reduction": (
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp,
        torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
        True,
    ),
    "fp16 accumulation": (*attribute(matmul, "allow_fp16_accumulation"), True),
    "sm carveout": (
        torch._C._set_sm_carveout_experimental,
        torch._C._get_sm_carveout_experimental,
        8,
    ),
    "order of attentions": (
        torch._C._set_sdp_priority_order,
        lambda: list(torch._C._get_sdp_priority_order()),
        [0, 2, 1, 3, 4],
    ),
    "fill": (*attribute(torch.utils.deterministic, "fill_uninitialized_memory"), False),
    "gradients": (torch.set_grad_enabled, torch.is_grad_enabled, False),
    "warn only": (
        lambda value: torch.use_deterministic_algorithms(value, warn_only=value),
        torch.is_deterministic_algorithms_warn_only_enabled,
        True,
    ),
    "deterministic": (
        torch.use_deterministic_algorithms,
        torch.are_deterministic_algorithms_enabled,
        True,
    ),
}
if torch.backends.cuda.is_built():  # other builds refuse to change them
    SWITCHES |= {
        "products": (
            torch._C._set_blas_preferred_backend,
            torch._C._get_blas_preferred_backend,
            torch._C._BlasBackend.Cublaslt,
        ),
        "linear algebra": (
            torch._C._set_linalg_preferred_backend,
            torch._C._get_linalg_preferred_backend,
            torch._C._LinalgBackend.Cusolver,
        ),
    }


@contextlib.contextmanager
def autocasting(dtype: torch.dtype) -> Iterator[None]:
    """What `torch.autocast("cuda", dtype)` does where there is a GPU."""
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", before)


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_changes_the_key_and_changes_it_back(name: str) -> None:
    set_to, get, other = SWITCHES[name]
    value = get()
    set_to(value)
    before = global_state()
    assert global_state() == before
    try:
        set_to(other)
        if get() == value:
            pytest.skip("this build of torch does not let the switch be changed")
        assert global_state() != before
    finally:
        set_to(value)
    assert global_state() == before


@pytest.mark.parametrize("operation", ["matmul", "conv", "rnn"])
def test_switches_under_their_new_names(operation: str) -> None:
    """Torch refuses to read the older ones then."""
    owner = {"matmul": matmul, "conv": cudnn.conv, "rnn": cudnn.rnn}[operation]
    before = owner.fp32_precision
    seen = []
    try:
        for value in ("tf32", "ieee"):
            owner.fp32_precision = value
            seen.append(global_state())
        assert seen[0] != seen[1]
        owner.fp32_precision = "tf32"
        assert global_state() == seen[0]
    finally:
        owner.fp32_precision = before


def test_modes_of_a_block_are_part_of_the_key() -> None:
    outside = global_state()
    seen = [outside]
    for block in (torch.no_grad(), torch.inference_mode()):
        with block:
            seen.append(global_state())
    for dtype in (torch.bfloat16, torch.float16):
        with autocasting(dtype):
            seen.append(global_state())
    assert len(set(seen)) == 5
    assert global_state() == outside


def test_switches_that_disagree_under_their_new_names_are_told_apart() -> None:
    conv, rnn = cudnn.conv, cudnn.rnn
    before = (conv.fp32_precision, rnn.fp32_precision)
    seen = []
    try:
        for values in (("tf32", "ieee"), ("ieee", "tf32"), ("ieee", "ieee"), ("tf32", "tf32")):
            conv.fp32_precision, rnn.fp32_precision = values
            seen.append(global_state())
    finally:
        conv.fp32_precision, rnn.fp32_precision = before
    assert len(set(seen)) == 4


def generated(*lines: str) -> Any:
    """A function with the names that Inductor's generated code has."""
    body = "\n    ".join(lines)
    source = f"""
def partition_0(args):
    primals_1, primals_2 = args
    args.clear()
    assert_size_stride(primals_1, (8, 8), (8, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((8, 8), (8, 1), torch.float32)
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_0.run(primals_1, buf0, 64, stream=stream0)
    {body}
    return (reinterpret_tensor(buf0, (64,), (1,), 0),)
"""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["partition_0"]


EVERYTHING = families(None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pass", {"any"}),
        ("extern_kernels.addmm(primals_1, primals_2, buf0, alpha=1, out=buf0)", {"any", "blas"}),
        ("buf0 = extern_kernels.convolution(primals_1, primals_2)", {"any", "blas", "cudnn"}),
        (
            "buf0 = torch.ops.aten._scaled_dot_product_flash_attention.default(primals_1)",
            {"any", "blas", "cudnn", "attention"},
        ),
        ("buf0 = torch.ops.aten.linalg_solve.default(primals_1)", EVERYTHING),
        ("buf0 = torch.ops.mine.mm.default(primals_1)", EVERYTHING),
        ("buf0 = (lambda: extern_kernels.mm(primals_1, primals_2))()", EVERYTHING),
    ],
)
def test_a_region_reads_the_switches_of_its_own_library_calls(
    line: str, expected: set[str]
) -> None:
    assert families(generated(line)) == expected


def test_a_region_that_multiplies_matrices_does_not_care_about_convolutions() -> None:
    state = state_of(generated("extern_kernels.mm(primals_1, primals_2, out=buf0)"))
    convolutions, products = cudnn.benchmark, matmul.allow_tf32
    matmul.allow_tf32 = products  # from here on it is set under its new name, too
    before = state()
    try:
        cudnn.benchmark = not convolutions
        assert state() == before
        matmul.allow_tf32 = not products
        assert state() != before
    finally:
        cudnn.benchmark, matmul.allow_tf32 = convolutions, products
    with torch.no_grad():
        assert state() != before
    assert state() == before


@pytest.mark.parametrize("name", ["_get_cublas_allow_fp16_accumulation", "fp32_precision matmul"])
def test_a_switch_that_torch_renamed_refuses_a_graph(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would leave the key, and a graph be served whatever the switch says."""
    from pygraph_rt.cuda import global_flags

    global_flags.check(mm)
    if name.startswith("fp32"):
        monkeypatch.delattr(torch._C, "_get_fp32_precision_getter")
    else:
        monkeypatch.delattr(torch._C, name)
    with pytest.raises(Unprovable, match=name):
        global_flags.check(mm)
    global_flags.check(pointwise)  # reads none of them


def test_this_torch_has_every_switch() -> None:
    from pygraph_rt.cuda import global_flags

    global_flags.check(None)


def mm(args: Any) -> Any:
    return extern_kernels.mm(*args)  # type: ignore[name-defined]  # noqa: F821


def pointwise(args: Any) -> Any:
    return triton_poi_fused_add_0.run(*args)  # type: ignore[name-defined]  # noqa: F821
