"""BoTorch: acquisition values of a Gaussian process, optimised with its own optimiser.

SingleTaskGP on Hartmann's six-dimensional function, 50 points in double precision; log expected
improvement of a batch of 4 points with 256 samples, 8 restarts; the acquisition function is
compiled. A step is an evaluation.
"""

from __future__ import annotations

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    from botorch.acquisition.logei import qLogExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.sampling import SobolQMCNormalSampler
    from botorch.test_functions import Hartmann

    kind = {"device": setup.device, "dtype": torch.float64}
    problem = Hartmann(dim=6, negate=True).to(**kind)
    seen = torch.rand(setup.size(50, 8), 6, **kind)
    model = SingleTaskGP(seen, problem(seen)[:, None])
    sampler = SobolQMCNormalSampler(torch.Size([setup.size(256, 8)]), seed=0)
    score = qLogExpectedImprovement(model, problem(seen).max(), sampler=sampler)
    points = torch.rand(8, 4, 6, **kind).requires_grad_()
    optimizer = torch.optim.Adam([points], 0.01)
    score(points)  # caches what depends on the model alone
    how.module(score)
    for _ in range(meter.total):
        optimizer.zero_grad()
        loss = -score(points).sum()
        loss.backward()
        optimizer.step()
        points.data.clamp_(0, 1)
        meter.tick(loss)


FRAMEWORK = Framework(("botorch", "gpytorch"), loop, warm=120, steps=120)
