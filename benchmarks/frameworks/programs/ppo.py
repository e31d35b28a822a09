"""A PPO in the style of LeanRL: rollouts and updates, both compiled.

HalfCheetah's sizes (17 observations, 6 actions), actor and critic of two layers of 64; 64
environments that are a few lines of torch, 16 steps a rollout, 4 epochs of 4 mini-batches. A step
is a rollout with its updates.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.frameworks.base import Framework, How, Meter, Setup


class Agent(nn.Module):
    """Actor and critic."""

    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions)
        )
        self.critic = nn.Sequential(
            nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )
        self.spread = nn.Parameter(torch.zeros(actions))

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations to mean actions and values."""
        return self.actor(seen), self.critic(seen).squeeze(-1)


def likelihood(action: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor) -> torch.Tensor:
    """Logarithm of a normal density, summed over actions."""
    return (-((action - mean) / spread.exp()).square() / 2 - spread - 0.919).sum(-1)


def loop(how: How, meter: Meter, setup: Setup) -> None:
    device, count, length = setup.device, setup.size(64, 4), setup.size(16, 4)
    agent = Agent(17, 6).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4)
    turned = torch.randn(17, 17, device=device) / 5
    pushed = torch.randn(6, 17, device=device) / 5

    def act(seen: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, value = agent(seen)
        action = mean + agent.spread.exp() * noise
        return action, likelihood(action, mean, agent.spread), value

    def loss_of(
        seen: torch.Tensor, action: torch.Tensor, before: torch.Tensor, gain: torch.Tensor
    ) -> torch.Tensor:
        mean, value = agent(seen)
        ratio = (likelihood(action, mean, agent.spread) - before).exp()
        better = (gain - gain.mean()) / (gain.std() + 1e-8)
        policy = -torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
        return policy + 0.5 * (value - gain).square().mean()

    acting, learning = how.function(act), how.function(loss_of)
    seen = torch.randn(count, 17, device=device)
    noises = torch.randn(32, count, 6, device=device)
    for number in range(meter.total):
        found: list[list[torch.Tensor]] = [[], [], [], []]
        with torch.no_grad():
            for turn in range(length):
                action, before, _ = acting(seen, noises[(number + turn) % 32])
                for kept, value in zip(found, (seen, action, before, seen[:, 0]), strict=True):
                    kept.append(value.clone() if how.mode == "reduce-overhead" else value)
                seen = torch.tanh(seen @ turned + action @ pushed)
        batch = [torch.cat(kept) for kept in found]
        for part in range(16):
            places = torch.arange(part % 4, len(batch[0]), 4, device=device)
            loss = learning(*(value[places] for value in batch))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
        meter.tick(loss)


FRAMEWORK = Framework((), loop, warm=15, steps=25)
