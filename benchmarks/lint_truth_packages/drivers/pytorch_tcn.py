"""Temporal convolutional networks, also in streaming inference."""

from __future__ import annotations

import torch
from pytorch_tcn import TCN, TemporalConv1d, TemporalConvTranspose1d
from pytorch_tcn.buffer import BufferIO

from benchmarks.lint_truth_packages.programs import Call, call


def causal() -> Call:
    return call(TCN(4, [8, 8], kernel_size=3), torch.randn(2, 4, 32))


def not_causal_with_group_norm() -> Call:
    network = TCN(4, [8, 8], kernel_size=3, causal=False, use_norm="layer_norm")
    return call(network, torch.randn(2, 4, 32))


def skip_connections() -> Call:
    network = TCN(4, [8, 8], use_skip_connections=True, use_gate=True, activation="gelu")
    return call(network, torch.randn(2, 4, 32))


def batch_norm_and_projection() -> Call:
    network = TCN(4, [8, 8], use_norm="batch_norm", output_projection=3, output_activation="relu")
    return call(network, torch.randn(2, 4, 32))


def sequence_first() -> Call:
    return call(TCN(4, [8, 8], input_shape="NLC", dilations=[1, 4]), torch.randn(2, 32, 4))


def with_embeddings() -> Call:
    network = TCN(4, [8, 8], embedding_shapes=[(6,)], embedding_mode="add")
    return call(network, torch.randn(2, 4, 32), embeddings=torch.randn(2, 6))


def with_sequence_embeddings() -> Call:
    network = TCN(4, [8, 8], embedding_shapes=[(6, None)], embedding_mode="concat", use_gate=True)
    return call(network, torch.randn(2, 4, 32), embeddings=torch.randn(2, 6, 32))


def streaming() -> Call:
    network = TCN(4, [8, 8]).eval()
    return Call(network, (torch.randn(1, 4, 8),), {"inference": True}, grad=False)


def reset_buffers() -> Call:
    network = TCN(4, [8, 8]).eval()
    return Call(lambda: network.reset_buffers(), grad=False)


def external_buffers() -> Call:
    layer = TemporalConv1d(4, 8, 3)

    def run(x: torch.Tensor) -> torch.Tensor:
        return layer(x, inference=True, buffer_io=BufferIO([torch.zeros(1, 4, 2)]))

    return Call(run, (torch.randn(1, 4, 8),), state=layer, grad=False)


def transposed() -> Call:
    layer = TemporalConvTranspose1d(4, 8, kernel_size=4, stride=2)
    return call(layer, torch.randn(2, 4, 16))
