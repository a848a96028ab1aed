"""Trainers learn. DQN in a corridor and one seed of CartPole; the others with -m slow."""

import gymnasium
import numpy as np
import pytest
import torch

import vecenv
from vecenv.trainers import DQN, PPO, SAC, DQNConfig

EPISODES = 100


def mean_return(policy, env_id):
    """Of one episode of each of a hundred envs that training has not seen."""
    envs = vecenv.make(env_id, EPISODES, autoreset="same-step")
    obs, _ = envs.reset(seed=10_000)
    running, total = np.ones(EPISODES, bool), np.zeros(EPISODES)
    while running.any():
        obs, reward, terminated, truncated, _ = envs.step(policy(obs))
        total += reward * running
        running &= ~(terminated | truncated)
    envs.close()
    return total.mean()


def train(algorithm, env_id, seed, steps, enough):
    """Until recent episodes are good enough, or for all the steps."""

    def good(progress):
        return not (progress.episodes >= EPISODES and progress.mean_return >= enough)

    trainer = algorithm(env_id, seed=seed).learn(steps, good)
    trainer.close()
    return mean_return(trainer.policy, env_id)


class Corridor(gymnasium.Env):
    """Six cells; a reward at the right end, none before."""

    observation_space, action_space = gymnasium.spaces.Discrete(6), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time = 0, 0
        return 0, {}

    def step(self, action):
        self.cell, self.time = min(max(self.cell + (1 if action else -1), 0), 5), self.time + 1
        return self.cell, float(self.cell == 5), self.cell == 5, self.time == 50, {}


def test_dqn_learns_the_way_to_a_late_reward():
    """From random actions alone: it learns off-policy."""
    config = DQNConfig(
        num_envs=4, warmup=200, minibatch=32, hidden=(16,), target_every=50, learning_rate=5e-3, exploration=1.0,
        updates_per_step=0.5, gamma=0.9,
    )  # fmt: skip
    trainer = DQN(vecenv.make(Corridor, 4, engine="sync", autoreset="same-step"), config, seed=0)
    assert trainer.policy(np.arange(5)).tolist() != [1] * 5
    trainer.learn(1_500)
    trainer.close()
    assert trainer.policy(np.arange(5)).tolist() == [1] * 5
    values = trainer.network(torch.arange(5))[0].max(-1).values.detach().numpy()
    np.testing.assert_allclose(values, 0.9 ** np.arange(4, -1, -1), atol=0.1)  # of a network of 16 units


@pytest.mark.timeout(240)
def test_ppo_balances_the_pole():
    assert train(PPO, "CartPole-v1", 0, 150_000, 475) >= 475


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_balances_the_pole_with_other_seeds(seed):
    assert train(PPO, "CartPole-v1", seed, 150_000, 475) >= 475


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ppo_swings_the_acrobot_up(seed):
    assert train(PPO, "Acrobot-v1", seed, 400_000, -85) >= -100


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sac_holds_the_pendulum_upright(seed):
    trainer = SAC("Pendulum-v1", seed=seed).learn(12_000)
    trainer.close()
    assert mean_return(trainer.policy, "Pendulum-v1") >= -200
