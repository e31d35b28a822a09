"""An accelerate loop that reads its losses once an epoch."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(epochs=2):
    accelerator = Accelerator()
    model = nn.Sequential(nn.Linear(7, 14), nn.SiLU(), nn.Linear(14, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(64, 7), torch.randint(0, 2, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(epochs):
        losses = []
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        accelerator.print(f"epoch {epoch}: {accelerator.gather(mean).mean().item():.4f}")


if __name__ == "__main__":
    main()
