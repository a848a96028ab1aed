"""Slow envs in actors: `engines.Ray(local=engines.Asyncio(...))`."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.aio.async_envs import AsyncLawEnv, Waiting
from tests.twins import assert_same
from vecenv.engines import Asyncio, Ray, Sync
from vecenv.errors import ConfigError, EnvTimeout
from vecenv.testing import LawEnv

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]  # test_concurrent_actor.py tries the actor itself


def actors(**options: Any) -> Ray:
    return Ray(workers=2, num_cpus=0.5, local=Asyncio(**options))


def test_every_env_answers_by_itself_with_the_bits_of_the_sync_engine() -> None:
    fns = [partial(Waiting, number, seconds) for number, seconds in enumerate([0.0, 5.0, 0.0, 0.0])]
    with vecenv.make(fns, engine=actors()) as envs:
        envs.reset(seed=0)
        envs.send([1, 1, 1, 1])
        assert sorted(envs.recv(3, until=3.0).env_ids.tolist()) == [0, 2, 3]
        envs.send([2], [0])
        assert envs.recv(1).obs.tolist() == [[0, 2, 1]]
        assert envs.recv().env_ids.tolist() == [1]

    def run(engine: Any, env: Any) -> Any:
        with vecenv.make([partial(env, row) for row in range(4)], engine=engine, autoreset="same-step") as envs:
            return [envs.reset(seed=3), *(envs.step([0, 1, 2, 0]) for _ in range(8)), envs.episode_return]

    assert_same(run(actors(concurrency=1), AsyncLawEnv), run("sync", LawEnv))


def test_deadlines_and_deaths_are_those_of_one_env_and_of_one_actor() -> None:
    with vecenv.make(
        [partial(Waiting, 0), partial(Waiting, 1, 0.0, {1: "hang"})], engine=actors(step_timeout=0.3)
    ) as envs:
        envs.reset(seed=0)
        with pytest.raises(EnvTimeout, match=r"not done with its step within 0.3 s") as late:
            envs.step([1, 1])
        assert (late.value.row, late.value.fault_class) == (1, "infrastructure")
        assert envs.recv().env_ids.tolist() == [0]
    with vecenv.make([partial(Pid, number) for number in range(4)], engine=actors(), on_error="restart") as envs:
        pids = envs.reset(seed=0)[0][:, 1].astype(int)
        envs.send([0, 0, 60, 0])
        os.kill(int(pids[0]), signal.SIGKILL)
        step = envs.recv(3, until=30.0)
        assert "_fault" in step.infos
        while len(step.env_ids) < 4 and envs._call_order.pending_count > 1:
            step = envs.recv(1)
        envs.send(np.zeros(2, int), [0, 1])
        assert sorted(envs.recv(2).env_ids.tolist()) == [0, 1]


class Pid(Waiting):
    def _obs(self) -> np.ndarray:
        return np.array([self.number, os.getpid(), self.generation], np.float64)

    async def step(self, action: Any) -> Any:
        self.seconds = 0.1 * int(action)
        return await super().step(action)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="local must be an object of"):
        Ray(local="asyncio")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name an engine twice"):
        Ray(local=Sync(), local_engine="thread")
    with pytest.raises(ConfigError, match="actors have no event loop of yours"):
        Ray(local=Asyncio(loop="running"))
