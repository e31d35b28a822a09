"""Ocean equation of state (TorchBench suite, pyhpc_equation_of_state): inference over about 1048576
cells.

Stands for a long chain of pointwise arithmetic, which the compiler makes one kernel. Written anew
from the 48-term rational expression of sea-water density (TEOS-10 manual, IOC, SCOR and IAPSO 2010,
appendix K): the kernel returns the derivative of the dynamic enthalpy by conservative temperature,
the pressure integral taken in closed form, its derivative written out. In
bfloat16 as in the paper, where eager rounding leaves no correct digit: variants with graphs are
compared with default mode, whose kernel they share, and a test checks the algebra in float64.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload

# TEOS-10 coefficients v01 to v48: density = _NUMERATOR / _DENOMINATOR. Rows are powers of pressure.
_V = (
    *(9.998420897506056e2, 2.839940833161907e0, -3.147759265588511e-2, 1.181805545074306e-3),
    *(-6.698001071123802e0, -2.986498947203215e-2, 2.327859407479162e-4, -3.988822378968490e-2),
    *(5.095422573880500e-4, -1.426984671633621e-5, 1.645039373682922e-7, -2.233269627352527e-2),
    *(-3.436090079851880e-4, 3.726050720345733e-6, -1.806789763745328e-4, 6.876837219536232e-7),
    *(-3.087032500374211e-7, -1.988366587925593e-8, -1.061519070296458e-11, 1.550932729220080e-10),
    *(1.0, 2.775927747785646e-3, -2.349607444135925e-5, 1.119513357486743e-6),
    *(6.743689325042773e-10, -7.521448093615448e-3, -2.764306979894411e-5, 1.262937315098546e-7),
    *(9.527875081696435e-10, -1.811147201949891e-11, -3.303308871386421e-5, 3.801564588876298e-7),
    *(-7.672876869259043e-9, -4.634182341116144e-11, 2.681097235569143e-12, 5.419326551148740e-6),
    *(-2.742185394906099e-5, -3.212746477974189e-7, 3.191413910561627e-9, -1.931012931541776e-12),
    *(-1.105097577149576e-7, 6.211426728363857e-10, -1.119011592875110e-10, -1.941660213148725e-11),
    *(-1.864826425365600e-14, 1.119522344879478e-14, -1.200507748551599e-15, 6.057902487546866e-17),
)


@dataclasses.dataclass(frozen=True)
class Polynomial:
    """Coefficients of the powers of pressure, with their derivatives by temperature."""

    values: list[torch.Tensor]
    slopes: list[torch.Tensor]


def density_numerator(salt: torch.Tensor, heat: torch.Tensor) -> Polynomial:
    """Mass term: salinity (g/kg) and conservative temperature (deg C) to three coefficients of
    pressure.
    """
    v, root = _V, salt.sqrt()
    values = [
        v[0]
        + heat * (v[1] + heat * (v[2] + v[3] * heat))
        + salt * (v[4] + heat * (v[5] + v[6] * heat))
        + salt * root * (v[7] + heat * (v[8] + heat * (v[9] + v[10] * heat))),
        v[11] + heat * (v[12] + v[13] * heat) + salt * (v[14] + v[15] * heat),
        v[16] + heat * (v[17] + v[18] * heat) + v[19] * salt,
    ]
    slopes = [
        v[1]
        + heat * (2 * v[2] + 3 * v[3] * heat)
        + salt * (v[5] + 2 * v[6] * heat)
        + salt * root * (v[8] + heat * (2 * v[9] + 3 * v[10] * heat)),
        v[12] + 2 * v[13] * heat + v[15] * salt,
        v[17] + 2 * v[18] * heat,
    ]
    return Polynomial(values, slopes)


def density_denominator(salt: torch.Tensor, heat: torch.Tensor) -> Polynomial:
    """Volume term: the same arguments to four coefficients of pressure."""
    v, root = _V, salt.sqrt()
    values = [
        v[20]
        + heat * (v[21] + heat * (v[22] + heat * (v[23] + v[24] * heat)))
        + salt
        * (v[25] + heat * (v[26] + heat * (v[27] + heat * (v[28] + v[29] * heat))) + v[35] * salt)
        + salt * root * (v[30] + heat * (v[31] + heat * (v[32] + heat * (v[33] + v[34] * heat)))),
        v[36] + heat * (v[37] + heat * (v[38] + v[39] * heat)) + salt * (v[40] + v[41] * heat),
        v[42] + heat * (v[43] + v[44] * heat) + v[45] * salt,
        v[46] + v[47] * heat,
    ]
    slopes = [
        v[21]
        + heat * (2 * v[22] + heat * (3 * v[23] + 4 * v[24] * heat))
        + salt * (v[26] + heat * (2 * v[27] + heat * (3 * v[28] + 4 * v[29] * heat)))
        + salt * root * (v[31] + heat * (2 * v[32] + heat * (3 * v[33] + 4 * v[34] * heat))),
        v[37] + heat * (2 * v[38] + 3 * v[39] * heat) + v[41] * salt,
        v[43] + 2 * v[44] * heat,
        torch.full_like(heat, v[47]),
    ]
    return Polynomial(values, slopes)


def density(salt: torch.Tensor, heat: torch.Tensor, pressure: torch.Tensor) -> torch.Tensor:
    """Sea-water density in kg/m3 at ``pressure`` dbar above the atmosphere's."""
    upper, lower = density_numerator(salt, heat).values, density_denominator(salt, heat).values
    mass = upper[0] + pressure * (upper[1] + pressure * upper[2])
    volume = lower[0] + pressure * (lower[1] + pressure * (lower[2] + pressure * lower[3]))
    return mass / volume


