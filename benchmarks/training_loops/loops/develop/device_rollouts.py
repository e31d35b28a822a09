"""Advantage actor-critic on an environment that lives on the device."""

import torch
from torch import nn


class Bandits:
    """Many pole-like systems at once; all state is on the device."""

    def __init__(self, count, device):
        self.state = torch.randn(count, 4, device=device)

    def step(self, action):
        push = action.float().mul(2).sub(1).unsqueeze(1)
        self.state = 0.9 * self.state + 0.1 * push + 0.01 * torch.randn_like(self.state)
        done = self.state.abs().amax(dim=1) > 3
        reward = -self.state.abs().mean(dim=1)
        self.state = torch.where(done.unsqueeze(1), torch.zeros_like(self.state), self.state)
        return self.state, reward, done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return self.actor(h), self.critic(h).squeeze(-1)


def main(updates=6, horizon=8, envs=16, gamma=0.99):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, model = Bandits(envs, device), ActorCritic().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    curve = torch.zeros(updates, device=device)
    state = env.state
    for update in range(updates):
        log_probs, values, rewards, alive = [], [], [], []
        for _ in range(horizon):
            logits, value = model(state)
            log_p = logits.log_softmax(dim=-1)
            noise = torch.empty_like(log_p).exponential_().log()
            action = (log_p.detach() - noise).argmax(dim=1)
            state, reward, done = env.step(action)
            log_probs.append(log_p.gather(1, action.unsqueeze(1)).squeeze(1))
            values.append(value)
            rewards.append(reward)
            alive.append((~done).float())
        with torch.no_grad():
            _, running = model(state)
        returns = []
        for reward, mask in zip(reversed(rewards), reversed(alive), strict=True):
            running = reward + gamma * running * mask
            returns.append(running)
        target = torch.stack(returns[::-1])
        advantage = target - torch.stack(values)
        loss = -(torch.stack(log_probs) * advantage.detach()).mean() + advantage.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve[update] = loss.detach()
    print(curve.cpu())


if __name__ == "__main__":
    main()
