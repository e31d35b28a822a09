"""Each switch that library calls read changes the key, in its old and its new spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pygraph_rt.state import global_state

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
