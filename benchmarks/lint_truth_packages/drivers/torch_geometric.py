"""Graph layers, pooling, models and utilities."""

from __future__ import annotations

import torch
from torch_geometric import data, nn, transforms, utils

from benchmarks.lint_truth_packages.programs import Call, call


def _graph(nodes: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(nodes, 8), torch.randint(0, nodes, (2, 30))


def convolution() -> Call:
    return call(nn.GCNConv(8, 16), *_graph())


def attention_with_edges() -> Call:
    layer = nn.GATv2Conv(8, 8, heads=2, edge_dim=4)
    return call(layer, *_graph(), torch.randn(30, 4))


def edge_convolution() -> Call:
    layer = nn.EdgeConv(torch.nn.Linear(16, 8), aggr="max")
    return call(layer, *_graph())


def relational() -> Call:
    return call(nn.RGCNConv(8, 16, num_relations=3), *_graph(), torch.randint(0, 3, (30,)))


def principal_neighbourhood() -> Call:
    layer = nn.PNAConv(
        8, 8, ["mean", "std"], ["identity", "amplification"], torch.tensor([0, 3, 5])
    )
    return call(layer, *_graph())


def point_transformer() -> Call:
    x, edges = _graph()
    return call(nn.PointTransformerConv(8, 8), x, torch.randn(12, 3), edges)


def top_k_pooling() -> Call:
    return call(nn.TopKPooling(8, ratio=0.5), *_graph())


def edge_pooling() -> Call:
    return call(nn.EdgePooling(8), *_graph(), torch.zeros(12, dtype=torch.long))


def set_aggregation() -> Call:
    index = torch.arange(12) // 3
    return call(nn.aggr.Set2Set(8, processing_steps=2), torch.randn(12, 8), index)


def sort_and_median_aggregation() -> Call:
    sort, median = nn.aggr.SortAggregation(k=2), nn.aggr.MedianAggregation()

    def both(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return sort(x, index).sum() + median(x, index).sum()

    return call(both, torch.randn(12, 8), torch.arange(12) // 3)


def graph_autoencoder() -> Call:
    model = nn.VGAE(nn.GCN(8, 8, 1, 4))
    z = torch.randn(12, 4)
    return call(model.recon_loss, z, _graph()[1])


def u_net() -> Call:
    return call(nn.GraphUNet(8, 8, 4, depth=2), *_graph())


def schnet_on_given_edges() -> Call:
    layer = nn.models.schnet.CFConv(8, 8, 8, torch.nn.Linear(4, 8), cutoff=5.0)
    x, edges = _graph()
    return call(layer, x, edges, torch.rand(30), torch.randn(30, 4))


def edge_utilities() -> Call:
    def clean(edges: torch.Tensor) -> torch.Tensor:
        edges, _ = utils.remove_self_loops(edges)
        edges = utils.to_undirected(edges)
        edges, _ = utils.add_self_loops(edges)
        return utils.degree(edges[0])

    return call(clean, _graph()[1])


def dense_and_subgraph() -> Call:
    def convert(x: torch.Tensor, edges: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        dense, mask = utils.to_dense_batch(x, batch)
        adjacency = utils.to_dense_adj(edges, batch)
        kept, _ = utils.subgraph(batch == 0, edges, relabel_nodes=True)
        return dense.sum() + mask.sum() + adjacency.sum() + kept.sum()

    x, _ = _graph()
    within = torch.randint(0, 6, (2, 30))
    return call(convert, x, within, torch.arange(12) // 6)


def transform_positions() -> Call:
    both = transforms.Compose([transforms.NormalizeScale(), transforms.Distance(), _jitter()])

    def apply(pos: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return both(data.Data(pos=pos, edge_index=edges)).edge_attr

    return call(apply, torch.randn(12, 3), _graph()[1])


def _jitter() -> transforms.BaseTransform:
    return transforms.RandomJitter(0.01)
