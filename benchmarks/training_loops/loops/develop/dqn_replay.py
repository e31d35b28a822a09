"""Deep Q-learning with a replay buffer of NumPy arrays."""

import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReplayBuffer:
    def __init__(self, capacity=200):
        self.storage = deque(maxlen=capacity)

    def push(self, *transition):
        self.storage.append(transition)

    def sample(self, count):
        rows = random.sample(self.storage, count)
        state, action, reward, next_state, done = map(np.stack, zip(*rows, strict=True))
        return state, action, reward.astype(np.float32), next_state, done.astype(np.float32)

    def __len__(self):
        return len(self.storage)


class Agent:
    def __init__(self, device, lr=1e-3):
        self.device = device
        self.online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
        self.target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.losses = []

    @torch.no_grad()
    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(2)
        q = self.online(torch.from_numpy(state).unsqueeze(0).to(self.device))
        return int(q.argmax(dim=1))

    def learn(self, batch, gamma=0.99):
        state, action, reward, next_state, done = (
            torch.from_numpy(array).to(self.device) for array in batch
        )
        q = self.online(state).gather(1, action.long().unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.target(next_state).max(dim=1).values
            expected = reward + gamma * best * (1 - done)
        loss = F.smooth_l1_loss(q, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach().cpu().item())


def main(steps=60):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    agent, memory = Agent(device), ReplayBuffer()
    state = np.random.randn(4).astype(np.float32)
    for step in range(steps):
        epsilon = max(0.05, 0.3 - step / 100)
        action = agent.act(state, epsilon)
        next_state = np.random.randn(4).astype(np.float32)
        memory.push(state, action, float(action), next_state, step % 20 == 19)
        state = next_state
        if len(memory) >= 16:
            agent.learn(memory.sample(8))
        if step % 25 == 0:
            agent.target.load_state_dict(agent.online.state_dict())
    print("mean loss", np.mean(agent.losses))


if __name__ == "__main__":
    main()
