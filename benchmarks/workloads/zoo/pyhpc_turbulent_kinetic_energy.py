"""Turbulent kinetic energy step of an ocean model (TorchBench suite,
pyhpc_turbulent_kinetic_energy), 1048576 cells.

Stands for stencil code with many inputs (thirteen three-dimensional arrays on every call) and a
long sequential part: the vertical mixing is solved implicitly by Thomas' algorithm, unrolled over
26 levels. Written anew from the closure of Gaspar, Gregoris and Lefevre (1990) as used in ocean
models: implicit vertical diffusion with dissipation c_e sqrt(e)/L, surface flux correction, lateral
diffusion, superbee-limited advection, Adams-Bashforth extrapolation. In float32: the original suite
doesn't cast it to bfloat16 either (it runs it under AMP, which changes nothing here).
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo.pyhpc_equation_of_state import grid

_STEP = 1.0
_MIXING_RATIO = 1.0
_DISSIPATION = 0.7
_LATERAL = 2000.0
_EXTRAPOLATION = 0.1


def solve_tridiagonal(
    below: torch.Tensor, middle: torch.Tensor, above: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """Thomas' algorithm along the last dimension; all (x, y, z). ``below[..., 0]`` and ``above[...,
    -1]`` are unused.
    """
    levels = right.shape[-1]
    factors = [above[..., 0] / middle[..., 0]]
    values = [right[..., 0] / middle[..., 0]]
    for level in range(1, levels):
        pivot = 1.0 / (middle[..., level] - below[..., level] * factors[-1])
        factors.append(above[..., level] * pivot)
        values.append((right[..., level] - below[..., level] * values[-1]) * pivot)
    solution = [values[-1]]
    for level in range(levels - 2, -1, -1):
        solution.append(values[level] - factors[level] * solution[-1])
    return torch.stack(solution[::-1], dim=-1)


def superbee_flux(
    field: torch.Tensor,
    velocity: torch.Tensor,
    mask: torch.Tensor,
    spacing: torch.Tensor,
    axis: int,
) -> torch.Tensor:
    """Limited upwind flux through the faces after each cell along ``axis``; (x, y, z), zero at the
    last face.

    ``spacing`` broadcasts to (x, y, z).
    """
    jump = (field.roll(-1, axis) - field) * mask
    courant = (velocity * _STEP / spacing).abs()
    upwind = torch.where(velocity > 0, jump.roll(1, axis), jump.roll(-1, axis))
    safe = torch.where(jump.abs() < 1e-20, torch.full_like(jump, 1e-20), jump)
    ratio = upwind / safe
    limiter = torch.maximum(
        torch.zeros_like(ratio),
        torch.maximum((2 * ratio).clamp(max=1.0), ratio.clamp(max=2.0)),
    )
    mean = 0.5 * (field + field.roll(-1, axis))
    return velocity * mean - velocity.abs() * ((1 - limiter) + courant * limiter) * 0.5 * jump


class TurbulentKineticEnergy(nn.Module):
    """One time step; returns the new energy, its tendency, and the surface correction."""

    def forward(
        self,
        velocity: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        masks: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        spacing: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        bottom: torch.Tensor,
        viscosity: torch.Tensor,
        mixing_length: torch.Tensor,
        forcing: torch.Tensor,
        surface: torch.Tensor,
        energy: torch.Tensor,
        tendency: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Three-dimensional arrays are (x, y, z); ``spacing`` holds dx (x, 1, 1), dy (1, y, 1) and
        dz (1, 1, z); ``bottom`` (x, y) int64 is the lowest wet level, -1 on land; ``surface``
        (x, y).
        """
        dx, dy, dz = spacing
        levels = torch.arange(energy.shape[-1], device=energy.device)
        wet = (levels >= bottom[..., None]) & (bottom[..., None] >= 0)
        lowest = wet & (levels == bottom[..., None])
        speed = energy.clamp(min=0.0).sqrt()

        mean_viscosity = 0.5 * (viscosity[..., 1:] + viscosity[..., :-1])
        exchange = _STEP / dz[..., 1:] * _MIXING_RATIO * mean_viscosity
        zero = torch.zeros_like(energy[..., :1])
        to_above = torch.cat([exchange, zero], dim=-1)
        to_below = torch.cat([zero, exchange], dim=-1)
        to_below = torch.where(lowest, 0.0, to_below)
        below, above = -to_below / dz, -to_above / dz
        middle = 1 + (to_above + to_below) / dz + _STEP * _DISSIPATION * speed / mixing_length
        right = energy + _STEP * forcing
        at_top = levels == energy.shape[-1] - 1
        right = right + torch.where(at_top, (_STEP * surface)[..., None] / (0.5 * dz), 0.0)
        middle, right = torch.where(wet, middle, 1.0), torch.where(wet, right, energy)
        below, above = torch.where(wet, below, 0.0), torch.where(wet, above, 0.0)
        updated = torch.where(wet, solve_tridiagonal(below, middle, above, right), energy)

        top = updated[..., -1]
        correction = torch.where(top < 0.0, -top * 0.5 * dz[..., -1] / _STEP, 0.0)
        updated = torch.cat([updated[..., :-1], top.clamp(min=0.0)[..., None]], dim=-1)

        east = _LATERAL * (updated.roll(-1, 0) - updated) / dx * masks[0]
        north = _LATERAL * (updated.roll(-1, 1) - updated) / dy * masks[1]
        spread = (east - east.roll(1, 0)) / dx + (north - north.roll(1, 1)) / dy
        updated = updated + _STEP * masks[2] * spread

        flux_east = superbee_flux(energy, velocity[0], masks[0], dx, 0)
        flux_north = superbee_flux(energy, velocity[1], masks[1], dy, 1)
        flux_up = superbee_flux(energy, velocity[2], masks[2], dz, 2)
        new_tendency = -masks[2] * (
            (flux_east - flux_east.roll(1, 0)) / dx
            + (flux_north - flux_north.roll(1, 1)) / dy
            + (flux_up - flux_up.roll(1, 2)) / dz
        )
        updated = updated + _STEP * (
            (1.5 + _EXTRAPOLATION) * new_tendency - (0.5 + _EXTRAPOLATION) * tendency
        )
        return updated, new_tendency, correction


