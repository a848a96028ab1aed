"""Every kind of space, as observation and as action, gives what Gymnasium's SyncVectorEnv gives."""

from __future__ import annotations

import copy
import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from gymnasium.wrappers import RescaleAction, TransformReward

import vecenv
from tests.twins import PLAIN, SPACES, SampleEnv, assert_same, make, mostly_on_sync, on_every_engine

COUNT, STEPS = 4, 60
in_both_modes = pytest.mark.parametrize(
    "mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name
)
with_every_space = pytest.mark.parametrize("kind", SPACES)


def observing(kind: str) -> functools.partial[SampleEnv]:
    return functools.partial(SampleEnv, SPACES[kind], PLAIN)


def acting(kind: str) -> functools.partial[SampleEnv]:
    return functools.partial(SampleEnv, PLAIN, SPACES[kind])


def compare(envs: Any, oracle: Any, steps: int = STEPS) -> None:
    """Drive both with the same seeds and actions; compare everything that comes back."""
    with envs, contextless(oracle):
        assert envs.observation_space == oracle.observation_space
        assert envs.action_space == oracle.action_space
        oracle.action_space.seed(7)
        assert_same(envs.reset(seed=11), oracle.reset(seed=11), "reset")
        for step in range(steps):
            actions = oracle.action_space.sample()
            assert_same(envs.step(copy.deepcopy(actions)), oracle.step(actions), f"step {step}")


