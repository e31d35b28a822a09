"""Equivariant graph networks on points."""

from __future__ import annotations

import torch
from egnn_pytorch import EGNN, EGNN_Network, egnn_pytorch

from benchmarks.lint_truth_packages.programs import Call, call


def _points() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 12, 16), torch.randn(2, 12, 3)


def _mask() -> torch.Tensor:
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[1, 9:] = False
    return mask


def _neighbours() -> torch.Tensor:
    places = torch.arange(12)
    return (places[:, None] - places[None, :]).abs() <= 1


def all_pairs() -> Call:
    return call(EGNN(dim=16), *_points())


def with_edges() -> Call:
    return call(EGNN(dim=16, edge_dim=4), *_points(), torch.randn(2, 12, 12, 4))


def nearest_neighbours() -> Call:
    return call(EGNN(dim=16, num_nearest_neighbors=4, norm_coors=True), *_points(), mask=_mask())


def sparse_neighbours() -> Call:
    layer = EGNN(dim=16, only_sparse_neighbors=True, soft_edges=True)
    return call(layer, *_points(), adj_mat=_neighbours())


def fourier_features_and_clamp() -> Call:
    layer = EGNN(dim=16, fourier_features=4, coor_weights_clamp_value=2.0, norm_feats=True)
    return call(layer, *_points())


def mean_pool() -> Call:
    return call(EGNN(dim=16, m_pool_method="mean", dropout=0.1), *_points(), mask=_mask())


def network_with_tokens() -> Call:
    network = EGNN_Network(
        num_tokens=21, num_positions=24, dim=16, depth=2, num_nearest_neighbors=4
    )
    return call(network, torch.randint(0, 21, (2, 12)), torch.randn(2, 12, 3), mask=_mask())


def network_with_adjacency() -> Call:
    network = EGNN_Network(
        num_tokens=21, dim=16, depth=2, num_adj_degrees=2, adj_dim=4, only_sparse_neighbors=True
    )
    tokens = torch.randint(0, 21, (2, 12))
    return call(network, tokens, torch.randn(2, 12, 3), adj_mat=_neighbours(), mask=_mask())


def network_with_global_attention() -> Call:
    network = EGNN_Network(
        dim=16,
        depth=2,
        num_edge_tokens=4,
        edge_dim=8,
        global_linear_attn_every=1,
        global_linear_attn_heads=2,
        global_linear_attn_dim_head=8,
        num_global_tokens=2,
    )
    edges = torch.randint(0, 4, (2, 12, 12))
    return call(network, *_points(), edges=edges, mask=_mask())


def helpers() -> Call:
    def encode(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        chosen = egnn_pytorch.batched_index_select(values, index, dim=1)
        return egnn_pytorch.fourier_encode_dist(chosen[..., :1], num_encodings=3)

    return call(encode, torch.randn(2, 12, 4), torch.randint(0, 12, (2, 5)))
