"""Nothing is compiled."""

import torch


def main():
    torch.ones(2) + 1
