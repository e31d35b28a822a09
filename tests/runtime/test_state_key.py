"""Each switch that library calls read changes the key, in its old and its new spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pygraph_rt.state import families, state_of

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
    "deterministic": (
        torch.use_deterministic_algorithms,
        torch.are_deterministic_algorithms_enabled,
        True,
    ),
}


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


def test_modes_of_a_block_are_part_of_the_key() -> None:
    outside = global_state()
    seen = [outside]
    for block in (torch.no_grad(), torch.inference_mode()):
        with block:
            seen.append(global_state())
    dtype = torch.get_autocast_dtype("cuda")
    try:
        torch.set_autocast_enabled("cuda", True)
        for other in (torch.bfloat16, torch.float16):
            torch.set_autocast_dtype("cuda", other)
            seen.append(global_state())
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", dtype)
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
