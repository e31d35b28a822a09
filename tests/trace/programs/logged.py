"""A logger's call is a break."""

import logging

import torch

log = logging.getLogger("program")


def forward(x):  # compiled
    y = x + 1
    log.warning("value")  # graph_break compiled
    return y * 2


def main():
    log.disabled = True
    torch.compile(forward, backend="eager")(torch.ones(2))
