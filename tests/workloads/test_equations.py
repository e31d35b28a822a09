"""The workloads written from equations compute what the equations say."""

from __future__ import annotations

import pytest
import torch

from benchmarks.workloads.zoo.pyhpc_equation_of_state import EnthalpyByTemperature, density
from benchmarks.workloads.zoo.pyhpc_turbulent_kinetic_energy import solve_tridiagonal
from benchmarks.workloads.zoo.speech_transformer import non_pad_mask


@pytest.mark.parametrize(
    ("salt", "heat", "pressure", "wanted"),
    [(0.0, 4.0, 0.0, 999.97), (35.0, 10.0, 1000.0, 1031.29), (35.0, 25.0, 0.0, 1023.2)],
)
def test_density_of_water(salt: float, heat: float, pressure: float, wanted: float) -> None:
    values = (torch.tensor(value, dtype=torch.float64) for value in (salt, heat, pressure))
    assert density(*values).item() == pytest.approx(wanted, abs=0.5)


def test_enthalpy_derivative_is_the_integral_of_specific_volume() -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(low: float, high: float) -> torch.Tensor:
        values = torch.rand(40, dtype=torch.float64, generator=generator)
        return values * (high - low) + low

    salt, heat, pressure = draw(0.01, 40), draw(-2, 30).requires_grad_(), draw(10, 1000)
    nodes = torch.linspace(0, 1, 2001, dtype=torch.float64)
    volume = 1 / density(salt[:, None], heat[:, None], pressure[:, None] * nodes)
    enthalpy = 1e4 * torch.trapezoid(volume, nodes, dim=1) * pressure
    (wanted,) = torch.autograd.grad(enthalpy.sum(), heat)
    found = EnthalpyByTemperature()(salt, heat.detach(), pressure)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-7)


def test_tridiagonal_solver_against_a_dense_one() -> None:
    generator = torch.Generator().manual_seed(0)
    levels = 7
    below, above, right = (
        torch.rand(3, 2, levels, dtype=torch.float64, generator=generator) for _ in range(3)
    )
    middle = 3 + below
    matrix = torch.diag_embed(middle)
    matrix += torch.diag_embed(below[..., 1:], offset=-1)
    matrix += torch.diag_embed(above[..., :-1], offset=1)
    wanted = torch.linalg.solve(matrix, right.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(solve_tridiagonal(below, middle, above, right), wanted)


def test_padding_mask_ends_with_each_utterance() -> None:
    mask = non_pad_mask(torch.zeros(2, 4, 3), torch.tensor([4, 1]))
    assert mask.squeeze(-1).tolist() == [[1, 1, 1, 1], [1, 0, 0, 0]]
