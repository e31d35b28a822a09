"""A character-level recurrent language model that stops when its loss is not a number."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 32


class CharRNN(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, VOCABULARY)

    def forward(self, x, h):
        out, h = self.rnn(self.embed(x), h)
        return self.head(out), h


def random_chunk(text, length, rows):
    starts = torch.randint(0, len(text) - length - 1, (rows,))
    chunk = torch.stack([text[s : s + length + 1] for s in starts.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


def main(steps=20):
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    text = torch.randint(0, VOCABULARY, (500,))
    model = CharRNN().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    hidden = None
    start = time.time()
    for step in range(steps):
        x, y = random_chunk(text, 12, 4)
        x, y = x.to(dev), y.to(dev)
        logits, hidden = model(x, hidden)
        hidden = hidden.detach()
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), y.reshape(-1))
        if torch.isnan(loss):
            print("loss is nan, stopping")
            sys.exit(1)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        print(f"step {step} loss {loss:.4f} ({time.time() - start:.1f} s)")


if __name__ == "__main__":
    main()
