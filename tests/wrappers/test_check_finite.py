"""NaN and infinity are found where they come from, with what is needed to see them again."""

import pickle
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests import twins
from tests.wrappers.driving import drive, in_every_case, make
from vecenv.errors import ConfigError, NotFiniteError
from vecenv.wrappers import CheckFinite


class Sick(gymnasium.Env):
    """When its actions add up to `limit` something is `bad`: "obs", "reward" or nothing. Episodes have 6 steps."""

    observation_space = spaces.Dict(
        {
            "good": spaces.Box(-1, 1, (2,), np.float32),
            "ill": spaces.Box(-1, 1, (3,), np.float64),
            "n": spaces.Discrete(9),
        }
    )
    action_space = spaces.Box(-9, 9, (1,), np.float32)

    def __init__(self, what="obs", bad=np.nan, limit=3.0, at_reset=False):
        self.what, self.bad, self.limit, self.at_reset = what, bad, limit, at_reset
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.total = 0, 0.0
        self.resets += 1
        return self.obs(self.at_reset and self.resets > 1), {}

    def step(self, action):
        self.steps += 1
        self.total += float(action[0])
        ill = self.total >= self.limit
        reward = self.bad if ill and self.what == "reward" else 1.0
        return self.obs(ill and self.what == "obs"), reward, self.steps == 6, False, {}

    def obs(self, ill):
        return {"good": np.zeros(2, np.float32), "ill": np.array([0, self.bad if ill else 0, 0]), "n": 0}


def sick(num_envs=3, mode="same-step", check=None, engine="sync", **kwargs):
    envs = twins.make(engine, lambda: Sick(**kwargs), num_envs, autoreset=mode, check_finite="off")
    return CheckFinite(envs, **(check or {}))


def give(*values):
    return np.array(values, np.float32)[:, None]


@pytest.mark.parametrize("engine", ["sync", "process"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("what", "name"), [("obs", "obs.ill"), ("reward", "reward")])
def test_the_error_has_all_to_see_it_again(engine, bad, what, name):
    envs = sick(what=what, bad=bad, engine=engine)
    envs.reset(seed=[10, 20, 30])
    envs.step(give(0, 1, 0))
    envs.step(give(1), env_ids=[1])
    with pytest.raises(NotFiniteError) as caught:
        envs.step(give(1, 0), env_ids=[1, 2])
    error = caught.value
    assert (error.name, error.row, error.seed, error.episode, error.step) == (name, 1, 20, 0, 3)
    np.testing.assert_array_equal(error.actions, give(1, 1, 1))
    assert re.search(rf"{name} of env 1 .*seed 20.*step 3", str(error))
    again = Sick(what, bad)
    again.reset(seed=error.seed)
    for action in error.actions:
        obs, reward, *_ = again.step(action)
    np.testing.assert_array_equal(obs["ill"] if what == "obs" else reward, error.value)
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error)
    assert copied.seed == 20
    envs.close()


@pytest.mark.parametrize("mode", ["next-step", "same-step", "disabled"])
def test_a_terminal_observation_belongs_to_the_episode_it_ends(mode):
    envs = sick(1, mode, limit=6.0)
    envs.reset(seed=1)
    for _ in range(5):
        envs.step(give(1))
    with pytest.raises(NotFiniteError) as caught:
        envs.step(give(1))
    assert caught.value.name == ("final_obs.ill" if mode == "same-step" else "obs.ill")
    assert (caught.value.step, len(caught.value.actions)) == (6, 6)


@pytest.mark.parametrize("mode", ["next-step", "same-step", "disabled"])
def test_a_first_observation_belongs_to_the_episode_it_begins(mode):
    envs = sick(1, mode, limit=99.0, at_reset=True)
    envs.reset(seed=1)
    with pytest.raises(NotFiniteError) as caught:  # noqa: PT012  # which step it is, is what is asked
        for _ in range(7):
            *_, terminated, _, _ = envs.step(give(1))
            if terminated.any() and mode == "disabled":
                envs.reset()
    assert (caught.value.name, caught.value.episode, caught.value.step) == ("obs.ill", 1, 0)
    assert len(caught.value.actions) == 0


