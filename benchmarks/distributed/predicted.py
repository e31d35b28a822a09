"""What several GPUs are predicted to do, from parts measured on one: no such run was made.

`python -m benchmarks.distributed.predicted` writes the result file again. Needs only Python.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
OUT = RESULTS / "distributed_predicted.json"
SOURCES = ("regional.json", "training.json", "runtime.json", "distributed_votes.json")

ASSUMED: dict[str, Any] = {
    "collective_us": [30, 100, 400],  # host time of one with its wait, in default mode
    "collective_gpu_us": 15,  # of a small one
    "memory_TB_s": 4.8,
    "matmul_TFLOP_s": 400,
    "decode_GB": 15.0,  # weights that a step of the 8B model reads, bf16, without the embedding
    "other_host_ms": [0, 20],  # FSDP2's hooks, optimizer, data: the same in both modes
}
"""Not measured here."""
TRAINED = {"llama 1B": (16, 1.24e9, 1), "llama 8B": (32, 8.03e9, 2)}
"""Layers, parameters, and how often a step runs forward (twice with checkpointing)."""
TOKENS, DECODE_LAYERS = 2048, 32


def load(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / name).read_text("utf-8"))  # type: ignore[no-any-return]


def parts() -> dict[str, Any]:
    """What was measured on one GPU: microseconds, and kernels of a Llama layer."""
    per_kernel, per_region = [], []
    rows = load("regional.json")["rows"]
    for row in (row for row in rows if row["name"].endswith("_inference")):
        default, ours = row["ways"]["blocks default"], row["ways"]["blocks pygraph"]
        calls = ours["region_calls"]
        nodes = next(r["nodes"] for r in row["regions"] if r["served"] > 1000)
        per_kernel.append((default["host_ms"] - ours["host_ms"]) / calls / nodes * 1e3)
        per_region.append(ours["in_regions_ms"] / calls * 1e3)
    llama = next(row for row in rows if row["name"] == "llama32_inference")
    whole = next(r["nodes"] for r in llama["regions"] if r["served"] < 1000)
    backward = [_nodes(t, "backward") / _nodes(t, "forward") for t in _training()]
    served = {row["case"]: row["host_us"]["median"] for row in load("runtime.json")["host"]["rows"]}
    return {
        "saved_us_a_kernel": _range(per_kernel),
        "served_region_us": _range(per_region),
        "llama_layer_kernels": next(r["nodes"] for r in llama["regions"] if r["served"] > 1000),
        "llama_whole_default_us_a_kernel": round(
            llama["ways"]["whole default"]["host_ms"] / whole * 1e3, 1
        ),
        "llama_whole_kernels_a_layer": round(whole / DECODE_LAYERS, 1),
        "backward_kernels_of_forward": _range(backward),
        "moved_memory_us_a_region": round(
            served["inputs moved, other memory held"] - served["nothing moved"], 1
        ),
        "vote_us": max(r["in_all_us_a_rank"] for r in load("distributed_votes.json")["rows"]),
    }


def _training() -> list[dict[str, Any]]:
    return [t for t in load("training.json")["timing"] if len(t["regions"]) == 2]


def _nodes(timed: dict[str, Any], kind: str) -> int:
    return next(r["nodes"] for r in timed["regions"] if kind in r["name"])  # type: ignore[no-any-return]


def _range(values: list[float]) -> list[float]:
    found = (min(values), statistics.median(values), max(values))
    return [round(value, 2) for value in found]


def decoding(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """Milliseconds a token of the 8B model: the host's or the GPU's, whichever is more."""
    found = []
    region = measured["served_region_us"][1]
    kernels = DECODE_LAYERS * measured["llama_whole_kernels_a_layer"]
    cuts = 2 * DECODE_LAYERS
    for world in (2, 4, 8):
        limit = ASSUMED["decode_GB"] / world / ASSUMED["memory_TB_s"]
        gpu = limit + cuts * ASSUMED["collective_gpu_us"] / 1e3
        for collective in ASSUMED["collective_us"]:
            outside = cuts * collective / 1e3
            default = kernels * measured["llama_whole_default_us_a_kernel"] / 1e3 + outside
            ours = (cuts + 1) * region / 1e3 + outside
            ms = {"default": max(default, gpu), "pygraph": max(ours, gpu)}
            found.append(
                {
                    "GPUs": world,
                    "collective_us": collective,
                    "limit_ms": round(limit, 2),
                    "ms": {mode: round(value, 1) for mode, value in ms.items()},
                    "times_as_fast": round(ms["default"] / ms["pygraph"], 2),
                }
            )
    return found


def training(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """FSDP2, one compiled block a layer: milliseconds of the host that a step saves, and of the
    GPU; the ratio for little and for much other host time.
    """
    found = []
    for name, (layers, parameters, forwards) in TRAINED.items():
        low, _, high = (
            layers * measured["llama_layer_kernels"] * (forwards + more) * saved / 1e3
            for more, saved in zip(
                measured["backward_kernels_of_forward"], measured["saved_us_a_kernel"], strict=True
            )
        )
        operations = (4 + 2 * forwards) * parameters * TOKENS
        gpu = operations / ASSUMED["matmul_TFLOP_s"] / 1e9
        region = layers * (1 + forwards) * measured["served_region_us"][1] / 1e3
        ratios = []
        for saved, other in zip((low, high), ASSUMED["other_host_ms"], strict=True):
            ours = region + other
            ratios.append(round(max(gpu, ours + saved) / max(gpu, ours), 2))
        found.append(
            {
                "model": name,
                "host_saved_ms": [round(low, 1), round(high, 1)],
                "gpu_ms": round(gpu, 1),
                "times_as_fast": ratios,
            }
        )
    return found


def predict() -> dict[str, Any]:
    """The content of the result file."""
    measured = parts()
    regions = 2 * 12
    return {
        "what": "predicted, not measured on several GPUs",
        "sources": list(SOURCES),
        "measured_parts": measured,
        "assumed": ASSUMED,
        "decoding": decoding(measured),
        "training": training(measured),
        "freed_every_50_steps_us_a_step": round(
            regions * measured["moved_memory_us_a_region"] / 50, 1
        ),
        "kernels_that_pay_for_a_region": round(
            measured["served_region_us"][2] / measured["llama_whole_default_us_a_kernel"], 1
        ),
    }


def main() -> None:
    """Write the result file."""
    OUT.write_text(json.dumps(predict(), indent=1) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
