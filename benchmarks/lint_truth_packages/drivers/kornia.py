"""Image augmentation, geometry, filters, features and losses."""

from __future__ import annotations

import kornia
import torch
from kornia import augmentation

from benchmarks.lint_truth_packages.programs import Call, call


def _images() -> torch.Tensor:
    return torch.rand(2, 3, 32, 32)


def colour_jitter_and_flip() -> Call:
    both = augmentation.AugmentationSequential(
        augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        augmentation.RandomHorizontalFlip(p=0.5),
        data_keys=["input"],
    )
    return call(both, _images())


def random_affine_with_mask() -> Call:
    both = augmentation.AugmentationSequential(
        augmentation.RandomAffine(degrees=15.0, p=1.0), data_keys=["input", "mask"]
    )
    return call(both, _images(), torch.ones(2, 1, 32, 32))


def random_erasing() -> Call:
    return call(augmentation.RandomErasing(p=0.5), _images())


def random_resized_crop() -> Call:
    return call(augmentation.RandomResizedCrop((16, 16)), _images())


def cut_mix() -> Call:
    return call(
        augmentation.RandomCutMixV2(data_keys=["input", "class"]),
        _images(),
        torch.randint(0, 4, (2,)),
    )


def gaussian_and_bilateral_blur() -> Call:
    def blur(x: torch.Tensor) -> torch.Tensor:
        x = kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5))
        return kornia.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5))

    return call(blur, _images())


def canny_edges() -> Call:
    return call(kornia.filters.canny, _images())


def homography_dlt() -> Call:
    points, weights = torch.rand(2, 8, 2), torch.ones(2, 8)
    return call(kornia.geometry.find_homography_dlt, points, points + 0.1, weights)


def fundamental_and_epipolar() -> Call:
    points = torch.rand(1, 10, 2)
    return call(kornia.geometry.epipolar.find_fundamental, points, points + 0.1, torch.ones(1, 10))


def ransac() -> Call:
    model = kornia.geometry.RANSAC("homography", inl_th=1.0, max_iter=2, batch_size=64)
    points = 20 * torch.rand(20, 2)
    return call(model, points, points + 1.0)


def warp_perspective() -> Call:
    matrix = torch.eye(3).repeat(2, 1, 1) + 0.01 * torch.rand(2, 3, 3)
    return call(kornia.geometry.transform.warp_perspective, _images(), matrix, dsize=(24, 24))


def harris_keypoints() -> Call:
    def keypoints(x: torch.Tensor) -> torch.Tensor:
        scores = kornia.feature.harris_response(x)
        return kornia.geometry.subpix.nms2d(scores, (3, 3), mask_only=True)

    return call(keypoints, _images()[:, :1])


def descriptor_matching() -> Call:
    return call(kornia.feature.match_snn, torch.rand(12, 16), torch.rand(10, 16), 0.9)


def clahe_and_histogram() -> Call:
    def enhance(x: torch.Tensor) -> torch.Tensor:
        x = kornia.enhance.equalize_clahe(x, clip_limit=20.0, grid_size=(4, 4))
        return kornia.enhance.equalize(x)

    return call(enhance, _images())


def losses() -> Call:
    def total(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        dice = kornia.losses.dice_loss(logits, target)
        focal = kornia.losses.focal_loss(logits, target, alpha=0.5, reduction="mean")
        return dice + focal + kornia.losses.lovasz_softmax_loss(logits, target)

    return call(total, torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2, 8, 8)))
