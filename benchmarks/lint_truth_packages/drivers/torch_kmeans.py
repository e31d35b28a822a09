"""Batched k-means clustering."""

from __future__ import annotations

import torch
from torch_kmeans import (
    ConstrainedKMeans,
    CosineSimilarity,
    DotProductSimilarity,
    KMeans,
    LpDistance,
    SoftKMeans,
)

from benchmarks.lint_truth_packages.programs import Call, call


def _points() -> torch.Tensor:
    return torch.randn(3, 20, 2)


def random_start() -> Call:
    return call(KMeans(n_clusters=3, num_init=2, max_iter=5, verbose=False), _points())


def plus_plus_start() -> Call:
    model = KMeans(n_clusters=3, init_method="k-means++", num_init=2, max_iter=5, verbose=False)
    return call(model, _points())


def cosine_distance() -> Call:
    model = KMeans(
        n_clusters=3, distance=CosineSimilarity, max_iter=5, normalize="unit", verbose=False
    )
    return call(model, _points())


def clusters_by_instance() -> Call:
    model = KMeans(max_iter=5, num_init=2, verbose=False)
    return call(model, _points(), k=torch.tensor([2, 3, 4]))


def given_centers() -> Call:
    model = KMeans(n_clusters=3, max_iter=5, num_init=1, verbose=False)
    return call(model, _points(), centers=torch.randn(3, 3, 2))


def fit_and_predict() -> Call:
    model = KMeans(n_clusters=3, num_init=2, max_iter=5, verbose=False)

    def both(x: torch.Tensor) -> torch.Tensor:
        return model.fit(x, k=3).predict(x)

    return call(both, _points())


def soft() -> Call:
    return call(SoftKMeans(n_clusters=3, max_iter=5, verbose=False), _points())


def soft_dot_product() -> Call:
    model = SoftKMeans(
        n_clusters=3,
        distance=DotProductSimilarity,
        init_method="k-means++",
        max_iter=5,
        verbose=False,
    )
    return call(model, _points())


def constrained() -> Call:
    model = ConstrainedKMeans(n_clusters=3, max_iter=5, num_init=2, verbose=False)
    weights = torch.rand(3, 20) * 0.1
    return call(model, _points(), weights=weights)


def distances() -> Call:
    def all_three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kinds = LpDistance(), CosineSimilarity(), DotProductSimilarity()
        return sum(kind(x, y) for kind in kinds)

    return call(all_three, torch.randn(3, 6, 2), torch.randn(3, 6, 2))
