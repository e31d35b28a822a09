"""Structured matrices: products, solves, decompositions."""

from __future__ import annotations

import linear_operator
import torch
from linear_operator import operators, settings

from benchmarks.lint_truth_packages.programs import Call, call


def _positive(size: int = 6) -> torch.Tensor:
    matrix = torch.randn(size, size)
    return matrix @ matrix.T + size * torch.eye(size)


def solve_dense() -> Call:
    def solve(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return operators.DenseLinearOperator(matrix).solve(right)

    return call(solve, _positive(), torch.randn(6, 2))


def solve_by_conjugate_gradients() -> Call:
    def solve(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        with settings.max_cholesky_size(1), settings.cg_tolerance(0.1):
            return linear_operator.solve(operators.DenseLinearOperator(matrix), right)

    return call(solve, _positive(), torch.randn(6, 2))


def added_diagonal() -> Call:
    def solve(matrix: torch.Tensor, noise: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = operators.DenseLinearOperator(matrix) + operators.DiagLinearOperator(noise)
        return operator.solve(right)

    return call(solve, _positive(), torch.rand(6), torch.randn(6, 2))


def quadratic_form_and_log_determinant() -> Call:
    def both(matrix: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = operators.DenseLinearOperator(matrix)
        return sum(operator.inv_quad_logdet(inv_quad_rhs=right, logdet=True))

    return call(both, _positive(), torch.randn(6, 2))


def stochastic_log_determinant() -> Call:
    def value(matrix: torch.Tensor) -> torch.Tensor:
        with settings.max_cholesky_size(1), settings.num_trace_samples(4):
            return operators.DenseLinearOperator(matrix).logdet()

    return call(value, _positive())


def kronecker() -> Call:
    def solve(a: torch.Tensor, b: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = operators.KroneckerProductLinearOperator(a, b).add_diagonal(torch.tensor(0.1))
        return operator.solve(right)

    return call(solve, _positive(3), _positive(2), torch.randn(6, 2))


def toeplitz() -> Call:
    def product(column: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return operators.ToeplitzLinearOperator(column) @ right

    return call(product, torch.rand(6), torch.randn(6, 2))


def low_rank_plus_diagonal() -> Call:
    def solve(root: torch.Tensor, diagonal: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = operators.LowRankRootLinearOperator(root)
        return operator.add_diagonal(diagonal).solve(right)

    return call(solve, torch.randn(6, 2), 1 + torch.rand(6), torch.randn(6, 2))


def indexing() -> Call:
    def parts(matrix: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        operator = operators.DenseLinearOperator(matrix)
        rows = operator[index].to_dense()
        return rows.sum() + operator[1:3, 2:4].to_dense().sum() + operator[index, index].sum()

    return call(parts, _positive(), torch.tensor([0, 2, 4]))


def masked() -> Call:
    def product(matrix: torch.Tensor, mask: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        operator = operators.MaskedLinearOperator(operators.DenseLinearOperator(matrix), mask, mask)
        return operator @ right

    mask = torch.tensor([True, False, True, True, False, True])
    return call(product, _positive(), mask, torch.randn(4, 2))


def interpolated() -> Call:
    def product(matrix: torch.Tensor, index: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        values = torch.ones_like(index, dtype=matrix.dtype)
        operator = operators.InterpolatedLinearOperator(
            operators.DenseLinearOperator(matrix), index, values, index, values
        )
        return operator @ right

    return call(product, _positive(), torch.randint(0, 6, (5, 2)), torch.randn(5, 2))


def cholesky_with_jitter() -> Call:
    def factor(matrix: torch.Tensor) -> torch.Tensor:
        return linear_operator.utils.cholesky.psd_safe_cholesky(matrix)

    root = torch.randn(6, 2)
    return call(factor, root @ root.T)


def pivoted_cholesky() -> Call:
    return call(linear_operator.pivoted_cholesky, _positive(), rank=3)


def eigenvalues_and_root() -> Call:
    def parts(matrix: torch.Tensor) -> torch.Tensor:
        operator = operators.DenseLinearOperator(matrix)
        return operator.eigvalsh() + operator.root_decomposition().to_dense().diagonal()

    return call(parts, _positive())


def samples() -> Call:
    def draw(matrix: torch.Tensor) -> torch.Tensor:
        return operators.DenseLinearOperator(matrix).zero_mean_mvn_samples(4)

    return call(draw, _positive())
