"""Sparse alternatives of softmax, and their losses."""

from __future__ import annotations

import entmax
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _scores() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(6, 10), torch.randint(0, 10, (6,))


def sparsemax() -> Call:
    return call(entmax.sparsemax, _scores()[0], dim=-1)


def sparsemax_partial_sort() -> Call:
    return call(entmax.sparsemax, _scores()[0], dim=0, k=2)


def entmax15() -> Call:
    return call(entmax.Entmax15(dim=-1, k=4), _scores()[0])


def sparsemax_bisection() -> Call:
    return call(entmax.sparsemax_bisect, _scores()[0], n_iter=20)


def entmax_bisection_learned() -> Call:
    return call(entmax.entmax_bisect, _scores()[0], torch.full((6, 1), 1.4), n_iter=20)


def entmax_bisection_number() -> Call:
    return call(entmax.EntmaxBisect(alpha=1.3, n_iter=20), _scores()[0])


def normmax() -> Call:
    return call(entmax.normmax_bisect, _scores()[0], alpha=2, n_iter=20)


def budget() -> Call:
    return call(entmax.budget_bisect, _scores()[0], budget=2, n_iter=20)


def sparsemax_loss() -> Call:
    return call(entmax.SparsemaxLoss(k=5, ignore_index=3), *_scores())


def entmax15_loss() -> Call:
    return call(entmax.Entmax15Loss(k=None, reduction="sum"), *_scores())


def entmax_bisect_loss() -> Call:
    return call(entmax.entmax_bisect_loss, *_scores(), alpha=1.4, n_iter=20)


def loss_backward() -> Call:
    scores, target = _scores()
    scores.requires_grad_()

    def step() -> torch.Tensor:
        entmax.Entmax15Loss()(scores, target).backward()
        return scores.grad

    return Call(step)
