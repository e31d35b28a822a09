"""Lie groups, point clouds, filters and second-order optimisers of robotics."""

from __future__ import annotations

import pypose
import torch
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def exponential_and_logarithm() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return pypose.so3(x).Exp().Log().tensor()

    return call(both, torch.randn(6, 3))


def act_on_points() -> Call:
    def act(x: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        pose = pypose.se3(x).Exp()
        return (pose.Inv() @ pose).Act(points)

    return call(act, torch.randn(6, 6), torch.randn(6, 3))


def matrix_to_quaternion() -> Call:
    matrices = pypose.randn_SO3(5).matrix()
    return call(lambda m: pypose.mat2SO3(m, check=False).tensor(), matrices)


def matrix_with_checks() -> Call:
    matrices = pypose.randn_SE3(5).matrix()
    return call(lambda m: pypose.mat2SE3(m, atol=1e-3, rtol=1e-3).tensor(), matrices)


def euler_angles() -> Call:
    def both(angles: torch.Tensor) -> torch.Tensor:
        return pypose.euler(pypose.euler2SO3(angles))

    return call(both, torch.rand(5, 3))


def nearest_points() -> Call:
    return call(pypose.knn, torch.randn(20, 3), torch.randn(15, 3), k=2)


def voxel_filter() -> Call:
    return call(pypose.voxel_filter, torch.randn(40, 3), [0.5, 0.5, 0.5])


def neighbour_filter() -> Call:
    return call(pypose.nbr_filter, torch.randn(40, 3), nbr=2, radius=0.8, return_mask=True)


def reprojection() -> Call:
    def error(points: torch.Tensor, pixels: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return pypose.reprojerr(points, pixels, k, reduction="norm")

    points = torch.rand(8, 3) + 1.0
    return call(error, points, torch.rand(8, 2), torch.eye(3))


def svd_alignment() -> Call:
    def align(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return pypose.svdtf(source, target).tensor()

    return call(align, torch.randn(12, 3), torch.randn(12, 3))


def iterative_closest_point() -> Call:
    matcher = pypose.module.ICP(stepper=pypose.utils.ReduceToBason(steps=3, verbose=False))
    return call(lambda a, b: matcher(a, b).tensor(), torch.randn(20, 3), torch.randn(20, 3))


def perspective_n_points() -> Call:
    points = torch.rand(1, 10, 3) + torch.tensor([0.0, 0.0, 3.0])
    k = torch.tensor([[100.0, 0.0, 50.0], [0.0, 100.0, 50.0], [0.0, 0.0, 1.0]])
    pixels = pypose.point2pixel(points, k)
    solver = pypose.module.EPnP(k, refine=False)
    return call(lambda a, b: solver(a, b).tensor(), points, pixels)


def imu_preintegration() -> Call:
    integrator = pypose.module.IMUPreintegrator()
    step = torch.full((1, 5, 1), 0.1)
    return call(lambda d, g, a: integrator(d, g, a)["pos"], step, *torch.randn(2, 1, 5, 3))


def levenberg_marquardt() -> Call:
    class Inverse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pose = pypose.Parameter(pypose.randn_SE3(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.pose @ x).Log().tensor()

    model = Inverse()
    optimizer = pypose.optim.LM(model, strategy=pypose.optim.strategy.Adaptive(damping=1e-4))
    inputs = pypose.randn_SE3(2)
    return Call(lambda: optimizer.step(inputs), state=[model, inputs])


def bspline() -> Call:
    poses = pypose.randn_SE3(1, 5)
    return call(lambda p: pypose.bspline(pypose.SE3(p), 0.5).tensor(), poses.tensor())
