"""A prefetcher that copies the next batch on a stream of its own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader, device):
        self.loader, self.device = iter(loader), device
        self.stream = torch.cuda.Stream(device)
        self.preload()

    def preload(self):
        try:
            batch = next(self.loader)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            self.batch = [part.to(self.device, non_blocking=True) for part in batch]

    def next(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        batch = self.batch
        if batch is not None:
            for part in batch:
                part.record_stream(torch.cuda.current_stream(self.device))
            self.preload()
        return batch


def main():
    device = torch.device("cuda:0")
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    loader = DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True)
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = torch.zeros(2, device=device)
    for epoch in range(2):
        prefetcher = Prefetcher(loader, device)
        batch = prefetcher.next()
        while batch is not None:
            x, y = batch
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[epoch] += loss.detach()
            batch = prefetcher.next()
    print(losses.tolist())


if __name__ == "__main__":
    main()
