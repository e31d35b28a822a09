"""State, lifetimes, streams, threads, global switches: everything a served call must not get
wrong.
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import pygraph_rt
from pygraph_rt import backend
from pygraph_rt.replay.patch import NativePatcher
from pygraph_rt.replay.platform import Native
from tests.gpu.support import (
    DEVICE,
    assert_same,
    check,
    copies,
    graphed,
    ordinary_path,
    poison_free_memory,
    regions,
    ungraphed,
)


class Net(torch.nn.Module):
    """Two linear layers and a norm: library kernels, Triton kernels, intermediates."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, 2 * width)
        self.second = torch.nn.Linear(2 * width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.second(F.gelu(self.first(x))))


def net(**options: Any) -> tuple[Any, Any, torch.nn.Module]:
    module = Net().to(DEVICE).eval()
    return graphed(module, **options), ungraphed(module), module


def x(rows: int = 64) -> torch.Tensor:
    return torch.randn(rows, 256, device=DEVICE)


def served() -> int:
    return sum(r["served"] for r in regions())


def test_cache_written_in_place_and_moved() -> None:
    def step(cache: torch.Tensor, value: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, position, value)
        return (cache.softmax(0) @ cache.mT).sum(-1)

    caches: dict[int, torch.Tensor] = {}

    def make() -> list[torch.Tensor]:
        if len(caches) % 3 == 0:
            caches[len(caches)] = torch.randn(128, 64, device=DEVICE)
        cache = list(caches.values())[-1].clone()
        caches[len(caches)] = cache
        return [
            cache,
            torch.randn(1, 64, device=DEVICE),
            torch.randint(0, 128, (1,), device=DEVICE),
        ]

    check(step, make, calls=12)


def test_state_stays_in_step_over_many_calls() -> None:
    def step(state: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        state.mul_(0.9).add_(value)
        return state.sum(0)

    fast, plain = graphed(step), ungraphed(step)
    mine, other = torch.zeros(64, 64, device=DEVICE), torch.zeros(64, 64, device=DEVICE)
    with torch.no_grad():
        for i in range(40):
            value = torch.randn(64, 64, device=DEVICE)
            assert_same(fast(mine, value), plain(other, value))
            if i % 7 == 6:
                mine, other = mine.clone(), other.clone()
    assert_same(mine, other)
    assert served() >= 37


def test_static_cache_decode_of_a_llama() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=1000,
        max_position_embeddings=512,
    )
    model = transformers.LlamaForCausalLM(config).to(DEVICE).eval().bfloat16()

    def cache() -> Any:
        made = transformers.StaticCache(config=config, max_cache_len=64)
        with torch.no_grad():
            model(
                input_ids=torch.arange(8, device=DEVICE)[None],
                past_key_values=made,
                cache_position=torch.arange(8, device=DEVICE),
                use_cache=True,
            )
        return made

    def decode(token: torch.Tensor, position: torch.Tensor, kept: Any) -> torch.Tensor:
        return model(
            input_ids=token, past_key_values=kept, cache_position=position, use_cache=True
        ).logits

    fast, plain = graphed(decode), ungraphed(decode)
    mine, other = cache(), cache()
    with torch.no_grad():
        for i in range(8, 24):
            token = torch.randint(0, 1000, (1, 1), device=DEVICE)
            position = torch.tensor([i], device=DEVICE)
            poison_free_memory()
            a = fast(token, position, mine)
            b = plain(token.clone(), position.clone(), other)
            assert_same(a, b)
    for left, right in zip(mine.layers, other.layers, strict=True):
        assert_same([left.keys, left.values], [right.keys, right.values])
    assert any(r["state"] == "serving" and r["served"] >= 8 for r in regions()), regions()


def test_a_hundred_outputs_stay_as_they_were() -> None:
    fast, plain, _ = net()
    kept = []
    with torch.no_grad():
        for _ in range(100):
            value = x()
            kept.append((fast(value), plain(value)))
        poison_free_memory()
        for actual, expected in kept:
            assert_same(actual, expected)
    assert served() >= 97


def test_memory_of_the_captures_is_not_used_again() -> None:
    fast, plain, _ = net()
    early = []
    with torch.no_grad():
        for _ in range(3):
            value = x()
            early.append([value, fast(value)])
            plain(value)
        torch.cuda.synchronize()
        for tensors in early:
            for tensor in tensors:
                tensor.fill_(float("nan"))
        for _ in range(5):
            value = x()
            poison_free_memory()
            actual = fast(value)
            poison_free_memory()
            assert_same(actual, plain(value))
    for tensors in early:
        assert all(tensor.isnan().all() for tensor in tensors)
    assert served() == 6


