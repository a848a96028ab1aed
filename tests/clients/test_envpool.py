"""`vecenv.envpool` next to the real EnvPool: the same names, shapes and dtypes."""

from __future__ import annotations

import envpool
import numpy as np
import pytest

import vecenv
from tests.clients.pages import run_page


def assert_alike(ours, theirs, path=""):
    """The same structure, shapes and dtypes; the numbers differ, as EnvPool has random streams of its own."""
    if isinstance(theirs, dict):
        assert ours.keys() >= theirs.keys(), path
        for key, value in theirs.items():
            assert_alike(ours[key], value, f"{path}.{key}")
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs), path
        for index, value in enumerate(theirs):
            assert_alike(ours[index], value, f"{path}[{index}]")
    else:
        assert ours.shape == theirs.shape, path
        assert ours.dtype == theirs.dtype, path


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"])
def test_results_have_the_same_structure(id):
    arguments = {"num_envs": 3, "seed": 1}
    ours, theirs = vecenv.envpool.make(id, "gymnasium", **arguments), envpool.make(id, "gymnasium", **arguments)
    assert len(ours) == len(theirs)
    assert ours.all_env_ids.tolist() == theirs.all_env_ids.tolist()
    assert_alike(ours.reset(), theirs.reset())
    actions = np.array([theirs.action_space.sample() for _ in range(3)])
    assert_alike(ours.step(actions), theirs.step(actions))
    assert_alike(ours.step(actions[:2], np.array([2, 0])), theirs.step(actions[:2], np.array([2, 0])))
    ours.close()


def test_async_results_have_the_same_structure():
    pools = [
        make("CartPole-v1", "gym", num_envs=4, batch_size=2, num_threads=2)
        for make in (vecenv.envpool.make, envpool.make)
    ]
    for pool in pools:
        pool.async_reset()
    for _ in range(5):
        ours, theirs = [pool.recv() for pool in pools]
        assert_alike(ours, theirs)
        for pool, results in zip(pools, (ours, theirs), strict=True):
            pool.send(np.zeros(2, int), results[4]["env_id"])


def test_time_steps_of_dm_have_the_same_kinds_and_discounts():
    arguments = {"num_envs": 2, "seed": 1, "max_episode_steps": 5}
    pools = [make("CartPole-v1", **arguments) for make in (vecenv.envpool.make_dm, envpool.make_dm)]
    ours, theirs = [pool.reset() for pool in pools]
    for _ in range(7):  # five steps, the next reset, and one more
        for name in ("step_type", "reward", "discount"):
            mine, expected = getattr(ours, name), getattr(theirs, name)
            assert np.array_equal(mine, expected), name
            assert mine.dtype == expected.dtype
        assert np.array_equal(ours.observation.env_id, theirs.observation.env_id)
        ours, theirs = [pool.step(np.array([0, 1])) for pool in pools]


def test_the_page_runs_as_written(tmp_path):
    run_page("envpool", tmp_path)
