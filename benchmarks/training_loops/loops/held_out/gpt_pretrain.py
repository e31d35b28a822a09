"""Pretrain a tiny GPT: random crops, cosine learning rate, gradient accumulation, timings."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4
block_size = 16
vocab_size = 64
grad_accum = 2
max_iters = 12
learning_rate = 1e-3
warmup_iters = 4
device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.ln_2 = nn.LayerNorm(width)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, width=32, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, width)
        self.wpe = nn.Parameter(torch.zeros(block_size, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.head = nn.Linear(width, vocab_size)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe[: idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


def get_batch(data):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix.tolist()])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix.tolist()])
    if device == "cuda":
        return (
            x.pin_memory().to(device, non_blocking=True),
            y.pin_memory().to(device, non_blocking=True),
        )
    return x, y


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / warmup_iters
    ratio = (it - warmup_iters) / (max_iters - warmup_iters)
    return 0.5 * learning_rate * (1.0 + math.cos(math.pi * ratio))


def main():
    data = torch.randint(0, vocab_size, (1000,))
    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
    x, y = get_batch(data)
    for it in range(max_iters):
        t0 = time.time()
        lr = get_lr(it)
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss_accum = 0.0
        for _ in range(grad_accum):
            loss = model(x, y) / grad_accum
            x, y = get_batch(data)
            loss_accum += loss.detach()
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        dt = time.time() - t0
        tokens_per_sec = batch_size * block_size * grad_accum / max(dt, 1e-9)
        print(
            f"step {it:4d} | loss: {loss_accum.item():.6f} | lr {lr:.4e} | "
            f"norm: {norm:.4f} | tok/sec: {tokens_per_sec:.2f}"
        )


if __name__ == "__main__":
    main()
