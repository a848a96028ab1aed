"""Calls and attributes of envs, when one of them fails."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

import vecenv
from tests.faults.faulty import assert_rows, fails, faulty, on_every_engine, walk, within
from vecenv.errors import EnvError, NotResetError, WorkerDied, WorkerTimeout
from vecenv.testing import FaultEnv


@on_every_engine
def test_a_call_that_raises_names_the_env_and_changes_nothing(engine: str) -> None:
    with faulty(engine, "raise", where="call") as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        with pytest.raises(ValueError, match=r"env 1.*in call: boom in env 1") as caught:
            envs.call("poke")
        error = caught.value
        assert isinstance(error, EnvError)
        assert (error.row, error.phase, error.seed) == (1, "call", 41)
        if engine == "process":
            assert error.worker == 0
            assert error.pid == envs.call("worker_pid")[1]
        walk(envs, 3, 4)
        assert envs.call("poke", 10) == (10, 11, 12, 13)


@on_every_engine
def test_a_missing_attribute_names_the_env(engine: str) -> None:
    with faulty(engine) as envs:
        envs.reset(seed=40)
        with pytest.raises(AttributeError, match="env 0"):
            envs.get_attr("no_such_thing")
        walk(envs, 1, 2)


@on_every_engine
def test_an_attribute_that_cannot_be_set_names_the_env(engine: str) -> None:
    with faulty(engine) as envs:
        envs.reset(seed=40)
        with pytest.raises(AttributeError, match="env 0"):
            envs.set_attr("unwrapped", 3)
        walk(envs, 1, 2)


def test_a_keyboard_interrupt_of_an_env_in_a_call_is_its_failure() -> None:
    with faulty("process", "keyboard-interrupt", where="call") as envs:
        envs.reset(seed=40)
        with pytest.raises(EnvError, match="KeyboardInterrupt") as caught:
            envs.call("poke")
        assert caught.value.row == 1
        walk(envs, 1, 2)


class LockedEnv(FaultEnv):
    def lock(self) -> Any:
        return threading.Lock()


def test_a_result_that_cannot_be_sent_names_the_env() -> None:
    with vecenv.make([LockedEnv], engine="process", workers=1, context="fork") as envs:
        envs.reset(seed=40)
        with pytest.raises(TypeError, match=r"env 0.*cannot be sent"):
            envs.call("lock")
        assert envs.call("poke", 1) == (1,)


def test_a_call_that_hangs_times_out_and_its_late_answer_is_dropped() -> None:
    with faulty("process", "hang", where="call", seconds=0.6, timeout=0.2) as envs:
        envs.reset(seed=40)
        with pytest.raises(WorkerTimeout) as caught:
            envs.call("poke", 5)
        assert (caught.value.row, caught.value.phase) == (1, "call")
        assert "_hang" in caught.value.stack
        envs.timeout = 5.0
        assert envs.call("poke", 7) == (7, 8, 9, 10)
        walk(envs, 1, 2)


def test_a_worker_stuck_in_a_call_can_be_recovered() -> None:
    with faulty("process", "hang", where="call", timeout=0.2) as envs:
        envs.reset(seed=40)
        with pytest.raises(WorkerTimeout):
            envs.call("poke")
        with pytest.raises(WorkerTimeout):
            envs.reset(seed=40)
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


def test_a_worker_that_dies_in_a_call_needs_a_reset() -> None:
    with faulty("process", "kill", where="call") as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        with within(2.0), pytest.raises(WorkerDied) as caught:
            envs.call("poke")
        assert (caught.value.row, caught.value.rows, caught.value.phase) == (1, (0, 1), "call")
        with pytest.raises(NotResetError, match=r"\[0, 1\]"):
            envs.step([0, 0, 0, 0])
        obs, *_ = envs.step([32, 33], env_ids=[2, 3])
        assert_rows(obs, 3, [2, 3])
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


def test_a_call_does_not_reach_envs_that_are_gone_until_they_are_reset() -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        os.kill(envs.call("worker_pid")[0], signal.SIGKILL)
        fails(envs, 1, WorkerDied)
        envs.recv()
        with pytest.raises(NotResetError, match="envs 0 to 1 are gone"):
            envs.call("poke", 1)
        with pytest.raises(NotResetError, match=r"\[0, 1\]"):
            envs.step([0, 0, 0, 0])
        assert_rows(envs.reset(seed=40)[0], 0)
        assert envs.call("poke", 1) == (1, 2, 3, 4)


def test_set_attr_finds_a_dead_worker() -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        os.kill(envs.call("worker_pid")[0], signal.SIGKILL)
        with within(2.0), pytest.raises(WorkerDied):
            envs.set_attr("talks", "changed")
        assert_rows(envs.reset(seed=40)[0], 0)
        assert envs.get_attr("talks")[:2] == (False, False)  # its envs are new, and what failed is not tried again
