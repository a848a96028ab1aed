"""VecNormalize and RunningMeanStd: Stable-Baselines3 is the oracle, number for number."""

import pickle
from copy import deepcopy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from vecenv.errors import SpaceError
from vecenv.sb3.dummy_vec_env import DummyVecEnv
from vecenv.sb3.running_mean_std import RunningMeanStd
from vecenv.sb3.vec_normalize import VecNormalize

BOX = spaces.Box(-10, 10, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
DICT = spaces.Dict({"vector": BOX, "image": IMAGE, "choice": spaces.Discrete(4)})


class Scripted(gymnasium.Env):
    """Observations and rewards drawn from the seed; episodes of 7 steps."""

    def __init__(self, space, seed):
        self.observation_space, self.action_space = deepcopy(space), spaces.Discrete(2)
        self.source = deepcopy(space)  # because Stable-Baselines3's VecNormalize changes Dict spaces of the envs
        self.source.seed(seed)
        self.rewards = np.random.default_rng(seed)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.source.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.source.sample(), self.rewards.normal(1, 5), self.steps == 7, False, {}


def functions(space, count=3):
    return [lambda seed=seed: Scripted(space, seed) for seed in range(count)]


def ours(space, **arguments):
    return VecNormalize(DummyVecEnv(functions(space)), **arguments)


def theirs(space, **arguments):
    from stable_baselines3.common import vec_env

    return vec_env.VecNormalize(vec_env.DummyVecEnv(functions(space)), **arguments)


def assert_equal(actual, expected):
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_equal(actual[key], expected[key])
    else:
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


CASES = {
    "box": (BOX, {}),
    "image": (IMAGE, {"clip_obs": 1.5}),
    "dict": (DICT, {"norm_obs_keys": ["vector", "image"], "clip_reward": 0.3}),
    "one key": (DICT, {"norm_obs_keys": ["vector"], "gamma": 0.5, "epsilon": 1e-2}),
    "rewards only": (DICT, {"norm_obs": False}),
    "observations only": (BOX, {"norm_reward": False}),
    "evaluation": (BOX, {"training": False}),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_stable_baselines3(case):
    space, arguments = CASES[case]
    mine, oracle = ours(space, **arguments), theirs(space, **arguments)
    assert mine.observation_space == oracle.observation_space
    assert_equal(mine.reset(), oracle.reset())
    for _ in range(30):
        actions = np.zeros(3, np.int64)
        obs, rewards, dones, infos = mine.step(actions)
        expected_obs, expected_rewards, expected_dones, expected_infos = oracle.step(actions)
        assert_equal(obs, expected_obs)
        assert_equal(rewards, expected_rewards)
        assert_equal(dones, expected_dones)
        for row in np.flatnonzero(dones):
            assert_equal(infos[row]["terminal_observation"], expected_infos[row]["terminal_observation"])
        assert_equal(mine.get_original_obs(), oracle.get_original_obs())
        assert_equal(mine.get_original_reward(), oracle.get_original_reward())
        assert_equal(mine.unnormalize_obs(obs), oracle.unnormalize_obs(obs))
        assert_equal(mine.returns, oracle.returns)
    assert_equal(mine.reset(), oracle.reset())
    assert_equal(mine.returns, oracle.returns)


def test_what_is_handed_out_is_nobody_elses():
    venv = ours(DICT, norm_obs_keys=["vector"])
    before = venv.reset()
    obs, rewards, _, _ = venv.step(np.zeros(3, np.int64))
    original, original_reward = venv.get_original_obs(), venv.get_original_reward()
    kept = deepcopy((original, original_reward))
    for array in (*before.values(), *obs.values(), *original.values(), rewards, original_reward):
        array[...] = 0
    assert_equal(venv.get_original_obs(), kept[0])
    assert_equal(venv.get_original_reward(), kept[1])


def test_inner_space_is_left_alone():
    inner = DummyVecEnv(functions(DICT))
    venv = VecNormalize(inner, norm_obs_keys=["image"])
    assert inner.observation_space == DICT
    assert venv.observation_space["image"] == spaces.Box(-10, 10, (4, 5, 3), np.float32)


def test_normalize_leaves_statistics_and_takes_any_leading_axes():
    venv = ours(BOX)
    obs = venv.reset()
    count = venv.obs_rms.count
    original = venv.get_original_obs()
    assert_equal(venv.normalize_obs(original), obs)
    assert_equal(venv.normalize_obs(original[0]), obs[0])
    assert_equal(venv.normalize_obs(original.reshape(1, 3, 3)), obs.reshape(1, 3, 3))
    assert venv.obs_rms.count == count


@pytest.mark.parametrize(
    ("space", "arguments", "message"),
    [
        (spaces.Discrete(3), {}, "only supports"),
        (BOX, {"norm_obs_keys": ["a"]}, "is applicable only"),
        (DICT, {}, "explicitly pass the observation keys"),
    ],
)
def test_spaces_that_cannot_be_normalised_are_refused(space, arguments, message):
    with pytest.raises(ValueError, match=message):
        ours(space, **arguments)


def test_pickles_hold_all_but_the_env():
    venv = ours(BOX)
    venv.reset()
    copy = pickle.loads(pickle.dumps(venv))
    assert copy.venv is None
    with pytest.raises(SpaceError, match="shapes"):
        copy.set_venv(DummyVecEnv(functions(IMAGE)))
    copy.set_venv(DummyVecEnv(functions(BOX, 2)))
    assert (copy.num_envs, len(copy.returns)) == (2, 2)
    assert_equal(copy.obs_rms.mean, venv.obs_rms.mean)
    with pytest.raises(ValueError, match="already initialized"):
        copy.set_venv(venv.venv)


def test_statistics_of_stable_baselines3_can_be_assigned():
    mine, oracle = ours(BOX, training=False), theirs(BOX)
    oracle.reset()
    mine.obs_rms, mine.ret_rms = deepcopy(oracle.obs_rms), deepcopy(oracle.ret_rms)
    obs = np.ones((3, 3), np.float32)
    assert_equal(mine.normalize_obs(obs), oracle.normalize_obs(obs))
    mine.training = True
    mine.reset()


@pytest.mark.parametrize("shape", [(), (3,), (3, 4)])
def test_running_mean_std_is_that_of_stable_baselines3(shape):
    from stable_baselines3.common.running_mean_std import RunningMeanStd as Oracle

    rng = np.random.default_rng(0)
    mine, oracle, other = RunningMeanStd(shape=shape), Oracle(shape=shape), RunningMeanStd(0.0, shape)
    for batch in (rng.normal(size=(5, *shape)), rng.normal(size=(2, *shape)), rng.normal(size=shape or (1,))):
        mine.update(batch)
        oracle.update(batch)
        other.update(batch)
    mine.combine(other)
    oracle.combine(other)
    np.testing.assert_array_equal(mine.mean, oracle.mean)
    np.testing.assert_array_equal(mine.var, oracle.var)
    assert mine.count == oracle.count


def test_running_mean_std_copies_are_apart():
    mine = RunningMeanStd(shape=(2,))
    copies = [mine.copy(), deepcopy(mine), pickle.loads(pickle.dumps(mine))]
    mine.update(np.ones((4, 2)))
    for copy in copies:
        assert type(copy) is RunningMeanStd
        assert copy.count == 1e-4
        np.testing.assert_array_equal(copy.mean, np.zeros(2))
    mine.count -= 1
    mine.mean = np.array([1.0, 2.0])
    assert mine.mean is mine.mean
    np.testing.assert_array_equal(mine.mean, [1, 2])
