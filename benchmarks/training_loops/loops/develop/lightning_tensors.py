"""A Lightning module that logs tensors and keeps its metric on the device."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitRegressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("squared_error", torch.zeros(()))
        self.rows = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        prediction = self.net(x)
        loss = F.mse_loss(prediction, y)
        self.squared_error += F.mse_loss(prediction.detach(), y, reduction="sum")
        self.rows += x.shape[0]
        self.log("train_loss", loss, prog_bar=True)
        self.log_dict({"train_mae": (prediction - y).abs().mean()})
        return loss

    def on_train_epoch_end(self):
        print(f"rmse {(self.squared_error / self.rows).sqrt().item():.4f}")
        self.squared_error.zero_()
        self.rows = 0

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    dataset = TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=8, pin_memory=True)
    L.Trainer(max_epochs=2).fit(LitRegressor(), loader)


if __name__ == "__main__":
    main()
