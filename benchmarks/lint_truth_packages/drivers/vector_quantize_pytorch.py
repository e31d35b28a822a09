"""Vector quantisation: codebooks, residual, lookup-free, finite scalar."""

from __future__ import annotations

import torch
from vector_quantize_pytorch import (
    FSQ,
    LFQ,
    GroupedResidualVQ,
    LatentQuantize,
    RandomProjectionQuantizer,
    ResidualFSQ,
    ResidualLFQ,
    ResidualVQ,
    SimVQ,
    VectorQuantize,
)

from benchmarks.lint_truth_packages.programs import Call, call


def _latents(dim: int = 16) -> torch.Tensor:
    return torch.randn(2, 20, dim)


def euclidean_codebook() -> Call:
    return call(VectorQuantize(dim=16, codebook_size=32), _latents())


def kmeans_initialisation() -> Call:
    layer = VectorQuantize(dim=16, codebook_size=8, kmeans_init=True, kmeans_iters=3)
    return call(layer, _latents())


def cosine_with_dead_codes() -> Call:
    layer = VectorQuantize(dim=16, codebook_size=32, use_cosine_sim=True, threshold_ema_dead_code=2)
    return call(layer, _latents())


def learnable_with_orthogonal_loss() -> Call:
    layer = VectorQuantize(
        dim=16,
        codebook_size=32,
        learnable_codebook=True,
        ema_update=False,
        orthogonal_reg_weight=10,
        orthogonal_reg_max_codes=16,
        orthogonal_reg_active_codes_only=True,
    )
    return call(layer, _latents())


def heads_and_mask() -> Call:
    layer = VectorQuantize(dim=16, codebook_size=32, heads=2, separate_codebook_per_head=True)
    mask = torch.ones(2, 20, dtype=torch.bool)
    mask[1, 15:] = False
    return call(layer, _latents(), mask=mask)


def stochastic_sampling() -> Call:
    layer = VectorQuantize(
        dim=16, codebook_size=32, stochastic_sample_codes=True, sample_codebook_temp=0.5
    )
    return call(layer, _latents())


def residual_with_dropout() -> Call:
    layer = ResidualVQ(dim=16, num_quantizers=4, codebook_size=32, quantize_dropout=True)
    return call(layer, _latents())


def residual_all_codes() -> Call:
    layer = ResidualVQ(dim=16, num_quantizers=3, codebook_size=32, shared_codebook=True).eval()
    return Call(layer, (_latents(),), {"return_all_codes": True}, grad=False)


def grouped_residual() -> Call:
    return call(GroupedResidualVQ(dim=16, groups=2, num_quantizers=2, codebook_size=32), _latents())


def finite_scalar() -> Call:
    return call(FSQ(levels=[8, 5, 5], dim=16), _latents())


def residual_finite_scalar() -> Call:
    return call(ResidualFSQ(levels=[8, 5, 5], num_quantizers=2, dim=16), _latents())


def lookup_free() -> Call:
    return call(LFQ(codebook_size=64, dim=16, diversity_gamma=1.0), _latents())


def residual_lookup_free() -> Call:
    return call(ResidualLFQ(dim=16, codebook_size=64, num_quantizers=2), _latents())


def sim_vq_and_random_projection() -> Call:
    sim = SimVQ(dim=16, codebook_size=32)
    project = RandomProjectionQuantizer(dim=16, num_codebooks=2, codebook_dim=8, codebook_size=32)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return sim(x)[0], project(x)

    return call(both, _latents())


def latent_quantize() -> Call:
    return call(LatentQuantize(levels=[5, 5, 8], dim=16), torch.randn(2, 16, 4, 4))
