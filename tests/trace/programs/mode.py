"""A module that changes between training and evaluation."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):  # compiled*2 recompile
        return torch.nn.functional.dropout(x, 0.5, self.training)


def main():
    model = Model()
    function = torch.compile(model, backend="eager")
    function(torch.ones(2))
    model.eval()
    function(torch.ones(2))