def test_only_the_last_actions_are_kept():
    envs = sick(1, limit=1 + 2 + 3 + 4, check={"keep": 2})
    envs.reset(seed=1)
    with pytest.raises(NotFiniteError) as caught:  # noqa: PT012  # which step it is, is what is asked
        for value in (1, 2, 3, 4):
            envs.step(give(value))
    np.testing.assert_array_equal(caught.value.actions, give(3, 4))
    assert caught.value.step == 4


def test_bad_actions_are_found_before_they_are_sent():
    envs = sick()
    envs.reset(seed=0)
    with pytest.raises(NotFiniteError, match="actions of env 2") as caught:
        envs.step(give(0, 0, np.nan))
    assert caught.value.step == 0
    envs.step(give(0, 0, 0))
    with pytest.raises(NotFiniteError, match="actions of env 1"):
        envs.send(give(np.inf), env_ids=[1])


def test_a_warning_comes_once_per_env_and_place():
    envs = sick(2, check={"action": "warn"}, limit=1.0)
    envs.reset(seed=0)
    with pytest.warns(UserWarning, match=r"obs\.ill of env 0"):
        envs.step(give(1, 0))
    envs.step(give(1, 0))
    with pytest.warns(UserWarning, match=r"obs\.ill of env 1"):
        envs.step(give(0, 1))


def test_infinity_may_be_allowed():
    envs = sick(1, check={"check_inf": False}, bad=np.inf, limit=1.0)
    envs.reset(seed=0)
    envs.step(give(1))
    envs = sick(1, check={"check_inf": False}, limit=1.0)
    envs.reset(seed=0)
    with pytest.raises(NotFiniteError):
        envs.step(give(1))


def test_large_numbers_are_finite():
    envs = sick(2, bad=1.7e308, limit=1.0)  # their sum is not
    envs.reset(seed=0)
    envs.step(give(1, 1))


@in_every_case
def test_nothing_changes_if_all_is_well(engine, mode, way):
    with make(engine, "CartPole-v1", autoreset=mode) as envs:
        plain = drive(envs, way)
    with make(engine, "CartPole-v1", autoreset=mode) as envs:
        checked = drive(CheckFinite(envs), way)
    for one, other in zip(plain, checked, strict=True):
        for values, wanted in zip(one[:-1], other[:-1], strict=True):
            np.testing.assert_array_equal(values, wanted)


def test_unseeded_envs_and_bad_arguments():
    envs = sick(1, limit=1.0)
    envs.reset()
    with pytest.raises(NotFiniteError, match="never seeded") as caught:
        envs.step(give(1))
    assert caught.value.seed is None
    with pytest.raises(ConfigError, match="'raise' or 'warn'"):
        sick(check={"action": "ignore"})
    with pytest.raises(ConfigError, match="keep"):
        sick(check={"keep": 0})


class Listing(gymnasium.Env):
    """Observes as many numbers as it has made steps, and a NaN among them at its third."""

    observation_space = spaces.Dict({"list": spaces.Sequence(spaces.Box(-9, 9, (), np.float32), stack=True)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return {"list": np.zeros(0, np.float32)}, {}

    def step(self, action):
        self.steps += int(action)
        numbers = np.arange(self.steps, dtype=np.float32)
        if self.steps == 3:
            numbers[1] = np.nan
        return {"list": numbers}, 1.0, False, False, {}


@pytest.mark.parametrize("engine", ["sync", "process"])
def test_values_without_a_fixed_size_are_looked_at(engine):
    with CheckFinite(twins.make(engine, Listing, 3, check_finite="off")) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            envs.step(np.array([0, 1, 0]))
        with pytest.raises(NotFiniteError) as caught:
            envs.step(np.array([0, 1, 0]))
        assert (caught.value.name, caught.value.row, caught.value.step) == ("obs.list", 1, 3)
        np.testing.assert_array_equal(caught.value.value, [0, np.nan, 2])
