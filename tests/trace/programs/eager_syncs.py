"""Waits outside of compiled code: each call once, `cpu().numpy()` once."""

import torch


def step(x):  # compiled
    return x * 2


def main():
    x = torch.compile(step, backend="eager")(torch.ones(3))
    for _ in range(5):
        x.sum().item()  # sync*5
    x.tolist()  # sync
    float(x[0])  # sync
    int(x[0])  # sync
    bool(x[0])  # sync
    x.cpu().numpy()  # sync
    torch.nonzero(x)  # sync
    torch.where(x > 0)  # sync
    torch.tensor([x[0], x[1]])  # sync*2
    x.nonzero()  # sync
    x[x > 0]  # sync
    x[0]
    x[x > 0] = 1.0
    x[x > 0] = x[x > 0].clone()  # sync*2
    str(x)  # sync
    f"{x[0]:.2f}"  # sync
    x.equal(x)  # sync
    x.unique()  # sync
    x.to("cpu")  # sync
    x.to(torch.float64)