class EnthalpyByTemperature(nn.Module):
    """Derivative of the dynamic enthalpy by temperature, J/(kg K).

    The specific volume is a cubic of pressure over a quadratic. Division leaves a line plus (c + d
    p) / quadratic, whose integral from 0 to p is 1e4 times (a p + b p^2 / 2 + a logarithm + an
    inverse hyperbolic tangent, itself a logarithm). Its derivative by temperature uses the slopes
    of the coefficients.
    """

    def forward(
        self, salt: torch.Tensor, heat: torch.Tensor, pressure: torch.Tensor
    ) -> torch.Tensor:
        """``salt`` and ``heat`` (x, y, z), ``pressure`` (1, 1, z); result (x, y, z)."""
        upper, lower = density_numerator(salt, heat), density_denominator(salt, heat)
        (a0, a1, a2), (da0, da1, da2) = upper.values, upper.slopes
        (b0, b1, b2, b3), (db0, db1, db2, db3) = lower.values, lower.slopes
        line = b3 / a2
        d_line = (db3 - line * da2) / a2
        offset = (b2 - line * a1) / a2
        d_offset = (db2 - d_line * a1 - line * da1 - offset * da2) / a2
        rest0 = b0 - offset * a0
        d_rest0 = db0 - d_offset * a0 - offset * da0
        rest1 = b1 - line * a0 - offset * a1
        d_rest1 = db1 - d_line * a0 - line * da0 - d_offset * a1 - offset * da1
        square = (a1 * a1 - 4 * a0 * a2).abs()
        d_square = 2 * a1 * da1 - 4 * (da0 * a2 + a0 * da2)
        root = square.sqrt()
        d_root = d_square / (2 * root)
        whole = a0 + pressure * (a1 + pressure * a2)
        d_whole = da0 + pressure * (da1 + pressure * da2)
        log_part = (whole / a0).abs().log() / (2 * a2)
        d_log_part = (d_whole / whole - da0 / a0) / (2 * a2) - log_part * da2 / a2
        slope = rest0 - rest1 * a1 / (2 * a2)
        d_slope = d_rest0 - (d_rest1 * a1 + rest1 * da1 - rest1 * a1 * da2 / a2) / (2 * a2)
        low, high = 2 * a2 * pressure + a1 - root, 2 * a2 * pressure + a1 + root
        start_low, start_high = a1 - root, a1 + root
        d_low, d_high = 2 * da2 * pressure + da1 - d_root, 2 * da2 * pressure + da1 + d_root
        ratio = (low * start_high / (high * start_low)).abs().log() / root
        d_ratio = (
            d_low / low - d_high / high + (da1 + d_root) / start_high - (da1 - d_root) / start_low
        ) / root - ratio * d_root / root
        return 1e4 * (
            d_offset * pressure
            + 0.5 * d_line * pressure * pressure
            + d_rest1 * log_part
            + rest1 * d_log_part
            + d_slope * ratio
            + slope * d_ratio
        )


def grid(cells: int) -> tuple[int, int, int]:
    """A box of about ``cells`` cells, eight times as wide as deep."""
    side = math.ceil(2 * cells ** (1 / 3))
    return side, side, math.ceil(0.25 * cells ** (1 / 3))


def _build(setting: Setting) -> Case:
    x, y, z = grid(setting.pick(1_048_576, 64))

    def draw_batch(draw: Draw, index: int) -> Batch:
        salt = draw.uniform(0.01, 10.0, x, y, z, dtype=setting.dtype)
        heat = draw.uniform(-12.0, 20.0, x, y, z, dtype=setting.dtype)
        return Batch(args=(salt, heat, draw.uniform(0.0, 1000.0, 1, 1, z, dtype=setting.dtype)))

    return Case(EnthalpyByTemperature().eval(), draw_batch)


WORKLOADS = (
    Workload(name="pyhpc_equation_of_state_inference", suite="TB", batch=1_048_576, build=_build),
)
