"""Denoising diffusion with an exponential moving average of the weights."""

import copy
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm


class Diffusion(nn.Module):
    def __init__(self, net, steps=50):
        super().__init__()
        self.net, self.steps = net, steps
        betas = torch.linspace(1e-4, 0.02, steps)
        self.register_buffer("alphas_bar", torch.cumprod(1.0 - betas, dim=0))

    def forward(self, x, t):
        noise = torch.randn_like(x)
        a = self.alphas_bar[t][:, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        return F.mse_loss(self.net(torch.cat([noisy, t[:, None] / self.steps], dim=1)), noise)


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.model = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model):
        for ema_p, p in zip(self.model.parameters(), model.parameters(), strict=True):
            ema_p.lerp_(p, 1.0 - self.decay)


def cycle(loader):
    while True:
        yield from loader


def main(train_steps=16, save_every=8, accumulate=2):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    diffusion = Diffusion(nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 8))).to(device)
    ema = EMA(diffusion)
    opt = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
    dataset = TensorDataset(torch.randn(40, 8))
    batches = cycle(DataLoader(dataset, batch_size=8, shuffle=True, pin_memory=True))
    curve = []
    with tqdm(initial=0, total=train_steps) as pbar:
        step = 0
        while step < train_steps:
            total = 0.0
            for _ in range(accumulate):
                (x,) = next(batches)
                x = x.to(device)
                t = torch.randint(0, diffusion.steps, (x.shape[0],)).to(device)
                loss = diffusion(x, t) / accumulate
                total = total + loss.detach()
                loss.backward()
            pbar.set_description(f"loss: {total:.4f}")
            torch.nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            ema.update(diffusion)
            curve.append(total.cpu())
            step += 1
            if step % save_every == 0:
                milestone = step // save_every
                name = Path(f"sample-{milestone}.pt").name
                print(name, ema.model.net[0].weight.norm().item())
            pbar.update(1)


if __name__ == "__main__":
    main()
