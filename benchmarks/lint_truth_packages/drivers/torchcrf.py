"""Linear-chain conditional random fields."""

from __future__ import annotations

import torch
from torchcrf import CRF

from benchmarks.lint_truth_packages.programs import Call, call


def _batch(batch_first: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = (3, 8) if batch_first else (8, 3)
    mask = torch.ones(shape, dtype=torch.bool)
    mask[(0, slice(5, None)) if batch_first else (slice(5, None), 0)] = False
    return torch.randn(*shape, 5), torch.randint(0, 5, shape), mask


def likelihood() -> Call:
    emissions, tags, _ = _batch()
    return call(CRF(5), emissions, tags)


def likelihood_with_mask() -> Call:
    return call(CRF(5), *_batch())


def likelihood_batch_first() -> Call:
    return call(CRF(5, batch_first=True), *_batch(True), reduction="token_mean")


def likelihood_by_sequence() -> Call:
    return call(CRF(5), *_batch(), reduction="none")


def likelihood_byte_mask() -> Call:
    emissions, tags, mask = _batch()
    return call(CRF(5), emissions, tags, mask.to(torch.uint8), reduction="mean")


def decode() -> Call:
    emissions, _, _ = _batch()
    return call(CRF(5).decode, emissions)


def decode_with_mask() -> Call:
    emissions, _, mask = _batch()
    return call(CRF(5).decode, emissions, mask=mask)


def decode_batch_first() -> Call:
    emissions, _, mask = _batch(True)
    crf = CRF(5, batch_first=True)
    return Call(crf.decode, (emissions,), {"mask": mask}, grad=False)


def training_step() -> Call:
    crf, batch = CRF(5), _batch()

    def step() -> torch.Tensor:
        loss = -crf(*batch)
        loss.backward()
        return loss

    return Call(step)
