"""Much that looks like a read of the device and is none: all of these values are on the host."""

import math
import time

import numpy as np
import torch
from torch import nn


def main(steps=20):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.99**s)
    temperatures = torch.linspace(1.0, 0.1, steps)
    order = torch.randperm(steps)
    rng = np.random.default_rng(0)
    durations, sizes = [], []
    for step in range(steps):
        started = time.perf_counter()
        temperature = temperatures[step].item()
        place = int(order[step])
        noise = float(rng.normal())
        rows = 8 + place % 4
        x = torch.randn(rows, 4, device=device)
        loss = ((model(x) - x) / temperature).pow(2).mean() + 0.001 * noise
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        sizes.append(float(x.shape[0] * math.prod(loss.shape)))
        durations.append(time.perf_counter() - started)
        lr = scheduler.get_last_lr()[0]
        print(f"step {step}: rows {x.size(0)}, lr {lr:.4f}, temperature {temperature:.2f}")
        if math.isnan(noise) or len(sizes) > 10_000:
            break
    print(np.mean(durations), sum(sizes), loss.item())


if __name__ == "__main__":
    main()
