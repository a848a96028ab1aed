"""`vecenv.torchrl` with the real TorchRL; the oracle is a GymWrapper around Gymnasium's SyncVectorEnv."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs

import vecenv
from tests.clients.pages import run_page
from vecenv.errors import ConfigError

DISABLED = gymnasium.vector.AutoresetMode.DISABLED


def theirs(id="CartPole-v1", count=3, **kwargs):
    return GymWrapper(
        gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(id, **kwargs)] * count, autoreset_mode=DISABLED)
    )


def assert_same(one, other):
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in one.keys(True, True):
        assert torch.equal(one[key], other[key]), key


@pytest.mark.parametrize("engine", ["sync", "process", "compiled"])
def test_specs_are_right_and_rollouts_are_equal(engine):
    ours = vecenv.torchrl.env("CartPole-v1", 3, engine=engine)
    expected = theirs()
    check_env_specs(ours)
    results = []
    for env in (ours, expected):
        env.set_seed(5)
        torch.manual_seed(2)
        results.append(env.rollout(60, break_when_any_done=False))
    assert_same(*results)
    assert results[0]["next", "done"].any()
    ours.close()


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1"])
def test_collectors_are_equal(id):
    gathered = []
    for make in (
        lambda: vecenv.torchrl.env(id, 3, engine="sync", max_episode_steps=15),
        lambda: theirs(id, max_episode_steps=15),
    ):
        env = make()
        env.set_seed(3)  # before: a collector resets its env when it is made
        torch.manual_seed(1)
        collector = Collector(env, None, frames_per_batch=60, total_frames=120)
        gathered.append([batch.exclude("collector").clone() for batch in collector])
        collector.shutdown()
    for one, other in zip(*gathered, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_the_async_env_gives_every_env_its_own_sequence(engine):
    envs = vecenv.make("CartPole-v1", 4, engine=engine, autoreset="same-step", batch_size=2)
    env = vecenv.torchrl.AsyncEnv(envs, categorical_action_encoding=True)
    env.async_reset_send(seed=11)
    roots = env.async_reset_recv(4)
    assert sorted(roots["env_index"].tolist()) == [0, 1, 2, 3]
    first = roots["observation"][roots["env_index"].argsort()]
    sequences = {row: [] for row in range(4)}
    env.async_step_and_maybe_reset_send(roots.set("action", torch.zeros(4, dtype=torch.int64)))
    for _ in range(80):
        transitions, roots = env.async_step_and_maybe_reset_recv()
        assert len(roots) == 2
        for position, row in enumerate(transitions["env_index"].tolist()):
            sequences[row].append((transitions[position], roots[position]))
        env.async_step_and_maybe_reset_send(roots.set("action", torch.zeros(2, dtype=torch.int64)))
    single = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1")] * 4, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    obs, _ = single.reset(seed=11)
    assert np.array_equal(first, obs)
    for step in range(max(map(len, sequences.values()))):
        before, (obs, reward, terminated, truncated, info) = obs, single.step(np.zeros(4, int))
        for row, sequence in sequences.items():
            if step < len(sequence):
                transition, root = sequence[step]
                done = terminated[row] or truncated[row]
                assert np.array_equal(transition["observation"], before[row])
                assert np.array_equal(transition["next", "observation"], info["final_obs"][row] if done else obs[row])
                assert np.array_equal(root["observation"], obs[row])
                assert transition["next", "done"].item() == done
                assert transition["next", "reward"].item() == reward[row]
    env.close()


def test_another_mode_is_refused():
    with pytest.raises(ConfigError, match="leave autoreset out"):
        vecenv.torchrl.env("CartPole-v1", 2, autoreset="next-step")
    with pytest.raises(ConfigError, match="autoreset='disabled', these have 'next-step'"):
        vecenv.torchrl.env(vecenv.make("CartPole-v1", 2, engine="sync"))
    with pytest.raises(ConfigError, match="autoreset='same-step'"):
        vecenv.torchrl.AsyncEnv(vecenv.make("CartPole-v1", 2, engine="sync"))


def test_the_page_runs_as_written(tmp_path):
    run_page("torchrl", tmp_path)