def test_an_output_owns_only_its_bytes() -> None:
    fast, _, _ = net()
    with torch.no_grad():
        for _ in range(4):
            result = fast(x())
        assert result.untyped_storage().nbytes() == result.numel() * 4
        torch.cuda.synchronize()
        value = x()
        before = torch.cuda.memory_allocated()
        result = fast(value)
        grown = torch.cuda.memory_allocated() - before
    assert grown <= max(result.numel() * 4, 512)
    assert result.data_ptr() not in (value.data_ptr(), 0)


def test_capture_gives_its_memory_back() -> None:
    fast, _, _ = net()
    value = x(4096)
    with torch.no_grad():
        fast(value)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        fast(value)
        fast(value)
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before
    assert served() == 1


def test_three_functions_interleaved() -> None:
    module = Net().to(DEVICE).eval()

    def doubled(value: torch.Tensor) -> torch.Tensor:
        return module(value) * 2

    def sorted_rows(value: torch.Tensor) -> torch.Tensor:
        return torch.sort(module.first(value), dim=-1)[0]

    pairs = [(graphed(f), ungraphed(f)) for f in (module, doubled, sorted_rows)]
    with torch.no_grad():
        for i in range(12):
            kept = []
            for fast, plain in pairs[i % 3 :] + pairs[: i % 3]:
                value = x()
                kept.append((fast(value), plain(value)))
            for actual, expected in kept:
                assert_same(actual, expected)
    assert len(regions("serving")) == 3


def test_two_threads_on_two_streams() -> None:
    fast, plain, _ = net()
    failures: list[BaseException] = []
    barrier = threading.Barrier(2)

    def work(seed: int) -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                generator = torch.Generator(DEVICE).manual_seed(seed)
                barrier.wait()
                for _ in range(60):
                    value = torch.randn(64, 256, device=DEVICE, generator=generator)
                    assert_same(fast(value), plain(value))
        except BaseException as error:
            failures.append(error)

    with torch.no_grad():
        fast(x()), plain(x())
    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    # While one of them makes the graph, the other may get through all of its calls.
    assert served() > 50


def test_two_streams_without_waiting() -> None:
    fast, plain, _ = net()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    kept = []
    with torch.no_grad():
        for _ in range(3):
            value = x()
            fast(value), plain(value)
        torch.cuda.synchronize()
        for i in range(40):
            with torch.cuda.stream(streams[i % 2]):
                value = x()
                actual = fast(value)
                value.record_stream(streams[(i + 1) % 2])
                actual.record_stream(streams[(i + 1) % 2])
                kept.append((actual, plain(value)))
                del value
    torch.cuda.synchronize()
    for actual, expected in kept:
        assert_same(actual, expected)
    assert served() >= 40


def test_beside_a_data_loader_that_pins_memory() -> None:
    fast, plain, _ = net()
    data = torch.utils.data.TensorDataset(torch.randn(640, 256))
    loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=1, pin_memory=True)
    with torch.no_grad():
        for (batch,) in loader:
            value = batch.to(DEVICE, non_blocking=True)
            assert_same(fast(value), plain(value))
    assert served() >= 17


