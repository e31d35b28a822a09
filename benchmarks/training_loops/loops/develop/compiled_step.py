"""A compiled training step on data that is on the device from the start."""

import torch
from torch import nn


def make_step(model, optimizer):
    @torch.compile
    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def main(epochs=2, batch=16):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs = torch.randn(256, 9, device=device)
    labels = torch.randint(0, 4, (256,), device=device)
    model = nn.Sequential(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 4)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = make_step(model, optimizer)
    for epoch in range(epochs):
        order = torch.randperm(inputs.shape[0], device=device)
        running = torch.zeros((), device=device)
        for rows in order.split(batch):
            running += step(inputs[rows], labels[rows])
        print(f"epoch {epoch}: {running.item() / (inputs.shape[0] // batch):.4f}")


if __name__ == "__main__":
    main()
