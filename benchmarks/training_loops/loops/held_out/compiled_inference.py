"""Predictions of a compiled model over a data set, gathered batch by batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self, width=16, classes=5):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x)).softmax(-1)


@torch.inference_mode()
def predict(model, loader, device, threshold=0.3):
    compiled = torch.compile(model)
    labels, confident, seen = [], 0, 0
    for (batch,) in loader:
        probabilities = compiled(batch.to(device))
        best, label = probabilities.max(dim=-1)
        labels.extend(label.cpu().tolist())
        if (best > threshold).all():
            confident += 1
        seen += batch.shape[0]
    return labels, confident, seen


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder().to(device).eval()
    loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, pin_memory=True)
    labels, confident, seen = predict(model, loader, device)
    print(f"{confident} confident batches of {seen} rows, first labels {labels[:5]}")


if __name__ == "__main__":
    main()