@pytest.mark.parametrize(
    "switch",
    ["tf32", "sdp", "deterministic", "benchmark", "reduced_precision"],
)
def test_a_switch_changed_after_capture_is_obeyed(switch: str) -> None:
    setters = {
        "tf32": lambda v: setattr(torch.backends.cuda.matmul, "allow_tf32", v),
        "sdp": torch.backends.cuda.enable_flash_sdp,
        "deterministic": lambda v: torch.use_deterministic_algorithms(not v, warn_only=True),
        "benchmark": lambda v: setattr(torch.backends.cudnn, "benchmark", v),
        "reduced_precision": lambda v: setattr(
            torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", v
        ),
    }
    weight = torch.randn(512, 512, device=DEVICE)
    half = torch.randn(64, 3, 3, 3, device=DEVICE, dtype=torch.half)

    def work(a: torch.Tensor, q: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attention = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return a @ weight, attention, F.conv2d(image, half)

    fast, plain = graphed(work), ungraphed(work)
    set_to = setters[switch]
    try:
        with torch.no_grad():
            for value in (True, True, True, True, False, False, False, True, True, False):
                set_to(value)
                inputs = [
                    torch.randn(128, 512, device=DEVICE),
                    torch.randn(2, 8, 128, 64, device=DEVICE, dtype=torch.bfloat16),
                    torch.randn(2, 3, 32, 32, device=DEVICE, dtype=torch.half),
                ]
                assert_same(fast(*inputs), plain(*inputs))
    finally:
        set_to(switch not in ("tf32", "benchmark"))
    assert served() >= 2


def test_misaligned_and_strided_inputs() -> None:
    def work(a: torch.Tensor) -> torch.Tensor:
        return a * 2 + a.mean(-1, keepdim=True)

    fast = graphed(work)
    base = torch.randn(64 * 64 + 256, device=DEVICE)
    with torch.no_grad():
        for offset in (0, 0, 0, 1, 2, 4, 16, 64, 3, 0, 4, 0):
            value = base[offset : offset + 64 * 64].view(64, 64)
            with_graphs = fast(value)
            with ordinary_path():  # compiled apart, the sum of a row may be taken in another order
                assert_same(with_graphs, fast(value))


def test_parameters_that_move_are_followed() -> None:
    fast, plain, module = net()
    with torch.no_grad():
        for i in range(12):
            if i in (4, 6):
                for parameter in module.parameters():
                    parameter.data = parameter.data.clone() * 1.5
                poison_free_memory()
            if i == 8:
                state = {k: v.clone() * 0.5 for k, v in module.state_dict().items()}
                module.load_state_dict(state, assign=True)
            value = x()
            assert_same(fast(value), plain(value))
    assert served() >= 6


def test_aliases_come_out_as_without_graphs() -> None:
    def work(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        c = a + b
        return a, a[1:], c, c[0], c.view(-1)[3:], b.add_(1)

    fast, plain = graphed(work), ungraphed(work)

    def shape(results: Any, inputs: list[torch.Tensor]) -> list[Any]:
        tensors = [*inputs, *results]
        pointers = [t.untyped_storage().data_ptr() for t in tensors]
        return [pointers.index(p) for p in pointers] + [
            (t.storage_offset(), t.stride(), t.untyped_storage().nbytes()) for t in results
        ]

    with torch.no_grad():
        for _ in range(6):
            mine = [torch.randn(8, 8, device=DEVICE) for _ in range(2)]
            other = copies(mine)
            a, b = fast(*mine), plain(*other)
            assert_same(a, b)
            assert_same(mine, other)
            assert shape(a, mine) == shape(b, other)


def test_a_capture_of_the_callers_own_takes_the_ordinary_path() -> None:
    fast, plain, _ = net()
    value = x()
    with torch.no_grad():
        for _ in range(4):
            fast(value)
        before = served()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = fast(value)
        assert served() == before
        value.copy_(x())
        graph.replay()
        assert_same(result, plain(value))


@pytest.mark.parametrize("warm", ["elsewhere", "on its stream"])
def test_a_graph_that_the_caller_captured_before_replays_right(warm: str) -> None:
    """cuBLAS keeps a workspace for each stream, and the caller's graph has its address."""
    if warm == "on its stream" and torch.__version__ < "2.12":
        pytest.skip("torch 2.11 can only clear the workspaces of all streams")
    a, b = torch.randn(96, 4096, device=DEVICE), torch.randn(4096, 96, device=DEVICE)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream if warm == "on its stream" else torch.cuda.Stream()):
        a @ b
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = a @ b
    expected = a @ b
    fast, plain, _ = net()
    with torch.no_grad():
        for _ in range(4):
            value = x()
            assert_same(fast(value), plain(value))
    assert regions("serving")
    # Whatever the captures have let go of is used again.
    taken = [torch.full((1 << 20,), 7.0, device=DEVICE) for _ in range(64)]
    for _ in range(3):
        a.normal_()
        torch.matmul(a, b, out=expected)
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(result, expected)
    assert all(bool((each == 7.0).all()) for each in taken)


def test_reset_frees_the_graphs_and_the_code_keeps_working() -> None:
    fast, plain, _ = net()
    with torch.no_grad():
        for _ in range(4):
            fast(x())
        held = [r for r in pygraph_rt.report().to_dict()["regions"] if r["state"] == "serving"]
        assert held
        torch._dynamo.reset()
        value = x()
        assert_same(fast(value), plain(value))
    assert not regions("serving")


def test_many_captures_leave_no_memory_behind() -> None:
    value = x()

    def round_trip() -> None:
        fast, _, _ = net()
        with torch.no_grad():
            for _ in range(4):
                fast(value)
        torch._dynamo.reset()
        gc.collect()

    round_trip()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(5):
        round_trip()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before


def test_out_of_memory_in_a_capture_falls_back() -> None:
    def work(a: torch.Tensor) -> torch.Tensor:
        return (torch.sort(a, dim=-1)[0] @ a.mT).sum(-1)

    fast, plain = graphed(work), ungraphed(work)
    value = torch.randn(2048, 2048, device=DEVICE)
    total = torch.cuda.get_device_properties(0).total_memory
    with torch.no_grad():
        expected = plain(value)
        fast(value)
        torch.cuda.synchronize()
        torch.cuda.set_per_process_memory_fraction(
            (torch.cuda.memory_reserved() + (8 << 20)) / total
        )
        try:
            actual = fast(value)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert_same(actual, expected)
        for _ in range(3):
            assert_same(fast(value), expected)
    (region,) = regions()
    assert region["state"] == "refused"
    assert "memory" in region["reason"]


def test_dynamic_shapes_get_a_graph_each() -> None:
    module = Net().to(DEVICE).eval()
    fast = torch.compile(
        module, backend=pygraph_rt.pygraph, dynamic=True, options={"graphs": "always"}
    )
    plain = torch.compile(
        module, backend=pygraph_rt.pygraph, dynamic=True, options={"graphs": "never"}
    )
    with torch.no_grad():
        for rows in (8, 8, 8, 24, 24, 24, 8, 24, 40, 8, 40, 40, 8, 16):
            value = x(rows)
            assert_same(fast(value), plain(value))
    assert served() >= 4


def test_more_kinds_of_calls_than_graphs() -> None:
    fast = torch.compile(
        torch.nn.Softmax(-1).to(DEVICE),
        backend=pygraph_rt.pygraph,
        dynamic=True,
        options={"variants": 2, "graphs": "always"},
    )
    with torch.no_grad():
        for rows in (8, 8, 8, 24, 24, 24, 40, 40, 40, 8):
            value = x(rows)
            torch.testing.assert_close(fast(value), value.softmax(-1))
    (region,) = regions()
    assert region["graphs"] <= 2
    assert any("kinds of calls" in why for why in region["misses"])


def test_a_graph_split_around_the_cpu() -> None:
    def work(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = torch.relu(a) @ a
        total = b.sum().cpu() + 1
        return torch.sort(b * 2, dim=-1)[0].add_(1), total

    found = check(work, lambda: [torch.randn(64, 64, device=DEVICE)], served=False)
    assert any(r["state"] == "serving" for r in found), found


def test_under_inference_mode_and_autocast() -> None:
    fast, plain, _ = net()
    for _ in range(6):
        value = x()
        with torch.inference_mode():
            assert_same(fast(value), plain(value))
    for _ in range(6):
        value = x()
        with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            assert_same(fast(value), plain(value))
    assert served() >= 6


def test_inside_a_memory_pool_of_the_callers() -> None:
    fast, plain, _ = net()
    pool = torch.cuda.MemPool()
    with torch.no_grad():
        with torch.cuda.use_mem_pool(pool):
            for _ in range(5):
                value = x()
                assert_same(fast(value), plain(value))
        for _ in range(5):
            value = x()
            assert_same(fast(value), plain(value))
    (region,) = regions()
    assert "use_mem_pool" in region["reason"]


@pytest.mark.parametrize("compiled", [True, False])
def test_with_and_without_the_compiled_helper(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = backend._graph_maker().platform
    assert platform.native.launch is not None, "Triton works here, so there is a C compiler"
    if not compiled:
        monkeypatch.setitem(vars(platform), "native", Native(None, platform.native.memory))
    fast, plain, _ = net()
    junk = []
    with torch.no_grad():
        for i in range(40):
            junk.append(torch.empty((i % 7 + 1) << 18, dtype=torch.uint8, device=DEVICE))
            if i % 5 == 4:
                junk.clear()
            value = x()
            assert_same(fast(value), plain(value))
    (replay,) = [p.replay for p in pygraph_rt.pygraph.partitions() if p.replay is not None]
    assert isinstance(replay._launcher.sub_graphs[0].graph.patcher, NativePatcher) == compiled
    assert replay.patched > 0
    assert served() == 38


def test_without_the_comparison_of_the_first_call() -> None:
    fast, plain, _ = net(verify=False)
    with torch.no_grad():
        for _ in range(6):
            value = x()
            assert_same(fast(value), plain(value))
    assert served() == 5
