"""Throughput measured over a window: the host waits twice, not in every step."""

import time

import torch
from torch import nn


def main(warmup=5, measured=20):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    start = 0.0
    for step in range(warmup + measured):
        if step == warmup:
            torch.cuda.synchronize()
            start = time.perf_counter()
        x = torch.randn(4, 6, 16, device=device)
        loss = model(x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / measured
    print(f"{1000 * seconds:.2f} ms a step, last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
