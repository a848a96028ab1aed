"""`vecenv.tianshou.VectorEnv` with the real Tianshou; the oracle is its DummyVectorEnv."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.algorithm_base import Policy, policy_within_training_step
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv, DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

import vecenv
from tests.clients.pages import run_page
from vecenv.errors import ConfigError, UnsupportedError

SPACES = {"observation_space": gymnasium.make("CartPole-v1").observation_space}


class Lights(gymnasium.Env):
    """Dict observations and infos."""

    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Box(-9, 9, (2,)), "b": gymnasium.spaces.Discrete(9)}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def _obs(self):
        return {"a": np.full(2, self.count, np.float32), "b": self.count}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = int(self.np_random.integers(3))
        return self._obs(), {"start": self.count}

    def step(self, action):
        self.count += 1
        return self._obs(), float(action), self.count == 5, False, {"count": self.count}


def cart_pole():
    return gymnasium.make("CartPole-v1", max_episode_steps=30)


def ours(count=4, env=cart_pole, engine="sync", **kwargs):
    return vecenv.tianshou.VectorEnv(vecenv.make(env, count, autoreset="disabled", engine=engine), **kwargs)


def make_ppo():
    torch.manual_seed(0)
    preprocess = Net(state_shape=(4,), hidden_sizes=[16])
    actor = DiscreteActor(preprocess_net=preprocess, action_shape=2)
    critic = DiscreteCritic(preprocess_net=preprocess)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=torch.distributions.Categorical,
        action_space=gymnasium.spaces.Discrete(2),
        action_scaling=False,
    )
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))


class Push(Policy):
    """Pushes to the right, and has the entries "policy" and "state", without which Tianshou's AsyncCollector fails."""

    def __init__(self):
        super().__init__(action_space=gymnasium.spaces.Discrete(2), action_scaling=False, action_bound_method=None)

    def forward(self, batch, state=None, **kwargs):
        count = len(batch.obs)
        return Batch(act=np.ones(count, int), state=np.zeros((count, 1)), policy=Batch(pushed=np.ones(count)))


def collected(env, kind=Collector, **amount):
    """What a collector gathers with a policy of fixed weights."""
    buffer = VectorReplayBuffer(2000, len(env))
    collector = kind(make_ppo() if kind is Collector else Push(), env, buffer)
    np.random.seed(0)
    torch.manual_seed(1)
    env.seed(7)
    collector.reset(reset_stats=True)
    statistics = collector.collect(**amount)
    return buffer, statistics


def assert_same_buffers(one, other):
    assert len(one) == len(other) > 0
    for key in ("obs", "obs_next", "act", "rew", "terminated", "truncated", "done"):
        np.testing.assert_array_equal(getattr(one[:], key), getattr(other[:], key), err_msg=key)
    assert one[:].info.env_id.tolist() == other[:].info.env_id.tolist()


@pytest.mark.parametrize("amount", [{"n_step": 120}, {"n_episode": 9}], ids=["steps", "episodes"])
@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_collecting_is_equal_to_the_dummy_vector_env(amount, engine):
    env = ours(env="CartPole-v1" if engine == "compiled" else cart_pole, engine=engine)
    if engine == "compiled":
        theirs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4)
    else:
        theirs = DummyVectorEnv([cart_pole] * 4)
    (mine, statistics), (expected, their_statistics) = collected(env, **amount), collected(theirs, **amount)
    assert_same_buffers(mine, expected)
    assert statistics.n_collected_episodes == their_statistics.n_collected_episodes
    np.testing.assert_array_equal(statistics.returns, their_statistics.returns)
    env.close()


def test_steps_resets_and_infos_of_dict_observations_are_equal():
    env, theirs = ours(3, Lights), DummyVectorEnv([Lights] * 3)
    assert isinstance(env, BaseVectorEnv)
    assert len(env) == len(theirs) == 3
    assert env.action_space == theirs.action_space
    env.seed(4), theirs.seed(4)
    for one, other in zip(env.reset(), theirs.reset(), strict=True):
        assert_same_objects(one, other)
    for ids in ([0, 1, 2], [2, 0], [1]):
        for one, other in zip(
            env.step(np.zeros(len(ids), int), ids), theirs.step(np.zeros(len(ids), int), ids), strict=True
        ):
            assert_same_objects(one, other)
    for one, other in zip(env.reset([2, 0], seed=3), theirs.reset([2, 0], seed=3), strict=True):
        assert_same_objects(one, other)
    env.close()


def assert_same_objects(one, other):
    assert one.shape == other.shape
    for mine, expected in zip(one.tolist(), other.tolist(), strict=True):
        if isinstance(expected, dict):
            assert mine.keys() == expected.keys()
            assert all(np.array_equal(mine[key], expected[key]) for key in expected)
        else:
            assert mine == expected


def test_the_async_collector_acts_on_envs_that_are_ready_first():
    env = ours(4, partial(gymnasium.make, "CartPole-v1", max_episode_steps=30), engine="process", wait_num=2)
    assert env.is_async
    buffer, statistics = collected(env, AsyncCollector, n_step=200)
    assert statistics.n_collected_steps >= 200
    for part in buffer.buffers:  # what each env gathered is a sequence of whole episodes, in order
        batch = part[:]
        following = ~batch.done[:-1]
        np.testing.assert_array_equal(batch.obs[1:][following], batch.obs_next[:-1][following])
        assert (np.abs(batch.obs[1:][~following]) <= 0.05).all()
    env.close()


def test_ppo_learns_for_two_epochs_as_on_the_dummy_vector_env():
    weights = []
    for env in (ours(), DummyVectorEnv([cart_pole] * 4)):
        algorithm = make_ppo()
        buffer = VectorReplayBuffer(2000, 4)
        collector = Collector(algorithm, env, buffer)
        env.seed(3)
        np.random.seed(0)
        collector.reset()
        for _ in range(2):
            collector.collect(n_step=80)
            with policy_within_training_step(algorithm.policy), torch.enable_grad():
                algorithm.train()
                algorithm.update(buffer=buffer, batch_size=40, repeat=2)
            collector.reset_buffer(keep_statistics=True)
        weights.append([parameter.detach().clone() for parameter in algorithm.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))
    assert not all(torch.equal(*pair) for pair in zip(weights[0], make_ppo().parameters(), strict=True))


def test_what_tianshou_cannot_use_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match="autoreset='disabled', these have 'next-step'"):
        vecenv.tianshou.VectorEnv(vecenv.make("CartPole-v1", 2, engine="sync"))
    with pytest.raises(ConfigError, match=r"wait_num must be in 1 \.\.\. 4, got 5"):
        ours(wait_num=5)
    with pytest.raises(UnsupportedError, match="Tuple"):
        ours(1, "Blackjack-v1")


def test_the_page_runs_as_written(tmp_path):
    run_page("tianshou", tmp_path)
