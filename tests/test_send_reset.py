"""`send_reset`: resets of some envs while others run."""

from __future__ import annotations

import numpy as np
import pytest

import vecenv
from vecenv.errors import ConfigError, PendingError
from vecenv.wrappers import RecordEpisodeStatistics


@pytest.fixture(params=["sync", "thread", "process", "compiled"])
def envs(request):
    with vecenv.make("CartPole-v1", 4, engine=request.param, autoreset="disabled") as made:
        yield made


def by_env(step):
    """Observations in the order of envs; zeros where there are none."""
    obs = np.zeros((4, 4), np.float32)
    obs[step.env_ids] = step.obs
    return obs


def test_a_reset_of_all_envs_gives_what_reset_gives(envs):
    envs.send_reset(seed=3)
    step = envs.recv(min_envs=4)
    assert not step.valid.any()
    assert np.array_equal(by_env(step), envs.reset(seed=3)[0])


def test_some_envs_begin_again_while_others_step(envs):
    first, _ = envs.reset(seed=[1, 2, 3, 9])
    envs.send(np.array([0, 1]), [0, 1])
    envs.send_reset([2], seed=[None, None, 9, None])
    step = envs.recv(min_envs=3)
    assert step.env_ids.tolist() == [0, 1, 2]
    assert step.valid.tolist() == [True, True, False]
    assert np.array_equal(by_env(step)[2], first[3])
    envs.reset(seed=[1, 2, 3, 9])
    assert np.array_equal(by_env(step)[:2], envs.step(np.array([0, 1, 0, 0]))[0][:2])


def test_what_is_running_cannot_be_reset(envs):
    envs.reset(seed=0)
    envs.send(np.array([0, 1]), [0, 3])
    with pytest.raises(PendingError, match=r"envs \[3\] are still running"):
        envs.send_reset([2, 3])
    assert sorted(envs.recv(min_envs=2).env_ids.tolist()) == [0, 3]
    with pytest.raises(ConfigError, match="send_reset takes env_ids"):
        envs.send_reset(options={"reset_mask": np.array([True, False, False, False])})


def test_wrappers_pass_it_on_and_count_from_zero():
    with RecordEpisodeStatistics(vecenv.make("CartPole-v1", 2, engine="sync", autoreset="disabled")) as envs:
        envs.reset(seed=0)
        envs.step(np.array([0, 1]))
        envs.send_reset([1])
        step = envs.recv()
        assert step.env_ids.tolist() == [1]
        assert envs.episode_length.tolist() == [1, 0]
