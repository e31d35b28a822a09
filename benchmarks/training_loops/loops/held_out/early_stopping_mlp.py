"""Regression with early stopping, a schedule, and curves kept for every step."""

import copy

import torch
import wandb
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class EarlyStopping:
    def __init__(self, patience=2, delta=1e-3):
        self.patience, self.delta = patience, delta
        self.best, self.bad, self.weights = float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best - self.delta:
            self.best, self.bad = value, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad > self.patience


def evaluate(model, loader, loss_fn, device):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += loss_fn(model(x.to(device)), y.to(device)).item()
    return total / len(loader)


def fit(model, train_loader, valid_loader, device, epochs=3):
    loss_fn = nn.MSELoss()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=1e-2, total_steps=epochs * len(train_loader)
    )
    stopper = EarlyStopping()
    history = {"loss": [], "lr": [], "residual": []}
    for epoch in range(epochs):
        model.train()
        for xb, yb in train_loader:
            xb = xb.to(device, non_blocking=True)
            yb = yb.to(device, non_blocking=True)
            pred = model(xb)
            loss = loss_fn(pred, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            history["loss"].append(float(loss))
            history["lr"].append(sched.get_last_lr()[0])
            history["residual"].extend((pred - yb).detach().abs().mean(dim=1).tolist())
            wandb.log({"train/lr": sched.get_last_lr()[0]})
        valid = evaluate(model, valid_loader, loss_fn, device)
        wandb.log({"valid/loss": valid, "epoch": epoch})
        if stopper(valid, model):
            break
    if stopper.weights is not None:
        model.load_state_dict(stopper.weights)
    return history


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wandb.init(project="early-stopping")
    data = TensorDataset(torch.randn(96, 6), torch.randn(96, 2))
    train_set, valid_set = random_split(data, [64, 32])
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True, pin_memory=True)
    valid_loader = DataLoader(valid_set, batch_size=8, pin_memory=True)
    history = fit(model, train_loader, valid_loader, device)
    print(len(history["loss"]), "steps")


if __name__ == "__main__":
    main()
