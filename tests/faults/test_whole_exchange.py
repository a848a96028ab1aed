"""A step of all envs in worker processes is one call of the engine: it does what `send` and `recv` do."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

import vecenv
from tests.faults.faulty import COUNT, actions, assert_rows, faulty, walk
from tests.faults.test_interrupts import interrupt_after, interrupted_at
from vecenv.errors import EnvError, NotResetError, PendingError, WorkerDied, WorkerTimeout


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))


@pytest.mark.parametrize("on_error", ["raise", "restart"])
@pytest.mark.parametrize("autoreset", ["next-step", "same-step"])
def test_a_step_of_all_envs_gives_what_send_and_recv_give(autoreset: Any, on_error: Any) -> None:
    options: dict[str, Any] = {"engine": "process", "workers": 2, "context": "fork"}
    options |= {"autoreset": autoreset, "on_error": on_error}
    with vecenv.make(cartpole, 3, **options) as one, vecenv.make(cartpole, 3, **options) as other:
        one.reset(seed=0)
        other.reset(seed=0)
        for turn in range(60):
            chosen = np.array([turn % 2, 1, turn // 2 % 2])
            *columns, infos = one.step(chosen)
            other.send(chosen)
            *others, other_infos = other.recv()
            for mine, theirs in zip(columns, others, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            assert data_equivalence(timeless(infos), timeless(other_infos))
            np.testing.assert_array_equal(one.episode_return, other.episode_return)
            np.testing.assert_array_equal(one.episode_length, other.episode_length)


def timeless(infos: dict[str, Any]) -> dict[str, Any]:
    """The infos without how long episodes took."""
    for found in (infos, infos.get("final_info", {})):
        for name in ("t", "_t"):
            found.get("episode", {}).pop(name, None)
    return infos


def test_ctrl_c_at_any_moment_of_a_step_leaves_it_undone_or_pending_or_its_envs_to_be_reset() -> None:
    left = {"undone": 0, "pending": 0, "lost": 0}
    with (
        vecenv.make(cartpole, 3, engine="process", workers=2, context="fork") as envs,
        vecenv.make(cartpole, 3, engine="sync") as twin,
    ):
        for moment in range(2000):
            envs.reset(seed=moment)
            twin.reset(seed=moment)
            wanted = twin.step([0, 1, 0])[0]
            try:
                interrupted_at(moment, envs.step, [0, 1, 0])
                break
            except KeyboardInterrupt:
                pass
            try:
                np.testing.assert_array_equal(envs.step([0, 1, 0])[0], wanted)
                left["undone"] += 1
            except PendingError:
                np.testing.assert_array_equal(envs.recv().obs, wanted)
                left["pending"] += 1
            except NotResetError:
                left["lost"] += 1
        assert left["undone"], left
        assert left["pending"], left  # how many moments come after it, if any, depends on how long the workers took
        assert moment < 1999


def test_a_worker_that_dies_in_a_step_of_all_envs_takes_its_own_rows_with_it() -> None:
    with faulty("process", "kill", at=2) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        with pytest.raises(WorkerDied) as caught:
            envs.step(actions(2))
        others = [row for row in range(COUNT) if row not in caught.value.rows]
        step = envs.recv()
        assert step.env_ids.tolist() == others
        assert_rows(step.obs, 2, others, episode=1)
        with pytest.raises(NotResetError):
            envs.step(actions(3))
        assert_rows(envs.reset()[0], 0, episode=[1, 1, 2, 2])  # env 0 and env 1 are new
        walk(envs, 1, 1)


def test_an_env_that_raises_in_a_step_of_all_envs_leaves_the_others_to_recv() -> None:
    with faulty("process", "raise", at=2) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        with pytest.raises(EnvError) as caught:
            envs.step(actions(2))
        others = [row for row in range(COUNT) if row not in caught.value.rows]
        with pytest.raises(PendingError):
            envs.step(actions(3))
        step = envs.recv()
        assert step.env_ids.tolist() == others
        assert_rows(step.obs, 2, others, episode=1)


class Slow(gymnasium.Env[Any, Any]):
    """A step takes 0.3 s."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        time.sleep(0.3)
        return 0, 0.0, False, False, {}


def test_a_time_limit_that_has_passed_is_not_that_of_a_later_step() -> None:
    with vecenv.make(Slow, 2, engine="process", workers=2, context="fork") as envs:
        envs.reset(seed=0)
        envs.send([0, 0])
        with pytest.raises(WorkerTimeout):
            envs.recv(timeout=0.01)
        envs.recv()
        pids = [process.pid for process in envs.engine.processes]
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.1):
            envs.step([0, 0])
        envs.reset()  # waits for the step and discards it; after 0.01 s it would kill the workers
        assert [process.pid for process in envs.engine.processes] == pids


def test_a_step_has_the_time_limit_that_is_set_after_the_envs_were_made() -> None:
    with vecenv.make(Slow, 2, engine="process", workers=2, context="fork") as envs:
        envs.reset(seed=0)
        envs.timeout = 0.01
        with pytest.raises(WorkerTimeout):
            envs.step([0, 0])
        assert envs.recv(timeout=60.0).env_ids.tolist() == [0, 1]
