"""AgileRL's PPO takes our envs as they are; the oracle is Gymnasium's SyncVectorEnv with the same seeds."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from agilerl.algorithms import PPO
from agilerl.rollouts.on_policy import collect_rollouts
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv


def learned(envs):
    """Scores of the ended episodes, the loss, and the weights after a rollout and an update."""
    torch.manual_seed(0)
    np.random.seed(0)
    spaces = envs.single_observation_space, envs.single_action_space
    agent = PPO(*spaces, num_envs=8, learn_step=256, batch_size=64, update_epochs=2)
    envs.reset(seed=1)
    scores = collect_rollouts(agent, envs, n_steps=32)[0]
    loss = agent.learn()
    envs.close()
    return scores, loss, list(agent.actor.parameters())


@pytest.mark.parametrize("engine", ["sync", "compiled", "process"])
def test_ppo_learns_what_it_learns_on_gymnasiums_vector_env(engine):
    makers = [lambda: gymnasium.make("CartPole-v1")] * 8
    scores, loss, weights = learned(SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP))
    ours = learned(vecenv.make("CartPole-v1", 8, autoreset="same-step", engine=engine))
    assert len(scores) > 5
    assert ours[0] == scores
    assert ours[1] == loss
    for one, other in zip(ours[2], weights, strict=True):
        assert torch.equal(one, other)
