"""Networks whose activations are splines that are learnt."""

from __future__ import annotations

import torch
from kan import LBFGS, KANLayer, Symbolic_KANLayer
from kan.MLP import MLP
from kan.MultKAN import MultKAN
from kan.spline import B_batch, coef2curve, curve2coef, extend_grid
from kan.utils import SYMBOLIC_LIB, batch_hessian, batch_jacobian, fit_params

from benchmarks.lint_truth_packages.programs import Call, call


def _model(**named: object) -> MultKAN:
    return MultKAN([2, 3, 1], grid=3, k=3, auto_save=False, device="cpu", **named)


def forward() -> Call:
    return call(_model(), torch.randn(16, 2))


def forward_multiplying() -> Call:
    model = MultKAN([2, [2, 1], 1], grid=3, k=3, auto_save=False, mult_arity=2)
    return call(model, torch.randn(16, 2))


def forward_symbolic() -> Call:
    model = _model()
    model.fix_symbolic(0, 0, 0, "sin", fit_params_bool=False, verbose=False, log_history=False)
    return call(model, torch.randn(16, 2), singularity_avoiding=True)


def regularised() -> Call:
    model, x = _model(), torch.randn(16, 2)

    def loss() -> torch.Tensor:
        out = model(x)
        return out.mean() + model.get_reg("edge_forward_spline_n", 1.0, 2.0, 0.1, 0.1)

    return Call(loss)


def update_grid() -> Call:
    return Call(_model().update_grid_from_samples, (torch.randn(16, 2),), grad=False)


def attribute() -> Call:
    model, x = _model(), torch.randn(16, 2)
    model(x)
    return call(model.attribute)


def layer() -> Call:
    return call(KANLayer(2, 3, num=4, k=3), torch.randn(16, 2))


def layer_grid_from_samples() -> Call:
    return call(KANLayer(2, 3, num=4, k=3).update_grid_from_samples, torch.randn(16, 2))


def symbolic_layer() -> Call:
    layer = Symbolic_KANLayer(2, 3)
    layer.fix_symbolic(0, 0, "x^2", verbose=False)
    return call(layer, torch.randn(16, 2))


def spline_basis() -> Call:
    grid = extend_grid(torch.linspace(-1, 1, 6).expand(2, 6), k_extend=3)
    return call(B_batch, torch.rand(16, 2), grid, k=3)


def curve_to_coefficients() -> Call:
    grid = extend_grid(torch.linspace(-1, 1, 6).expand(2, 6), k_extend=3)
    return call(curve2coef, torch.rand(16, 2), torch.rand(16, 2, 3), grid, k=3)


def coefficients_to_curve() -> Call:
    grid = extend_grid(torch.linspace(-1, 1, 6).expand(2, 6), k_extend=3)
    return call(coef2curve, torch.rand(16, 2), grid, torch.randn(2, 3, 8), k=3)


def fit_a_function() -> Call:
    x = torch.linspace(-1, 1, 32)
    return Call(fit_params, (x, torch.sin(2 * x), torch.sin), {"verbose": False, "iteration": 1})


def avoid_singularities() -> Call:
    functions = [SYMBOLIC_LIB[name][3] for name in ("1/x", "log", "sqrt")]

    def all_of(x: torch.Tensor) -> list[object]:
        return [function(x, torch.tensor(10.0)) for function in functions]

    return call(all_of, torch.rand(8))


def jacobian_and_hessian() -> Call:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        function = lambda x: x.pow(3).sum(dim=1)[:, None]  # noqa: E731
        return batch_jacobian(function, x), batch_hessian(function, x)

    return call(both, torch.randn(4, 2))


def second_order_step() -> Call:
    model, x = _model(), torch.randn(16, 2)
    optimizer = LBFGS(model.get_params(), lr=1, history_size=3, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss

    return Call(optimizer.step, (closure,), state=[*model.parameters()])


def plain_network() -> Call:
    return call(MLP([2, 5, 1], device="cpu"), torch.randn(16, 2))
