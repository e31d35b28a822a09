"""Two threads call one compiled function after another."""

import threading

import torch


def forward(x):  # compiled
    y = x + 1
    print("thread")  # graph_break compiled
    return y * 2


def main():
    function = torch.compile(forward, backend="eager")
    for _ in range(2):
        thread = threading.Thread(target=function, args=(torch.ones(2),))
        thread.start()
        thread.join()