def _build(setting: Setting) -> Case:
    x, y, z = grid(setting.pick(1_048_576, 64))

    def draw_batch(draw: Draw, index: int) -> Batch:
        def field(low: float, high: float) -> torch.Tensor:
            return draw.uniform(low, high, x, y, z, dtype=setting.dtype)

        def mask() -> torch.Tensor:
            return (draw.uniform(0, 1, x, y, z) > 0.2).to(setting.dtype)

        spacing = (
            draw.uniform(1e3, 2e3, x, 1, 1, dtype=setting.dtype),
            draw.uniform(1e3, 2e3, 1, y, 1, dtype=setting.dtype),
            draw.uniform(10.0, 50.0, 1, 1, z, dtype=setting.dtype),
        )
        velocity = (field(-1, 1), field(-1, 1), field(-0.01, 0.01))
        return Batch(
            args=(
                velocity,
                (mask(), mask(), mask()),
                spacing,
                draw.integers(-1, z, x, y),
                field(0.0, 0.1),
                field(0.5, 20.0),
                field(0.0, 1e-3),
                draw.uniform(0.0, 1e-3, x, y, dtype=setting.dtype),
                field(0.0, 1e-2),
                field(-1e-5, 1e-5),
            )
        )

    return Case(TurbulentKineticEnergy().eval(), draw_batch)


WORKLOADS = (
    Workload(
        name="pyhpc_turbulent_kinetic_energy_inference",
        suite="TB",
        batch=1_048_576,
        build=_build,
        precision="fp32",
        traits=("large copies",),
    ),
)
