"""Decorators implement the seam around an engine; the front steps them and knows none of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import vecenv
from vecenv._batch.batch import Rows
from vecenv._front.vector_env import VectorEnv
from vecenv.engines.decorator import Decorator, undecorated
from vecenv.errors import ConfigError, UnsupportedError

ZEROS = np.zeros(3, np.int64)


class Count(Decorator):
    """Counts what the front asks of an engine."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self.sent, self.exchanged = 0, 0

    def send(self, rows: Rows) -> None:
        self.sent += len(rows)
        super().send(rows)

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        self.exchanged += 1
        return super().exchange_all(alive, over, rotate)

    def redecorator(self) -> type[Count]:
        return Count


def counted(engine: str) -> tuple[Count, VectorEnv]:
    count = Count(Count(vecenv.make("CartPole-v1", 3, engine=engine).engine))
    return count, VectorEnv(count)


@pytest.mark.parametrize("engine", ["sync", "compiled"])
def test_the_front_steps_the_decorated_engine_and_shows_the_one_inside(engine: str) -> None:
    count, envs = counted(engine)
    assert envs.engine is undecorated(count)
    assert not isinstance(envs.engine, Decorator)
    envs.reset(seed=1)
    envs.step(ZEROS)
    envs.step(ZEROS[:2], [0, 2])
    assert (count.sent, count.exchanged) == (5, 1)
    assert count.inner.sent == count.sent


def test_abilities_are_those_of_the_engine_inside() -> None:
    _, python = counted("sync")
    with pytest.raises(UnsupportedError, match=r"rollout\(\) needs engine='compiled', 'device' or 'mujoco'"):
        python.rollout(np.zeros((2, 3), np.int64))
    assert not hasattr(python, "state")
    with pytest.raises(ConfigError, match="nothing is recorded"):
        python.recording(0)
    _, kernels = counted("compiled")
    kernels.reset(seed=1)
    assert kernels.rollout(np.zeros((2, 3), np.int64)).reward.shape == (2, 3)
    assert kernels.state.x.shape == (3,)


def test_a_copy_is_decorated_in_the_same_way() -> None:
    count, envs = counted("compiled")
    envs.reset(seed=1)
    other = copy.deepcopy(envs)
    np.testing.assert_array_equal(other.step(ZEROS)[0], envs.step(ZEROS)[0])
    again = other._decorated
    assert isinstance(again, Count)
    assert isinstance(again.inner, Count)
    assert (count.exchanged, again.exchanged, again.inner.exchanged) == (1, 1, 1)


def test_warnings_come_last_and_once() -> None:
    count, envs = counted("compiled")
    envs.reset(seed=1)
    count.warnings.append("look out")
    with pytest.warns(RuntimeWarning, match="look out") as caught:
        envs.step(ZEROS)
    assert caught[0].filename == __file__
    envs.step(ZEROS)
