"""Rotations: conversions, distances, registration, interpolation."""

from __future__ import annotations

import roma
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def rotvec_to_rotmat_and_back() -> Call:
    def both(v: torch.Tensor) -> torch.Tensor:
        return roma.rotmat_to_rotvec(roma.rotvec_to_rotmat(v))

    return call(both, torch.randn(6, 3))


def rotmat_to_unitquat() -> Call:
    return call(roma.rotmat_to_unitquat, roma.random_rotmat(6))


def procrustes() -> Call:
    return call(roma.special_procrustes, torch.randn(4, 3, 3))


def procrustes_with_reflection() -> Call:
    return call(roma.procrustes, torch.randn(4, 3, 3), return_singular_values=True)


def procrustes_unitquat() -> Call:
    return call(roma.special_procrustes_unitquat, torch.randn(4, 3, 3))


def points_registration() -> Call:
    x, y, weights = torch.randn(4, 10, 3), torch.randn(4, 10, 3), torch.rand(4, 10)
    return call(roma.rigid_points_registration, x, y, weights, compute_scaling=True)


def unitquat_slerp() -> Call:
    q0, q1 = roma.random_unitquat(4), roma.random_unitquat(4)
    return call(roma.unitquat_slerp, q0, q1, torch.linspace(0, 1, 5))


def unitquat_slerp_fast() -> Call:
    q0, q1 = roma.random_unitquat(4), roma.random_unitquat(4)
    return call(roma.unitquat_slerp_fast, q0, q1, torch.linspace(0, 1, 5))


def euler_angles() -> Call:
    def both(angles: torch.Tensor) -> torch.Tensor:
        return roma.rotmat_to_euler("xyz", roma.euler_to_rotmat("xyz", angles))

    return call(both, torch.rand(5, 3))


def unitquat_to_euler() -> Call:
    return call(roma.unitquat_to_euler, "ZYX", roma.random_unitquat(5), degrees=True)


def geodesic_distances() -> Call:
    def distances(r1: torch.Tensor, r2: torch.Tensor) -> torch.Tensor:
        return roma.rotmat_geodesic_distance(r1, r2) + roma.rotmat_geodesic_distance_naive(r1, r2)

    return call(distances, roma.random_rotmat(4), roma.random_rotmat(4))


def gram_schmidt() -> Call:
    return call(roma.special_gramschmidt, torch.randn(4, 3, 2), epsilon=1e-6)


def checks() -> Call:
    def check(r: torch.Tensor) -> bool:
        return roma.is_rotation_matrix(r, epsilon=1e-4) and roma.is_orthonormal_matrix(r, 1e-4)

    return call(check, roma.random_rotmat(4))


def transformations() -> Call:
    def act(r: torch.Tensor, t: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        rigid = roma.Rigid(r, t)
        return (rigid @ rigid.inverse()).apply(points) + rigid.to_homogeneous()[..., :3, 3]

    return call(act, roma.random_rotmat(4), torch.randn(4, 3), torch.randn(4, 3))


def compositions() -> Call:
    def compose(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return roma.rotvec_composition([a, b]) + roma.rotvec_slerp(a, b, torch.tensor([0.5]))[0]

    return call(compose, torch.randn(4, 3), torch.randn(4, 3))
