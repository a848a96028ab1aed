"""A vector env over actors is used as any other: observations, infos, calls, attributes and wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import vecenv
from vecenv.errors import EnvError
from vecenv.wrappers import NormalizeObservation

pytestmark = pytest.mark.usefixtures("cluster")
COUNT = 5


class TalkerEnv(gymnasium.Env[Any, Any]):
    """Nested observations, and infos of every kind: now and then, of some envs only, of changing shape."""

    def __init__(self, index: int) -> None:
        self.observation_space = Dict(
            {
                "image": Box(0, 255, (2, 3), np.uint8),
                "body": Dict({"speed": Box(-10, 10, (), np.float32), "gear": Discrete(5)}),
            }
        )
        self.action_space = Dict({"turn": Box(-1, 1, (2,), np.float32), "jump": Discrete(2)})
        self.index, self.steps, self.bonus = index, 0, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {"options": options, "born": True}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        info: dict[str, Any] = {"steps": self.steps, "text": f"env {self.index}", "vector": np.arange(3) * self.steps}
        if self.index == 3:
            info |= {"rare": {"deep": self.steps / 2}, "list": [self.steps] * self.steps}
        ended = self.steps >= 3 + self.index
        reward = float(action["turn"].sum()) + action["jump"] + self.bonus
        return self._seen(), reward, ended and self.index % 2 == 0, ended and self.index % 2 == 1, info

    def plus(self, value: int, *, times: int = 1) -> int:
        if value < 0:
            raise ValueError(f"{value} is too little for env {self.index}")
        return self.index + times * value

    def _seen(self) -> Any:
        draw = self.np_random.integers(0, 256, (2, 3)).astype(np.uint8)
        return {"image": draw, "body": {"speed": np.float32(self.steps), "gear": self.index % 5}}


def talkers(engine: Any, **options: Any) -> vecenv.VectorEnv:
    factories = [partial(TalkerEnv, index) for index in range(COUNT)]
    return vecenv.make(factories, engine=engine, autoreset="same-step", **options)


@pytest.fixture(scope="module")
def envs(cluster: None) -> Iterator[vecenv.VectorEnv]:
    """The same two actors for all tests of this file that do not harm them."""
    with talkers("ray", workers=2, num_cpus=0.5) as envs:
        yield envs


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal values, shapes and dtypes, all the way down."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype == object:
            assert_same(ours.tolist(), theirs.tolist())
        else:
            np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


def test_nested_observations_actions_and_infos_are_those_of_the_sync_engine(envs: vecenv.VectorEnv) -> None:
    with talkers("sync") as reference:
        assert envs.single_observation_space == reference.single_observation_space
        reference.action_space.seed(1)
        options = {"level": 2}
        assert_same(envs.reset(seed=5, options=options), reference.reset(seed=5, options=options))
        ended = 0
        for _ in range(12):
            actions = reference.action_space.sample()
            expected = reference.step(actions)
            assert_same(envs.step(actions), expected)
            ended += np.count_nonzero(expected[2] | expected[3])
            assert "rare" in expected[4] or "rare" in expected[4].get("final_info", {})
        assert ended > 6


def test_calls_and_attributes_reach_every_env_in_order(envs: vecenv.VectorEnv) -> None:
    envs.reset(seed=5)
    assert envs.call("plus", 10, times=2) == tuple(20 + index for index in range(COUNT))
    assert envs.get_attr("index") == tuple(range(COUNT))
    envs.set_attr("bonus", [100.0 * index for index in range(COUNT)])
    assert envs.get_attr("bonus") == (0.0, 100.0, 200.0, 300.0, 400.0)
    still = {"turn": np.zeros((COUNT, 2), np.float32), "jump": np.zeros(COUNT, np.int64)}
    assert envs.step(still)[1].tolist() == [0.0, 100.0, 200.0, 300.0, 400.0]
    envs.set_attr("bonus", 0.0)
    assert envs.step(still)[1].tolist() == [0.0] * COUNT
    with pytest.raises(ValueError, match="-1 is too little for env 0") as caught:
        envs.call("plus", -1)
    assert isinstance(caught.value, EnvError)
    assert caught.value.row == 0
    with pytest.raises(AttributeError, match="no_such_thing"):
        envs.get_attr("no_such_thing")
    assert envs.call("plus", 1) == (1, 2, 3, 4, 5)


def test_a_wrapper_around_actors_gives_the_same_bits_as_around_the_sync_engine() -> None:
    with (
        NormalizeObservation(vecenv.make("CartPole-v1", 6, engine="ray", workers=2, num_cpus=0.5)) as envs,
        NormalizeObservation(vecenv.make("CartPole-v1", 6, engine="sync")) as reference,
    ):
        reference.action_space.seed(2)
        assert_same(envs.reset(seed=9), reference.reset(seed=9))
        for _ in range(40):
            actions = reference.action_space.sample()
            assert_same(envs.step(actions)[:4], reference.step(actions)[:4])
