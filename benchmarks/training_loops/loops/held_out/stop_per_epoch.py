"""Early stopping and a plateau schedule that look at the loss once an epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, device, patience=2):
        self.device, self.patience = device, patience
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=1)
        self.best, self.bad_epochs = float("inf"), 0

    def step(self, batch):
        x, y = (part.to(self.device, non_blocking=True) for part in batch)
        loss = nn.functional.l1_loss(self.model(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def run_epoch(self, loader):
        losses = []
        for batch in loader:
            losses.append(self.step(batch))
        return torch.stack(losses).mean().item()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            loss = self.run_epoch(loader)
            self.plateau.step(loss)
            improved = loss < self.best
            self.best = min(loss, self.best)
            self.bad_epochs = 0 if improved else self.bad_epochs + 1
            print(f"epoch {epoch}: {loss:.4f}{' *' if improved else ''}")
            if self.bad_epochs > self.patience:
                break


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(60, 5), torch.randn(60, 1))
    loader = DataLoader(data, batch_size=10, shuffle=True, pin_memory=True)
    Trainer(nn.Linear(5, 1), device).fit(loader, epochs=4)


if __name__ == "__main__":
    main()
