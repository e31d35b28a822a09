"""Wavelet transforms."""

from __future__ import annotations

import numpy as np
import ptwt
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def decompose() -> Call:
    return call(ptwt.wavedec, torch.randn(2, 64), "db2", level=2)


def there_and_back() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return ptwt.waverec(ptwt.wavedec(x, "haar", mode="zero"), "haar")

    return call(both, torch.randn(2, 64))


def decompose_images() -> Call:
    return call(ptwt.wavedec2, torch.randn(2, 16, 16), "db2", level=2, mode="reflect")


def images_there_and_back() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return ptwt.waverec2(ptwt.wavedec2(x, "haar", level=1), "haar")

    return call(both, torch.randn(2, 15, 16))


def decompose_volumes() -> Call:
    return call(ptwt.wavedec3, torch.randn(2, 8, 8, 8), "haar", level=1)


def separable() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return ptwt.fswaverec2(ptwt.fswavedec2(x, "haar", level=2), "haar")

    return call(both, torch.randn(2, 16, 16))


def matrix_transform() -> Call:
    transform = ptwt.MatrixWavedec("db2", level=2)
    return call(transform, torch.randn(2, 64))


def matrix_there_and_back() -> Call:
    forward, back = ptwt.MatrixWavedec("db2", level=2), ptwt.MatrixWaverec("db2")
    return call(lambda x: back(forward(x)), torch.randn(2, 64))


def matrix_transform_of_images() -> Call:
    return call(ptwt.MatrixWavedec2("haar", level=1), torch.randn(2, 16, 16))


def continuous() -> Call:
    def transform(x: torch.Tensor) -> torch.Tensor:
        return ptwt.cwt(x, np.arange(1, 6), "mexh")[0]

    return call(transform, torch.randn(2, 64))


def stationary() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return ptwt.iswt(ptwt.swt(x, "haar", level=2), "haar")

    return call(both, torch.randn(2, 64))


def packet() -> Call:
    def nodes(x: torch.Tensor) -> torch.Tensor:
        tree = ptwt.WaveletPacket(x, "haar", maxlevel=2)
        return torch.stack([tree[name] for name in tree.get_level(2)])

    return call(nodes, torch.randn(2, 64))


def packet_of_images() -> Call:
    def nodes(x: torch.Tensor) -> torch.Tensor:
        tree = ptwt.WaveletPacket2D(x, "haar", maxlevel=1)
        return tree["a"] + tree["h"]

    return call(nodes, torch.randn(2, 16, 16))
