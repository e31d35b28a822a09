"""Equivariant layers, spherical harmonics and rotations."""

from __future__ import annotations

import torch
from e3nn import io, math, nn, o3

from benchmarks.lint_truth_packages.programs import Call, call


def spherical_harmonics() -> Call:
    return call(o3.spherical_harmonics, [0, 1, 2], torch.randn(6, 3), normalize=True)


def spherical_harmonics_module() -> Call:
    return call(o3.SphericalHarmonics("0e + 1o + 2e", True), torch.randn(6, 3))


def linear() -> Call:
    layer = o3.Linear("4x0e + 2x1o", "3x0e + 2x1o")
    return call(layer, torch.randn(6, 10))


def fully_connected_tensor_product() -> Call:
    layer = o3.FullyConnectedTensorProduct("2x0e + 1o", "0e + 1o", "2x0e + 1o")
    return call(layer, torch.randn(6, 5), torch.randn(6, 4))


def tensor_square_and_norm() -> Call:
    square, norm = o3.TensorSquare("0e + 1o"), o3.Norm("0e + 1o")
    return call(lambda x: norm(x).sum() + square(x).sum(), torch.randn(6, 4))


def gate() -> Call:
    layer = nn.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
    return call(layer, torch.randn(6, 6))


def batch_norm_and_dropout() -> Call:
    norm, dropout = nn.BatchNorm("2x0e + 1o"), nn.Dropout("2x0e + 1o", 0.5)
    return call(lambda x: dropout(norm(x)), torch.randn(6, 5))


def norm_activation() -> Call:
    return call(
        nn.NormActivation(o3.Irreps("2x0e + 1o"), torch.sigmoid, bias=True), torch.randn(6, 5)
    )


def sphere_activation() -> Call:
    layer = nn.S2Activation("0e + 1o + 2e", torch.tanh, res=8)
    return call(layer, torch.randn(2, 9))


def radial_network() -> Call:
    net = nn.FullyConnectedNet([4, 8, 3], torch.nn.functional.silu)

    def weights(lengths: torch.Tensor) -> torch.Tensor:
        basis = math.soft_one_hot_linspace(lengths, 0.0, 3.0, 4, basis="smooth_finite", cutoff=True)
        return net(basis)

    return call(weights, 3 * torch.rand(10))


def rotation_conversions() -> Call:
    def convert(r: torch.Tensor) -> torch.Tensor:
        quaternion = o3.matrix_to_quaternion(r)
        return o3.quaternion_to_matrix(quaternion) + o3.angles_to_matrix(*o3.matrix_to_angles(r))

    return call(convert, o3.rand_matrix(5))


def wigner_matrices() -> Call:
    return call(o3.wigner_D, 2, torch.rand(4), torch.rand(4), torch.rand(4))


def irreps_from_angles() -> Call:
    irreps = o3.Irreps("2x0e + 1o + 2e")
    return call(irreps.D_from_matrix, o3.rand_matrix(4))


def spherical_tensor() -> Call:
    signal = io.SphericalTensor(2, 1, -1)

    def value(positions: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return signal.with_peaks_at(positions, values)

    return call(value, torch.randn(4, 3), torch.rand(4))


def grids() -> Call:
    to_grid = o3.ToS2Grid(2, (6, 5))
    return call(to_grid, torch.randn(3, 9))
