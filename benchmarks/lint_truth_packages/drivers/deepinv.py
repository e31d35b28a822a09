"""Inverse problems of imaging: operators, reconstruction, sampling, losses."""

from __future__ import annotations

import deepinv
import torch
from deepinv.optim import data_fidelity, prior
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call

_SHAPE = (1, 16, 16)


def _image(channels: int = 1) -> torch.Tensor:
    return torch.rand(1, channels, 16, 16)


def _denoiser() -> nn.Module:
    return deepinv.models.MedianFilter()


def inpainting_and_noise() -> Call:
    noise = deepinv.physics.GaussianNoise(0.1)
    return call(deepinv.physics.Inpainting(_SHAPE, mask=0.5, noise_model=noise), _image())


def poisson_noise() -> Call:
    noise = deepinv.physics.PoissonNoise(gain=0.1)
    return call(deepinv.physics.Denoising(noise), _image())


def blur_adjoint() -> Call:
    kernel = torch.ones(1, 1, 3, 3) / 9
    physics = deepinv.physics.Blur(filter=kernel, padding="circular")
    return call(physics.A_adjoint, physics(_image()))


def pseudo_inverse() -> Call:
    physics = deepinv.physics.Downsampling(img_size=_SHAPE, factor=2)
    return call(physics.A_dagger, physics(_image()))


def compressed_sensing_norm() -> Call:
    physics = deepinv.physics.CompressedSensing(m=20, img_size=_SHAPE)
    return call(physics.compute_norm, _image(), max_iter=3)


def tomography() -> Call:
    physics = deepinv.physics.Tomography(angles=8, img_width=16)
    return call(physics, _image())


def lidar() -> Call:
    physics = deepinv.physics.SinglePhotonLidar(bins=20)
    return call(physics, torch.rand(1, 3, 4, 4))


def motion_blur_generator() -> Call:
    generator = deepinv.physics.generator.MotionBlurGenerator((5, 5), num_channels=1)
    return call(generator.step, batch_size=1)


def mask_generator() -> Call:
    generator = deepinv.physics.generator.BernoulliSplittingMaskGenerator(_SHAPE, split_ratio=0.5)
    return call(generator.step, batch_size=2)


def least_squares() -> Call:
    physics = deepinv.physics.Inpainting(_SHAPE, mask=0.5)
    return call(physics.prox_l2, _image(), _image(), gamma=0.5)


def conjugate_gradient() -> Call:
    matrix = torch.eye(8) * 2
    solve = deepinv.optim.linear.conjugate_gradient
    return call(solve, lambda x: x @ matrix, torch.randn(1, 8), max_iter=4)


def proximal_gradient() -> Call:
    physics = deepinv.physics.Inpainting(_SHAPE, mask=0.5)
    model = deepinv.optim.PGD(
        prior=prior.TVPrior(n_it_max=3),
        data_fidelity=data_fidelity.L2(),
        stepsize=0.5,
        lambda_reg=0.1,
        max_iter=3,
        early_stop=True,
    )
    return call(model, physics(_image()), physics)


def admm_with_denoiser() -> Call:
    physics = deepinv.physics.Inpainting(_SHAPE, mask=0.5)
    model = deepinv.optim.ADMM(
        prior=prior.PnP(_denoiser()), data_fidelity=data_fidelity.L2(), max_iter=2
    )
    return call(model, physics(_image()), physics)


def total_variation() -> Call:
    return call(deepinv.models.TVDenoiser(n_it_max=4), _image(), 0.1)


def generalised_variation() -> Call:
    return call(deepinv.models.TGVDenoiser(n_it_max=4), _image(), 0.1)


def bilateral() -> Call:
    return call(deepinv.models.BilateralFilter(), _image())


def u_net() -> Call:
    model = deepinv.models.UNet(1, 1, scales=2, batch_norm=False)
    return call(model, _image(), 0.1)


def drunet() -> Call:
    model = deepinv.models.DRUNet(1, 1, nc=(4, 8, 8, 16), nb=1, pretrained=None)
    return call(model, _image(), torch.tensor([0.1]))


def swin() -> Call:
    model = deepinv.models.SwinIR(
        img_size=16, in_chans=1, depths=[2], embed_dim=12, num_heads=[2], pretrained=None
    )
    return call(model, _image())


def langevin() -> Call:
    physics = deepinv.physics.Denoising(deepinv.physics.GaussianNoise(0.1))
    score = prior.ScorePrior(_denoiser())
    model = deepinv.sampling.ULA(score, data_fidelity.L2(), max_iter=8, burnin_ratio=0.5)
    return Call(model, (physics(_image()), physics), grad=False)


def diffusion_posterior() -> Call:
    physics = deepinv.physics.Inpainting(_SHAPE, mask=0.5)
    model = deepinv.sampling.DiffPIR(_denoiser(), data_fidelity.L2(), max_iter=3)
    return Call(model, (physics(_image()), physics), grad=False)


def sure_loss() -> Call:
    physics = deepinv.physics.Denoising(deepinv.physics.GaussianNoise(0.1))
    loss, model, y = deepinv.loss.SureGaussianLoss(0.1), _denoiser(), _image()
    return Call(lambda: loss(y=y, x_net=model(y), physics=physics, model=model))


def equivariant_loss() -> Call:
    physics = deepinv.physics.Inpainting(_SHAPE, mask=0.5)
    loss = deepinv.loss.EILoss(deepinv.transform.Rotate(n_trans=2))
    model = deepinv.models.ArtifactRemoval(deepinv.models.UNet(1, 1, scales=2))
    y = physics(_image())
    return Call(lambda: loss(x_net=model(y, physics), physics=physics, model=model))


def metrics() -> Call:
    psnr, nmse = deepinv.loss.PSNR(), deepinv.loss.NMSE()
    x, y = _image(), _image()
    return Call(lambda: (psnr(x, y), nmse(x, y)))


def projective_transform() -> Call:
    return call(deepinv.transform.Homography(n_trans=1), _image())


def shift_and_scale() -> Call:
    return call(deepinv.transform.Shift(n_trans=2) * deepinv.transform.Scale(), _image())
