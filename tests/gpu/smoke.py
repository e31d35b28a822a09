"""Not a test: prints, operation by operation and for two models, what became of each region. For
debugging.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import time
import traceback

import torch

import pygraph_rt
from tests.gpu.support import DEVICE, check, regions
from tests.gpu.test_ops import NAMES, cases


def bert() -> None:
    import transformers

    config = transformers.BertConfig(num_hidden_layers=4)
    model = transformers.BertForMaskedLM(config).to(DEVICE).eval().bfloat16()
    check(
        lambda x: model(input_ids=x).logits,
        lambda: [torch.randint(0, 1000, (1, 128), device=DEVICE)],
    )


def run(name: str, action: object) -> None:
    started = time.time()
    torch._dynamo.reset()
    try:
        action()  # type: ignore[operator]
        verdict = "ok"
    except BaseException as error:
        verdict = f"{type(error).__name__}: {str(error)[:600]}"
        if not isinstance(error, AssertionError):
            traceback.print_exc(limit=-6)
    print(f"{name:24s} {time.time() - started:5.1f}s {verdict}", flush=True)
    for r in regions():
        if r["state"] == "released":
            continue
        keys = ("state", "nodes", "words", "served", "patched", "capture_ms", "arena_bytes", "note")
        print("    ", {k: r[k] for k in keys}, r["reason"], r["misses"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*NAMES, "bert"])
    names = parser.parse_args().names
    faulthandler.enable()
    faulthandler.dump_traceback_later(240, exit=True)
    logging.basicConfig(level=logging.WARNING)
    print(torch.__version__, torch.cuda.get_device_name(), pygraph_rt.__file__)
    torch.manual_seed(0)
    for name in names:
        if name == "bert":
            run(name, bert)
            continue
        function, makers = cases()[name]
        run(name, lambda f=function, m=makers: check(f, lambda: [make() for make in m]))


if __name__ == "__main__":
    main()
