"""REINFORCE on a random walk, one environment, one step at a time."""

import torch
from torch import nn
from torch.distributions import Categorical


class Walk:
    """Ten places in a row; the right end pays."""

    def reset(self):
        self.place, self.time = 4, 0
        return self.observe()

    def observe(self):
        return [float(place == self.place) for place in range(10)]

    def step(self, action):
        self.place = min(9, max(0, self.place + (1 if action else -1)))
        self.time += 1
        return self.observe(), float(self.place == 9), self.time >= 8


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(self, x):
        return torch.softmax(self.layers(x), dim=-1)


def select_action(policy, state, device, log_probs):
    state = torch.tensor(state, device=device).unsqueeze(0)
    m = Categorical(policy(state))
    action = m.sample()
    log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode(rewards, log_probs, optimizer, device, gamma=0.99):
    discounted, returns = 0.0, []
    for r in rewards[::-1]:
        discounted = r + gamma * discounted
        returns.insert(0, discounted)
    returns = torch.tensor(returns, device=device)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = torch.stack([-lp * r for lp, r in zip(log_probs, returns, strict=True)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(episodes=6):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env, policy = Walk(), Policy().to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    running_reward = 0.0
    for episode in range(episodes):
        state, rewards, log_probs = env.reset(), [], []
        done = False
        while not done:
            action = select_action(policy, state, device, log_probs)
            state, reward, done = env.step(action)
            rewards.append(reward)
        running_reward = 0.05 * sum(rewards) + 0.95 * running_reward
        finish_episode(rewards, log_probs, optimizer, device)
        if episode % 3 == 0:
            print(f"Episode {episode}\tAverage reward: {running_reward:.2f}")


if __name__ == "__main__":
    main()
