"""Measures of image quality."""

from __future__ import annotations

import piq
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _images(size: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(2, 3, size, size)
    return x, (x + 0.1 * torch.rand_like(x)).clamp(0, 1)


def ssim() -> Call:
    return call(piq.ssim, *_images())


def multi_scale_ssim() -> Call:
    return call(piq.MultiScaleSSIMLoss(kernel_size=3), *_images())


def information_weighted_ssim() -> Call:
    return call(piq.information_weighted_ssim, *_images(192))


def fsim() -> Call:
    return call(piq.fsim, *_images())


def vsi() -> Call:
    return call(piq.vsi, *_images())


def gmsd() -> Call:
    return call(piq.GMSDLoss(), *_images())


def multi_scale_gmsd() -> Call:
    return call(piq.multi_scale_gmsd, *_images(), chromatic=True)


def haarpsi() -> Call:
    return call(piq.haarpsi, *_images())


def mdsi() -> Call:
    return call(piq.MDSILoss(), *_images())


def spectral_residual() -> Call:
    return call(piq.srsim, *_images(192))


def visual_information() -> Call:
    return call(piq.vif_p, *_images())


def total_variation_and_psnr() -> Call:
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return piq.total_variation(x, norm_type="l1") + piq.psnr(x, y)

    return call(both, *_images())


def dct_subbands() -> Call:
    return call(piq.dss, *_images())


def inception_distance() -> Call:
    return call(piq.FID().compute_metric, torch.randn(20, 8), torch.randn(20, 8))


def precision_and_recall() -> Call:
    return call(piq.PR(nearest_k=3).compute_metric, torch.randn(20, 8), torch.randn(20, 8))
