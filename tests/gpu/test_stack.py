"""Padding in the parameters of library kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from pygraph_rt import backend
from pygraph_rt.capture.address_words import LOWER_HALF, SMALL
from pygraph_rt.capture.unknown_words import LOW, UnknownWords
from tests.gpu.support import DEVICE, graphed, regions


def attention(x: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def asked(fill: Any) -> list[int]:
    """Words of a captured training step that look like half an address beside a small number."""
    words: list[int] = []
    ask = UnknownWords._ask

    def noted(self: UnknownWords, word: int) -> str | None:
        words.append(word)
        return ask(self, word)

    maker = backend._graph_maker()
    platform = maker.platform
    native = replace(platform.native, fill_stack=fill)
    with (
        mock.patch.object(UnknownWords, "_ask", noted),
        mock.patch.object(maker, "platform", replace(platform, native=native)),
        sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION),
    ):
        torch._dynamo.reset()
        fast = graphed(attention)
        for _ in range(6):
            x = torch.randn(1, 4, 128, 64, device=DEVICE, requires_grad=True)
            fast(x).sum().backward()
    assert {r["state"] for r in regions()} == {"serving"}, regions()
    return [w for w in words if w >= LOW and w & LOWER_HALF < SMALL]


def test_padding_is_not_taken_for_addresses() -> None:
    fill = backend._graph_maker().platform.native.fill_stack
    if fill is None:
        pytest.skip("no C compiler")
    assert asked(fill) == []
    print("without filling:", len(set(asked(None))))