class contextless:
    """Close the oracle too."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __enter__(self) -> Any:
        return self.env

    def __exit__(self, *exception: object) -> None:
        self.env.close()


@mostly_on_sync
@in_both_modes
@with_every_space
def test_every_observation_space_gives_what_gymnasium_gives(engine, mode, kind):
    compare(
        make(engine, observing(kind), COUNT, autoreset=mode),
        SyncVectorEnv([observing(kind)] * COUNT, autoreset_mode=mode),
    )


@mostly_on_sync
@in_both_modes
@with_every_space
def test_every_action_space_gives_what_gymnasium_gives(engine, mode, kind):
    compare(
        make(engine, acting(kind), COUNT, autoreset=mode), SyncVectorEnv([acting(kind)] * COUNT, autoreset_mode=mode)
    )


@mostly_on_sync
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["tuple", "tuple-of-texts", "dict", "custom", "box-empty"])
def test_number_of_envs_does_not_change_how_actions_are_read(engine, count, kind):
    compare(make(engine, acting(kind), count), SyncVectorEnv([acting(kind)] * count), steps=15)


@with_every_space
def test_a_list_of_single_actions_means_the_same_as_the_batched_action(kind):
    batched, listed = make("sync", acting(kind)), make("sync", acting(kind))
    with batched, listed:
        batched.reset(seed=3)
        listed.reset(seed=3)
        for _ in range(10):
            actions = batched.action_space.sample()
            one_by_one = [copy.deepcopy(action) for action in iterate(batched.action_space, actions)]
            assert_same(listed.step(one_by_one), batched.step(actions))


@mostly_on_sync
@in_both_modes
@with_every_space
def test_observations_handed_out_never_change_afterwards(engine, mode, kind):
    with make(engine, observing(kind), COUNT, autoreset=mode) as envs:
        handed_out = [envs.reset(seed=1)]
        remembered = copy.deepcopy(handed_out)
        for _ in range(20):
            handed_out.append(envs.step([0] * COUNT))
            remembered.append(copy.deepcopy(handed_out[-1]))
        assert_same(handed_out, remembered)


@mostly_on_sync
@in_both_modes
@with_every_space
def test_next_obs_is_what_the_env_itself_returned_from_step(engine, mode, kind):
    lone = [observing(kind)() for _ in range(COUNT)]
    for row, env in enumerate(lone):
        env.reset(seed=5 + row)
    over = [False] * COUNT
    with make(engine, observing(kind), COUNT, autoreset=mode) as envs:
        envs.reset(seed=5)
        for _ in range(25):
            envs.send(np.zeros(COUNT, np.int64))
            step = envs.recv()
            successors, finals = [], {}
            for row, env in enumerate(lone):
                if mode is AutoresetMode.NEXT_STEP and over[row]:
                    successors.append(env.reset()[0])
                    over[row] = False
                    continue
                obs, _, terminated, truncated, _ = env.step(np.int64(0))
                over[row] = terminated or truncated
                successors.append(copy.deepcopy(obs))
                if mode is AutoresetMode.SAME_STEP and over[row]:
                    finals[row] = successors[row]
                    env.reset()
            assert np.flatnonzero(step.rolled).tolist() == list(finals)
            assert_same(step.next_obs, batch(envs, successors))
            assert (step.final_obs is None) == (not finals)
            if finals:
                rows = [*iterate(envs.observation_space, step.final_obs)]
                expected = [*iterate(envs.observation_space, batch(envs, successors))]
                assert_same([rows[row] for row in finals], [expected[row] for row in finals])


def batch(envs: Any, values: list[Any]) -> Any:
    space = envs.single_observation_space
    return concatenate(space, values, create_empty_array(space, len(values)))


class ReusingEnv(SampleEnv):
    """Writes every observation into the same object, as fast envs do."""

    def __init__(self, kind: str) -> None:
        space = {
            "array": spaces.Box(0, 1e6, (2,), np.float64),
            "dict": spaces.Dict({"x": spaces.Box(0, 1e6, (2,), np.float64)}),
        }
        super().__init__(space.get(kind) or SPACES["custom"], PLAIN, shortest=3)
        self.array = np.zeros(2)
        self.buffer: Any = {"array": self.array, "dict": {"x": self.array}, "list": ["a"]}[kind]
        self.count = 0

    def _next(self) -> Any:
        self.count += 1
        self.array[:] = self.count
        if isinstance(self.buffer, list):
            self.buffer[:] = "abcd"[: 1 + self.count % 4]
        return self.buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._next(), super().reset(seed=seed)[1]

    def step(self, action: Any) -> Any:
        return (self._next(), *super().step(action)[1:])


@on_every_engine
@pytest.mark.parametrize("kind", ["array", "dict", "list"])
def test_final_obs_survives_the_reset_of_an_env_that_reuses_its_buffer(engine, kind):
    lone = ReusingEnv(kind)
    lone.reset(seed=0)
    with make(engine, functools.partial(ReusingEnv, kind), 2, autoreset="same-step") as envs:
        envs.reset(seed=0)
        for _ in range(12):
            infos = envs.step([0, 0])[4]
            obs, _, terminated, truncated, _ = lone.step(np.int64(0))
            if terminated or truncated:
                final = copy.deepcopy(obs)
                lone.reset()
                assert_same(infos["final_obs"][0], final)


# --- observation_mode ------------------------------------------------------------------------------------------------


def bounded(high: float, **kwargs: Any) -> functools.partial[SampleEnv]:
    return functools.partial(SampleEnv, spaces.Box(0.0, high, (2,), np.float64), PLAIN, **kwargs)


@on_every_engine
@in_both_modes
def test_observation_mode_different_batches_envs_with_other_bounds(engine, mode):
    fns = [bounded(1.0), bounded(2.0), bounded(5.0)]
    envs = make(engine, fns, observation_mode="different", autoreset=mode)
    oracle = SyncVectorEnv(fns, observation_mode="different", autoreset_mode=mode)
    assert envs.observation_space == batch_differing_spaces([fn().observation_space for fn in fns])
    compare(envs, oracle)


@on_every_engine
@in_both_modes
def test_observation_mode_pair_sets_both_spaces(engine, mode):
    single = spaces.Box(-10.0, 10.0, (2,), np.float64)
    pair = (batch_space(single, 3), single)
    fns = [bounded(1.0), bounded(2.0), bounded(5.0)]
    envs = make(engine, fns, observation_mode=pair, autoreset=mode)
    assert envs.single_observation_space is single
    compare(envs, SyncVectorEnv(fns, observation_mode=pair, autoreset_mode=mode))


@on_every_engine
@pytest.mark.parametrize("observation_mode", ["same", "different"])
def test_observation_modes_agree_when_spaces_are_equal(engine, observation_mode):
    fns = [bounded(1.0)] * 3
    compare(make(engine, fns, observation_mode=observation_mode), SyncVectorEnv(fns, observation_mode=observation_mode))


# --- envs that differ ------------------------------------------------------------------------------------------------


@on_every_engine
@in_both_modes
def test_env_functions_may_differ_in_parameters(engine, mode):
    fns = [bounded(1.0, shortest=shortest) for shortest in (1, 2, 9, 4)]
    compare(make(engine, fns, autoreset=mode), SyncVectorEnv(fns, autoreset_mode=mode))


@on_every_engine
def test_env_kwargs_may_differ_per_env(engine):
    every = [{"shortest": shortest} for shortest in (1, 2, 9)]
    fns = [bounded(1.0, **kwargs) for kwargs in every]
    compare(make(engine, bounded(1.0), 3, env_kwargs=every), SyncVectorEnv(fns))


@on_every_engine
@in_both_modes
def test_a_wrapper_on_some_envs_wraps_only_those(engine, mode):
    doubled = lambda: TransformReward(bounded(1.0)(), lambda reward: 2 * reward)  # noqa: E731
    fns = [bounded(1.0), doubled, bounded(1.0), doubled]
    compare(make(engine, fns, autoreset=mode), SyncVectorEnv(fns, autoreset_mode=mode))


@on_every_engine
def test_an_unregistered_env_beside_a_registered_one(engine):
    class LocalCartPole(CartPoleEnv):
        """Not in any registry, not importable, ends earlier."""

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            return obs, reward, terminated or abs(obs[0]) > 0.2, truncated, info

    fns = [lambda: gymnasium.make("CartPole-v1"), LocalCartPole, lambda: gymnasium.make("CartPole-v1")]
    compare(make(engine, fns), SyncVectorEnv(fns))


@on_every_engine
def test_wrappers_argument_wraps_every_env_in_order(engine):
    outer = functools.partial(RescaleAction, min_action=np.float32(-5.0), max_action=np.float32(5.0))
    inner = functools.partial(TransformReward, func=lambda reward: reward - 1)
    fns = [lambda: inner(outer(gymnasium.make("Pendulum-v1")))] * 3
    compare(make(engine, "Pendulum-v1", 3, wrappers=[outer, inner]), SyncVectorEnv(fns))


@pytest.mark.parametrize("engine", ["sync", "process"])
@pytest.mark.parametrize("empty", [gymnasium.spaces.Dict(), gymnasium.spaces.Tuple(())])
def test_a_space_with_nothing_in_it_is_a_space_too(engine, empty):
    class Nothing(gymnasium.Env):
        observation_space = action_space = empty

        def reset(self, *, seed=None, options=None):
            return type(empty.sample())(), {}

        def step(self, action):
            assert action == empty.sample()
            return action, 1.0, False, False, {}

    options = {"workers": 1, "context": "fork"} if engine == "process" else {}
    with vecenv.make(Nothing, 2, engine=engine, **options) as envs:
        assert envs.reset()[0] == empty.sample()
        obs, reward, *_ = envs.step(envs.action_space.sample())
        assert obs == empty.sample()
        assert reward.tolist() == [1.0, 1.0]
