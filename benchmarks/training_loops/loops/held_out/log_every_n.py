"""Logging every n steps, in the many ways of writing that."""

import torch
from torch import nn

LOG_EVERY = 10


def train(model, optimizer, device, steps=40):
    for step in range(steps):
        x = torch.randn(16, 6, device=device)
        loss = (model(x) - x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        if step % LOG_EVERY == 0:
            print(f"step {step}: loss {loss.item():.4f}, norm {float(norm):.3f}")
        if step and not step % 20:
            torch.cuda.empty_cache()
        if step == steps - 1 or (step + 1) % LOG_EVERY == 0:
            print("at", step, loss)
        if step % LOG_EVERY:
            continue
        print(torch.isnan(loss).item())


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6)).to(device)
    train(model, torch.optim.Adam(model.parameters()), device)


if __name__ == "__main__":
    main()
