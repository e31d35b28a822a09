"""Riemannian manifolds and optimisers."""

from __future__ import annotations

import geoopt
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _poincare() -> tuple[torch.Tensor, torch.Tensor]:
    return 0.1 * torch.randn(6, 4), 0.1 * torch.randn(6, 4)


def poincare_maps() -> Call:
    ball = geoopt.PoincareBall()

    def maps(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        y = ball.expmap(x, u)
        return ball.logmap(x, y) + ball.transp(x, y, u)

    return call(maps, *_poincare())


def poincare_distance() -> Call:
    ball = geoopt.PoincareBall(c=1.3, learnable=True)
    return call(ball.dist, *_poincare())


def stereographic_hyperplane() -> Call:
    manifold = geoopt.Stereographic(k=-0.5)
    x, p = _poincare()
    return call(manifold.dist2plane, x, p, torch.randn(6, 4))


def stereographic_midpoint() -> Call:
    manifold = geoopt.Stereographic(k=-0.5)
    return call(manifold.weighted_midpoint, _poincare()[0], torch.rand(6))


def lorentz() -> Call:
    manifold = geoopt.Lorentz()

    def maps(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        x = manifold.projx(x)
        y = manifold.expmap(x, manifold.proju(x, u))
        return manifold.dist(x, y)

    return call(maps, torch.randn(6, 5), 0.1 * torch.randn(6, 5))


def sphere_with_check() -> Call:
    manifold = geoopt.Sphere()

    def retract(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        x = manifold.projx(x)
        manifold.assert_check_point_on_manifold(x, atol=1e-4)
        return manifold.retr(x, manifold.proju(x, u))

    return call(retract, torch.randn(6, 4), torch.randn(6, 4))


def sphere_subspace() -> Call:
    manifold = geoopt.Sphere(intersection=torch.randn(4, 2))
    return call(manifold.projx, torch.randn(6, 4))


def stiefel() -> Call:
    manifold = geoopt.Stiefel()

    def step(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        x = manifold.projx(x)
        return manifold.retr_transp(x, manifold.proju(x, u), u)[0]

    return call(step, torch.randn(5, 3), torch.randn(5, 3))


def positive_definite() -> Call:
    manifold = geoopt.SymmetricPositiveDefinite()

    def maps(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        x = manifold.projx(x)
        return manifold.dist(x, manifold.expmap(x, manifold.proju(x, u)))

    return call(maps, torch.randn(3, 4, 4), 0.1 * torch.randn(3, 4, 4))


def birkhoff_polytope() -> Call:
    manifold = geoopt.BirkhoffPolytope(max_iter=20)
    return call(manifold.projx, torch.rand(4, 4))


def product() -> Call:
    manifold = geoopt.ProductManifold((geoopt.Sphere(), 3), (geoopt.PoincareBall(), 2))

    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return manifold.dist(manifold.projx(x), manifold.projx(y))

    return call(distance, 0.3 * torch.randn(6, 5), 0.3 * torch.randn(6, 5))


def random_points() -> Call:
    ball = geoopt.PoincareBall()
    return call(lambda: ball.random_normal(6, 4))


def _step(kind: type[torch.optim.Optimizer], **named: object) -> Call:
    point = geoopt.ManifoldParameter(0.1 * torch.randn(6, 4), manifold=geoopt.PoincareBall())
    point.grad = torch.randn(6, 4)
    optimizer = kind([point], lr=0.01, **named)
    return Call(optimizer.step, state=[point])


def riemannian_adam() -> Call:
    return _step(geoopt.optim.RiemannianAdam, amsgrad=True, stabilize=1)


def riemannian_sgd() -> Call:
    return _step(geoopt.optim.RiemannianSGD, momentum=0.9)
