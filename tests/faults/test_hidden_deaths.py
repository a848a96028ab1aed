"""A worker dies, and Ctrl-C comes before anybody is told. What it held is not forgotten, and nobody waits for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import within
from vecenv.engines.process.reaper import REAPER
from vecenv.errors import NotFiniteError, NotResetError, WorkerDied
from vecenv.gymnasium import AsyncVectorEnv
from vecenv.testing import ObedientEnv
from vecenv.testing._obedient_env import SLOW

FORKED: Any = {"engine": "process", "workers": 2, "context": "fork"}


@pytest.fixture(autouse=True)
def slow_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a death is seen while a slow env is waited for, however busy the machine is."""
    monkeypatch.setattr("vecenv.testing._obedient_env.SLOW_SECONDS", 1.0)


def kill_worker_of(envs: Any, row: int) -> None:
    pid = envs.call("worker_pid")[row]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def interrupted(owner: Any, name: str, moment: str = "before") -> Iterator[None]:
    """Ctrl-C before or after a method does its work."""
    method = getattr(owner, name)

    def interrupt(*args: Any) -> None:
        if moment == "after":
            method(*args)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, interrupt)
        yield


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", ["step", "call"])
def test_its_idle_envs_need_a_reset(moment: str, call: str) -> None:
    """The next step ran envs that were built again in silence."""
    with vecenv.make(ObedientEnv.many(4), **FORKED) as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        with pytest.raises(KeyboardInterrupt), interrupted(envs.engine._pool, "_give_up", moment):  # type: ignore[attr-defined]  # of this engine
            # Env 2 is in another worker; the death is seen meanwhile.
            envs.step([SLOW], [2]) if call == "step" else envs.call("poke")
        if call == "step":
            envs.recv()
        with pytest.raises(NotResetError, match=r"envs \[0, 1\] need a reset"):
            envs.step([0] * 4)
        obs, _ = envs.reset(options={"reset_mask": np.arange(4) < 2})
        assert obs[:, 1].tolist() == [1] * 4
        assert envs.step([0] * 4)[0][:, 2].tolist() == [1, 1, 2 if call == "step" else 1, 1]


def test_nor_are_they_stepped_if_a_second_interrupt_comes_when_the_first_is_dealt_with() -> None:
    with vecenv.make(ObedientEnv.many(4), **FORKED) as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        engine: Any = envs.engine
        with (
            pytest.raises(KeyboardInterrupt),
            interrupted(engine, "gone"),
            interrupted(engine._pool, "_give_up", "after"),
        ):
            envs.step([SLOW], [2])
        envs.recv()
        with pytest.raises(NotResetError, match="env 0 is gone with its worker"):
            envs.step([0] * 4)
        assert envs.reset()[0][:, 1].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("call", ["step", "call"])
def test_a_restart_makes_up_for_it(call: str) -> None:
    with vecenv.make(ObedientEnv.many(4), **FORKED, on_error="restart") as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        with pytest.raises(KeyboardInterrupt), interrupted(envs.engine._pool, "_restart"):  # type: ignore[attr-defined]  # of this engine
            envs.step([SLOW], [2])
        envs.recv()
        if call == "call":
            assert envs.call("poke") == (0, 1, 2, 3)
        *_, truncated, infos = envs.step([0] * 4)
        assert truncated.tolist() == infos["_fault"].tolist() == [True, True, False, False]


def test_a_call_that_was_given_up_is_not_made_in_the_worker_that_is_started_next() -> None:
    with vecenv.make(ObedientEnv.many(4), **FORKED, on_error="restart") as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        with pytest.raises(KeyboardInterrupt), interrupted(envs.engine._pool, "_restart"):  # type: ignore[attr-defined]
            envs.set_attr("bonus", 5.0)
        assert envs.call("poke", 10) == (10, 11, 12, 13)
        assert envs.get_attr("bonus")[:2] == (0.0, 0.0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_that_nobody_will_answer_is_not_waited_for(moment: str) -> None:
    with AsyncVectorEnv(ObedientEnv.many(4), context="fork", workers=2) as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        envs.call_async("poke")
        with pytest.raises(KeyboardInterrupt), interrupted(envs.engine._pool, "_give_up", moment):  # type: ignore[attr-defined]  # of this engine
            envs.call_wait()
        with within(5.0), pytest.raises(WorkerDied):
            envs.call_wait()
        assert envs.reset()[0][:, 1].tolist() == [1, 1, 2, 2]


def test_what_is_left_of_it_does_not_keep_the_front_awake() -> None:
    with vecenv.make(ObedientEnv.many(4), **FORKED) as envs:
        envs.reset(seed=0)
        kill_worker_of(envs, 0)
        backend: Any = envs.engine._backend  # type: ignore[attr-defined]  # of this engine
        with pytest.raises(KeyboardInterrupt), interrupted(backend, "unwatch"):
            envs.step([SLOW], [2])
        envs.recv()
        assert backend._poll.poll(0) == []
        envs.reset(seed=1)
        assert backend._poll.poll(0) == []


class NotANumber(ObedientEnv):
    """Earns NaN with action 1."""

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if action == 1 else reward, *rest


@pytest.mark.parametrize("interrupt", [False, True])
def test_rows_that_were_held_back_go_with_their_worker(interrupt: bool) -> None:
    """A row of a dead worker was delivered, and later another row in the place of one that was asked for."""
    with vecenv.make([partial(NotANumber, row) for row in range(4)], **FORKED, check_finite="error") as envs:
        envs.reset(seed=0)
        with pytest.raises(NotFiniteError):
            envs.step([0, 0, 0, 1])
        assert envs.recv(1).env_ids.tolist() == [0]  # rows 1 and 2 are held back
        os.kill(envs.engine.processes[0].pid, signal.SIGKILL)  # type: ignore[attr-defined]  # of this engine
        envs.send([0], [0])
        if interrupt:
            with pytest.raises(KeyboardInterrupt), interrupted(envs.engine._pool, "_give_up", "after"):  # type: ignore[attr-defined]
                envs.recv(3)
        else:
            with pytest.raises(WorkerDied):
                envs.recv(3)
        assert envs.recv().env_ids.tolist() == [2]
        with pytest.raises(NotResetError, match=r"envs \[1\] need a reset"):
            envs.step([0], [1])
        assert envs.step([2], [2])[0][0].tolist()[::2] == [2, 2, 2]


def test_a_descriptor_that_somebody_closed_keeps_nothing_else_open() -> None:
    envs = vecenv.make(ObedientEnv.many(2), **FORKED)
    worker = envs.engine._workers[0]  # type: ignore[attr-defined]  # of this engine
    trace, liveness = worker._open
    os.close(liveness)
    envs.close()
    assert not worker._open
    assert not REAPER._watched
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(trace)


def test_a_stopped_worker_that_was_replaced_is_not_to_be_continued() -> None:
    with vecenv.make(ObedientEnv.many(4), **FORKED, on_error="restart", timeout=0.3) as envs:
        envs.reset(seed=0)
        pid = envs.call("worker_pid")[0]
        os.kill(pid, signal.SIGSTOP)
        *_, infos = envs.step([0] * 4)
        message = infos["fault"]["message"][0]
        assert "its process is stopped; last action 0" in message
        assert "kill -CONT" not in message
