"""Trainers learn. One seed of CartPole runs always, the others with -m slow."""

import numpy as np
import pytest

import vecenv
from vecenv.trainers import PPO, SAC

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
