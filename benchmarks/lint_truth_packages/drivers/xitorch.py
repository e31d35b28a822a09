"""Differentiable functionals: root finding, interpolation, integration, linear algebra."""

from __future__ import annotations

import torch
import xitorch
from xitorch import integrate, interpolate, linalg, optimize

from benchmarks.lint_truth_packages.programs import Call, call


def _symmetric(size: int = 6) -> torch.Tensor:
    matrix = torch.randn(size, size, dtype=torch.float64)
    return matrix @ matrix.T + size * torch.eye(size, dtype=torch.float64)


def _cubic(y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    return y**3 + a * y - 1.0


def root_broyden() -> Call:
    inputs = (torch.rand(4, 1, dtype=torch.float64), (torch.rand(4, 1, dtype=torch.float64) + 1,))
    return call(optimize.rootfinder, _cubic, *inputs, method="broyden1")


def equilibrium_anderson() -> Call:
    def step(y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.tanh(a @ y + 0.1) / 2

    a = torch.rand(4, 4, dtype=torch.float64) / 4
    return call(
        optimize.equilibrium,
        step,
        torch.zeros(4, 1, dtype=torch.float64),
        (a,),
        method="anderson_acc",
    )


def minimize_gradient_descent() -> Call:
    def bowl(y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return ((y - a) ** 2).sum()

    start = torch.zeros(4, 1, dtype=torch.float64)
    target = torch.rand(4, 1, dtype=torch.float64)
    return call(optimize.minimize, bowl, start, (target,), method="gd", step=0.1, maxiter=20)


def quadrature() -> Call:
    def integrand(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.cos(a * x)

    a = torch.rand(5, dtype=torch.float64)
    low, high = torch.tensor(0.0, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
    return call(integrate.quad, integrand, low, high, (a,))


def ivp_rk4() -> Call:
    def field(t: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return -a * y

    times = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
    y0, a = torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    return call(integrate.solve_ivp, field, times, y0, (a,), method="rk4")


def ivp_rk45() -> Call:
    def field(t: torch.Tensor, y: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return -a * y

    times = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
    y0, a = torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    return call(integrate.solve_ivp, field, times, y0, (a,), method="rk45")


def monte_carlo() -> Call:
    def value(x: torch.Tensor) -> torch.Tensor:
        return x**2

    def log_density(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return -(x**2 / (2 * w)).sum()

    start = torch.zeros(1, dtype=torch.float64)
    w = torch.ones(1, dtype=torch.float64)
    named = {"method": "mh", "nsamples": 20, "nburnout": 5, "step_size": 0.5}
    return call(integrate.mcquad, value, log_density, start, (), (w,), **named)


def spline_interpolation() -> Call:
    def evaluate(x: torch.Tensor, y: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return interpolate.Interp1D(x, y, method="cspline", bc_type="natural")(query)

    x = torch.linspace(0.0, 1.0, 8, dtype=torch.float64)
    return call(evaluate, x, torch.sin(x), torch.rand(5, dtype=torch.float64))


def linear_interpolation() -> Call:
    def evaluate(x: torch.Tensor, y: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        return interpolate.Interp1D(x, y, method="linear", extrap="bound")(query)

    x = torch.linspace(0.0, 1.0, 8, dtype=torch.float64)
    return call(evaluate, x, torch.cos(x), 1.5 * torch.rand(5, dtype=torch.float64))


def solve_conjugate_gradient() -> Call:
    def solve(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = xitorch.LinearOperator.m(matrix, is_hermitian=True)
        return linalg.solve(operator, right, method="cg")

    return call(solve, _symmetric(), torch.randn(6, 2, dtype=torch.float64))


def solve_gmres() -> Call:
    def solve(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = xitorch.LinearOperator.m(matrix, is_hermitian=False)
        return linalg.solve(operator, right, method="bicgstab")

    return call(solve, _symmetric(), torch.randn(6, 2, dtype=torch.float64))


def lowest_eigenpairs() -> Call:
    def lowest(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return linalg.lsymeig(xitorch.LinearOperator.m(matrix), neig=2, method="davidson")

    return call(lowest, _symmetric())


def singular_values() -> Call:
    def values(matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return linalg.svd(xitorch.LinearOperator.m(matrix), k=2, method="exacteig")

    return call(values, torch.randn(5, 4, dtype=torch.float64))
