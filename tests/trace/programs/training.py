"""Three steps of training with a logged loss."""

import torch


def main():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(x):  # compiled
        return model(x).square().mean()

    function = torch.compile(loss, backend="eager")
    for _ in range(3):
        value = function(torch.ones(4, 2))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        value.item()  # sync*3
