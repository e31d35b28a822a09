"""Policies, action distributions and losses of reinforcement learning."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common import distributions, policies, utils
from stable_baselines3.common.torch_layers import CombinedExtractor, NatureCNN
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from benchmarks.lint_truth_packages.programs import Call, call

OBSERVATIONS = spaces.Box(-1.0, 1.0, (5,), np.float32)


def _rate(progress: float) -> float:
    return 1e-3


def actor_critic_discrete() -> Call:
    policy = policies.ActorCriticPolicy(OBSERVATIONS, spaces.Discrete(3), _rate)
    return call(policy, torch.randn(4, 5))


def actor_critic_evaluate() -> Call:
    policy = policies.ActorCriticPolicy(OBSERVATIONS, spaces.Box(-1.0, 1.0, (2,)), _rate)
    return call(policy.evaluate_actions, torch.randn(4, 5), torch.randn(4, 2))


def actor_critic_state_dependent_noise() -> Call:
    policy = policies.ActorCriticPolicy(
        OBSERVATIONS, spaces.Box(-1.0, 1.0, (2,)), _rate, use_sde=True, squash_output=True
    )
    return call(policy, torch.randn(4, 5))


def actor_critic_many_discrete() -> Call:
    policy = policies.ActorCriticPolicy(OBSERVATIONS, spaces.MultiDiscrete([3, 2]), _rate)
    return call(policy.evaluate_actions, torch.randn(4, 5), torch.zeros(4, 2))


def predict() -> Call:
    policy = policies.ActorCriticPolicy(OBSERVATIONS, spaces.Discrete(3), _rate)
    return Call(policy.predict, (np.zeros((4, 5), np.float32),), grad=False)


def soft_actor() -> Call:
    policy = SACPolicy(OBSERVATIONS, spaces.Box(-1.0, 1.0, (2,)), _rate)
    return call(policy.actor.action_log_prob, torch.randn(4, 5))


def soft_critic() -> Call:
    policy = SACPolicy(OBSERVATIONS, spaces.Box(-1.0, 1.0, (2,)), _rate)
    return call(policy.critic, torch.randn(4, 5), torch.randn(4, 2))


def deterministic_actor() -> Call:
    policy = TD3Policy(OBSERVATIONS, spaces.Box(-1.0, 1.0, (2,)), _rate)
    return call(policy.actor, torch.randn(4, 5))


def image_features() -> Call:
    images = spaces.Box(0, 255, (3, 64, 64), np.uint8)
    return call(NatureCNN(images, 16), torch.rand(2, 3, 64, 64))


def dictionary_features() -> Call:
    space = spaces.Dict({"a": OBSERVATIONS, "b": spaces.Discrete(4)})
    inputs = {"a": torch.randn(2, 5), "b": torch.rand(2, 4)}
    return call(CombinedExtractor(space), inputs)


def squashed_gaussian() -> Call:
    def draw(mean: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
        found = distributions.SquashedDiagGaussianDistribution(2)
        actions, log_prob = found.log_prob_from_params(mean, log_std)
        return actions.sum() + log_prob.sum()

    return call(draw, torch.randn(4, 2), torch.zeros(2))


def many_categories() -> Call:
    def draw(logits: torch.Tensor) -> torch.Tensor:
        found = distributions.MultiCategoricalDistribution([3, 2]).proba_distribution(logits)
        return found.log_prob(found.get_actions()) + found.entropy()

    return call(draw, torch.randn(4, 5))


def polyak_update() -> Call:
    a, b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    return call(lambda: utils.polyak_update(a.parameters(), b.parameters(), 0.1))


class _Line(gymnasium.Env):
    observation_space = OBSERVATIONS
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple:
        return np.zeros(5, np.float32), {}

    def step(self, action: object) -> tuple:
        return np.zeros(5, np.float32), 1.0, False, False, {}


def clipped_policy_update() -> Call:
    model = PPO("MlpPolicy", _Line(), n_steps=8, batch_size=4, n_epochs=1, device="cpu")
    model.learn(8)
    return Call(model.train, state=model.policy)


def advantage_update() -> Call:
    model = A2C("MlpPolicy", _Line(), n_steps=4, device="cpu")
    model.learn(4)
    return Call(model.train, state=model.policy)


def value_update() -> Call:
    # The environment's first actions are drawn by its own generator.
    model = DQN("MlpPolicy", _Line(), learning_starts=4, batch_size=4, device="cpu", seed=0)
    model.learn(8)
    return Call(lambda: model.train(gradient_steps=1, batch_size=4), state=model.policy)
