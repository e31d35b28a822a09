"""The backend compiles the same kernels as default mode, but for what placement changes."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
import torch

from benchmarks.kernels.generated import cause, difference, operations, title
from benchmarks.kernels.models import MODELS

generates = pytest.mark.skipif(
    sys.platform != "linux"
    or torch.cuda.is_available()
    or not torch.__version__.startswith("2.13"),
    reason="CUDA code without a GPU is generated with torch 2.13 for CPUs on Linux",
)

SOURCE = """
async_compile = AsyncCompile()
triton_poi_fused_add_{n} = async_compile.triton('triton_poi_fused_add_{n}', '''
@triton_heuristics.pointwise(
    size_hints={{'x': {size}}},
    inductor_meta={{'kernel_name': 'triton_poi_fused_add_{n}', 'num_load': 1}},
)
def triton_poi_fused_add_{n}(in_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0)
''', device_str='cuda')

async_compile.wait(globals())

def call(args):
    triton_poi_fused_add_{n}.run(buf{n}, {size}, stream=raw_stream0)
    extern_kernels.mm(buf{n}, arg{n}_1, out=buf9)
"""


def test_twelve_models_have_no_cpu_values_and_eight_have() -> None:
    assert Counter(model.cpu_values for model in MODELS) == {False: 12, True: 8}


def test_names_do_not_count_but_texts_sizes_and_calls_do() -> None:
    one, renamed = (operations([SOURCE.format(n=n, size=64)]) for n in (0, 3))
    assert sum(one.values()) == 2
    assert difference(one, renamed) == ([], [])
    larger = operations([SOURCE.format(n=0, size=128)])
    (old,), (new,) = difference(one, larger)
    assert (
        title(old) == "triton kernel(in_ptr0, xnumel, XBLOCK : tl.constexpr) on (_, 64, stream=_)"
    )
    assert "128" in title(new)
    assert difference(one, one + one) == ([], sorted(one))


def test_a_library_call_of_a_gpu_is_no_effect_of_placement() -> None:
    assert cause("library extern_kernels.mm(_, _, out=_)") == "not known"


@generates
@pytest.mark.parametrize("part", ["MLP, fp16, training", "written buffers"])
def test_without_cpu_values_the_kernels_are_those_of_default_mode(part: str) -> None:
    from benchmarks.kernels.__main__ import compare

    (model,) = [m for m in MODELS if m.name == part]
    row = compare(model)
    assert row["operations"] >= 4
    assert row["same"], row


@generates
def test_with_cpu_values_each_difference_is_the_placement() -> None:
    from benchmarks.kernels.__main__ import compare

    (model,) = [m for m in MODELS if m.name == "CPU scalar"]
    row = compare(model)
    assert row["copied"] == 1
    assert row["only_default"] and row["only_pygraph"]
    causes = {found["cause"] for found in row["only_default"] + row["only_pygraph"]}
    assert "not known" not in causes
