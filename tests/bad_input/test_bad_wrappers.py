"""Engines that cannot run an env, seeds, and wrappers where they do not belong."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vecenv
from tests.test_bad_input import refused
from tests.twins import SampleEnv, assert_same, make, on_every_engine
from vecenv import wrappers
from vecenv.errors import ClosedError, ConfigError, ConfigTypeError, EngineRefused, NotFiniteError, SpaceError

BOX = spaces.Box(-1.0, 1.0, (3,), np.float64)


def env() -> SampleEnv:
    return SampleEnv(BOX, spaces.Discrete(3))


def walk(envs: Any, steps: int = 12) -> list[Any]:
    return [envs.reset(seed=3), *(envs.step(np.full(envs.num_envs, number % 3)) for number in range(steps))]


# --- engines ---------------------------------------------------------------------------------------------------------


def test_the_compiled_engine_names_the_env_that_has_no_kernel() -> None:
    built: list[int] = []

    def build() -> Any:
        built.append(1)
        return env()

    says = "no kernel of this env & write one with @vecenv.kernel & engine='sync'"
    refused(lambda: vecenv.make(build, 4, engine="compiled"), EngineRefused, ValueError, says=says)
    assert not built


@pytest.mark.parametrize("engine", ["sync", "thread", "process", "compiled"])
def test_every_engine_takes_a_new_seed_at_any_time(engine: str) -> None:
    with make(engine, "CartPole-v1", 4) as envs:
        first = envs.reset(seed=5)[0]
        for number in range(30):
            envs.step(np.full(4, number % 2))
        assert not np.array_equal(envs.reset(seed=6)[0], first)
        np.testing.assert_array_equal(envs.reset(seed=5)[0], first)


# --- wrappers --------------------------------------------------------------------------------------------------------

WRAPPERS = {
    "normalize": wrappers.NormalizeObservation,
    "reward": wrappers.NormalizeReward,
    "stack": lambda envs: wrappers.FrameStackObservation(envs, 2),
    "statistics": wrappers.RecordEpisodeStatistics,
    "finite": wrappers.CheckFinite,
    "clip": lambda envs: wrappers.ClipReward(envs, -1, 1),
}


@on_every_engine
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_around_a_closed_pool_is_a_closed_error(engine: str, name: str) -> None:
    envs = make(engine, env, 2)
    envs.close()
    says = "cannot be put around a closed vector env & make a new one"
    refused(lambda: WRAPPERS[name](envs), ClosedError, gymnasium.error.ClosedEnvironmentError, RuntimeError, says=says)


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_pool_that_was_closed_under_its_wrapper_says_so_and_closes_again(name: str) -> None:
    envs = WRAPPERS[name](make("sync", env, 2))
    envs.reset(seed=1)
    envs.env.close()
    refused(lambda: envs.step([0, 1]), ClosedError, RuntimeError, says="clos")
    refused(envs.reset, ClosedError, RuntimeError, says="clos")
    envs.close()
    envs.close()


@pytest.mark.parametrize("name", ["normalize", "reward"])
@pytest.mark.parametrize("between", [False, True])
def test_what_learns_twice_from_the_same_is_a_warning_that_names_it(name: str, between: bool) -> None:
    inner = WRAPPERS[name](make("sync", env, 2))
    inner = wrappers.ClipReward(inner, -1, 1) if between else inner
    with pytest.warns(UserWarning, match=r"Normalize\w+ is around another Normalize\w+.*leave one of them out"):
        WRAPPERS[name](inner).close()


def test_what_learns_nothing_may_be_there_twice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrappers.ClipReward(wrappers.ClipReward(make("sync", env, 2), -1, 1), -1, 1).close()
        wrappers.NormalizeReward(wrappers.NormalizeObservation(make("sync", env, 2))).close()


def test_the_error_for_anything_but_a_vector_env_says_what_is_needed() -> None:
    says = "NormalizeObservation wraps vector envs, got SampleEnv & vecenv.make"
    refused(lambda: wrappers.NormalizeObservation(env()), ConfigTypeError, TypeError, says=says)  # type: ignore[arg-type]


class Sick(SampleEnv):
    """Its third observation is NaN."""

    def __init__(self, index: int) -> None:
        super().__init__(BOX, spaces.Discrete(3), shortest=50)
        self.index, self.stepped = index, 0

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        self.stepped += 1
        return (np.full(3, np.nan) if self.index == 1 and self.stepped == 3 else obs), reward, *rest


@on_every_engine
def test_a_check_inside_a_normaliser_names_the_env_before_statistics_see_it(engine: str) -> None:
    fns = [lambda index=index: Sick(index) for index in range(3)]
    with wrappers.NormalizeObservation(wrappers.CheckFinite(make(engine, fns))) as envs:
        envs.reset(seed=3)
        for number in range(2):
            envs.step([number] * 3)
        before = copy.deepcopy(envs.state_dict())
        error = refused(lambda: envs.step([1] * 3), NotFiniteError, ValueError, says="obs of env 1 & nan & seed 4")
        assert isinstance(error, NotFiniteError)
        assert (error.row, error.seed, error.step) == (1, 4, 3)
        assert_same(envs.state_dict()["1.NormalizeObservation"], before["1.NormalizeObservation"])


WRONG_DEPTHS = {
    "zero": (0, ConfigError, ValueError, "stack_size must be an int >= 1, got 0"),
    "negative": (-1, ConfigError, ValueError, "stack_size must be an int >= 1, got -1"),
    "float": (2.0, ConfigTypeError, TypeError, "stack_size must be an int >= 1, got float"),
    "bool": (True, ConfigTypeError, TypeError, "stack_size must be an int >= 1, got bool"),
    "str": ("4", ConfigTypeError, TypeError, "stack_size must be an int >= 1, got str"),
    "None": (None, ConfigTypeError, TypeError, "stack_size must be an int >= 1, got NoneType"),
}


@pytest.mark.parametrize("wrong", WRONG_DEPTHS)
def test_frame_stacks_need_a_depth(wrong: str) -> None:
    depth, ours, builtin, says = WRONG_DEPTHS[wrong]
    with make("sync", env, 2) as envs, make("sync", env, 2) as twin:
        refused(lambda: wrappers.FrameStackObservation(envs, depth), ours, builtin, says=says)  # type: ignore[arg-type]
        assert_same(walk(envs), walk(twin))


@pytest.mark.parametrize("depth", [0, -1, 2.0, "4", None])
def test_frame_stacks_of_stable_baselines3s_face_too(depth: Any) -> None:
    from vecenv.sb3 import DummyVecEnv, VecFrameStack

    venv = DummyVecEnv([env])
    refused(lambda: VecFrameStack(venv, depth), ConfigError, ValueError, says="n_stack must be an int >= 1, got")
    venv.close()


@pytest.mark.parametrize(("delay", "builtin"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_delays_too(delay: Any, builtin: type[Exception]) -> None:
    with make("sync", env, 2) as envs:
        refused(lambda: wrappers.DelayObservation(envs, delay), ConfigError, builtin, says="delay must .* got")


# --- states of wrappers ----------------------------------------------------------------------------------------------


def stacked() -> Any:
    envs = make("sync", env, 2)
    return wrappers.FrameStackObservation(wrappers.NormalizeReward(wrappers.NormalizeObservation(envs)), 2)


def changed(state: Any, wrapper: str, name: str, value: Any) -> Any:
    state = copy.deepcopy(state)
    part = state[wrapper]
    if wrapper.endswith("NormalizeObservation"):
        part = part[""]
    part[name] = value
    return state


OBS, REWARD, STACK = "0.NormalizeObservation", "1.NormalizeReward", "2.FrameStackObservation"
WRONG_STATES = {
    "mean of another shape": (OBS, "mean", np.zeros(4), "observations & shape \\(3,\\), got .*\\(4,\\)"),
    "another shape": (REWARD, "returns", np.zeros((2, 4)), r"^(?!.*2 envs).*returns has shape \(2, 4\), .*need \(2,\)"),
    "another number of envs": (REWARD, "returns", np.zeros(5), "of 5 envs, these are 2"),
    "frames of another shape": (STACK, "0", np.zeros((2, 2, 4)), "other observations"),
    "frames of another type": (STACK, "0", np.zeros((2, 2, 3), np.int8), "other observations"),
    "NaN": (OBS, "mean", np.array([0, np.nan, 0]), "observations & finite & NaN"),
    "infinity": (OBS, "var", np.array([1, np.inf, 1]), "observations & finite"),
    "negative variance": (OBS, "var", np.array([1, -1.0, 1]), "observations & variance & at least 0"),
    "negative count": (OBS, "count", -1.0, "count of at least 0 & -1"),
    "NaN count": (REWARD, "count", np.nan, "finite"),
    "NaN return": (REWARD, "returns", np.array([0, np.nan]), "returns must be finite"),
    "text": (OBS, "count", "many", "damaged & many"),
    "objects": (REWARD, "returns", np.array([{}, {}]), "numbers, got object"),
    "None": (STACK, "0", None, "other observations"),
}


@pytest.mark.parametrize("wrong", WRONG_STATES)
def test_wrong_states_are_refused_and_no_wrapper_has_changed(wrong: str) -> None:
    wrapper, name, value, says = WRONG_STATES[wrong]
    with stacked() as envs:
        walk(envs)
        with stacked() as other:
            walk(other, 5)
            state = changed(other.state_dict(), wrapper, name, value)
        before = envs.state_dict()
        refused(lambda: envs.load_state_dict(state), SpaceError, ValueError, says=f"{wrapper} & {says}")
        assert_same(envs.state_dict(), before)


@pytest.mark.parametrize("state", [None, [], {}, {"0.NormalizeObservation": {}}, 3])
def test_states_of_other_wrappers_are_refused(state: Any) -> None:
    with stacked() as envs:
        walk(envs)
        before = envs.state_dict()
        refused(lambda: envs.load_state_dict(state), ConfigTypeError, TypeError, says="wrappers & these are")
        assert_same(envs.state_dict(), before)


def test_a_state_with_missing_parts_is_refused() -> None:
    with stacked() as envs:
        walk(envs)
        before = envs.state_dict()
        state = {**copy.deepcopy(before), REWARD: {}}
        refused(lambda: envs.load_state_dict(state), SpaceError, says="damaged & KeyError")
        assert_same(envs.state_dict(), before)
