"""PyTorch Geometric: a graph convolutional network trained on a graph of Cora's size.

2,708 nodes, 10,556 edges, 1,433 features, two layers with 16 hidden units: the configuration of
Kipf and Welling. A step is an epoch.
"""

from __future__ import annotations

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    from torch_geometric.nn import GCN

    nodes, edges, features = setup.size(2708, 30), setup.size(10556, 90), setup.size(1433, 8)
    model = GCN(features, 16, 2, 7, dropout=0.0).to(setup.device)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    x = torch.rand(nodes, features).to(setup.device)
    index = torch.randint(0, nodes, (2, edges)).to(setup.device)
    labels = torch.randint(0, 7, (nodes,)).to(setup.device)
    how.module(model)
    for _ in range(meter.total):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, index), labels)
        loss.backward()
        optimizer.step()
        meter.tick(loss)


FRAMEWORK = Framework(("torch_geometric",), loop, warm=100, steps=200)
