"""Training steps reported through the logging module and a CSV file."""

import csv
import io
import logging

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 1)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.linear(x).squeeze(-1) * self.scale


def batches(device, count):
    for _ in range(count):
        x = torch.randn(16, 5, device=device)
        yield x, x.sum(dim=1)


def main(count=15):
    logging.basicConfig(level=logging.INFO)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Regressor().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    table = csv.writer(io.StringIO())
    table.writerow(["step", "loss", "scale"])
    for step, (x, y) in enumerate(batches(device, count)):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.info("step %d: loss %.5f", step, loss)
        table.writerow([step, f"{loss.item():.5f}", str(model.scale.data)])
        logger.debug("learning rate %s", optimizer.param_groups[0]["lr"])
    logger.info("done, last loss %s", loss.item())


if __name__ == "__main__":
    main()
