"""Losses, miners, reducers and distances of metric learning."""

from __future__ import annotations

import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers
from pytorch_metric_learning.utils import accuracy_calculator, inference

from benchmarks.lint_truth_packages.programs import Call, call


def _batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(16, 8), torch.arange(16) % 4


def triplet_with_semi_hard_miner() -> Call:
    loss, miner = losses.TripletMarginLoss(), miners.TripletMarginMiner(type_of_triplets="semihard")

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss(x, y, miner(x, y))

    return call(step, *_batch())


def contrastive() -> Call:
    return call(losses.ContrastiveLoss(reducer=reducers.MeanReducer()), *_batch())


def nt_xent() -> Call:
    return call(losses.NTXentLoss(temperature=0.1), *_batch())


def supervised_contrastive() -> Call:
    return call(losses.SupConLoss(), *_batch())


def multi_similarity_with_miner() -> Call:
    loss, miner = losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss(x, y, miner(x, y))

    return call(step, *_batch())


def arc_face() -> Call:
    return call(losses.ArcFaceLoss(4, 8), *_batch())


def proxy_anchor() -> Call:
    return call(losses.ProxyAnchorLoss(4, 8), *_batch())


def cross_batch_memory() -> Call:
    memory = losses.CrossBatchMemory(losses.ContrastiveLoss(), 8, memory_size=64)
    return call(memory, *_batch())


def fast_ap() -> Call:
    return call(losses.FastAPLoss(num_bins=5), *_batch())


def n_pairs_with_regularizer() -> Call:
    return call(losses.NPairsLoss(embedding_regularizer=regularizers.LpRegularizer()), *_batch())


def distance_weighted_miner() -> Call:
    return call(miners.DistanceWeightedMiner(), *_batch())


def batch_easy_hard_miner() -> Call:
    return call(miners.BatchEasyHardMiner(pos_strategy="easy", neg_strategy="hard"), *_batch())


def snr_distance() -> Call:
    return call(distances.SNRDistance(), torch.randn(6, 8), torch.randn(5, 8))


def match_finder() -> Call:
    finder = inference.MatchFinder(distance=distances.CosineSimilarity(), threshold=0.5)
    return call(finder.get_matching_pairs, torch.randn(6, 8), torch.randn(6, 8))


def label_comparison() -> Call:
    return call(accuracy_calculator.get_label_match_counts, _batch()[1], _batch()[1], torch.eq)
