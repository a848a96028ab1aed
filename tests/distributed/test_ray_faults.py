"""Actors and envs that fail: the same rows, flags and seeds as in the process engine, and nobody hangs."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.faulty import (
    COUNT,
    LONG,
    InAnotherThread,
    actions,
    assert_rows,
    fails,
    faulty,
    first_failure,
    mask,
    until,
    walk,
    within,
)
from tests.faults.test_restart import Run
from tests.sampling import slow
from vecenv.errors import ClosedError, EnvError, NotResetError, RestartLimit, SpaceError, WorkerDied, WorkerTimeout

pytestmark = pytest.mark.usefixtures("cluster", "no_pauses")
SOON = 40.0
"""Seconds that an actor may take to be placed and built again on a busy machine."""


def _told(run: Run) -> list[tuple[int, ...]]:
    """Of every fault but its text: the step, and what it says."""
    keys = ("env", "kind", "phase", "restarts")
    return [(step, *(report[key] for key in keys)) for step, rows in run.faults.items() for report in rows.values()]


@pytest.mark.parametrize("autoreset", ["same-step", *slow("next-step", "disabled")])
def test_rows_of_a_killed_actor_are_those_of_a_killed_process(autoreset: str, tmp_path: Path) -> None:
    with within(SOON):
        run = Run("ray", autoreset, "kill", at=2, fuse=str(tmp_path / "ray"))
    # Not by fork: a child of a process that is connected to Ray may hang when it frees an actor's handle.
    options = {"at": 2, "fuse": str(tmp_path / "process"), "context": "forkserver"}
    reference = Run("process", autoreset, "kill", **options)
    np.testing.assert_array_equal(run.of(0, 1, 2, 3), reference.of(0, 1, 2, 3))
    assert _told(run) == _told(reference)
    assert {row for _, row, *_ in _told(run)} == {0, 1}


def test_an_env_that_raises_is_built_again_inside_its_actor(tmp_path: Path) -> None:
    run = Run("ray", "same-step", "raise", env=3, at=2, fuse=str(tmp_path / "ray"))
    reference = Run("sync", "same-step", "raise", env=3, at=2, fuse=str(tmp_path / "sync"))
    np.testing.assert_array_equal(run.of(0, 1, 2, 3), reference.of(0, 1, 2, 3))
    assert run.faults == reference.faults


def test_an_actor_killed_within_a_step_is_explained_and_a_reset_recovers(tmp_path: Path) -> None:
    with faulty("ray", "kill", at=3, fuse=str(tmp_path / "fuse")) as envs:
        first, _ = envs.reset(seed=40)
        walk(envs, 1, 2)
        pid = envs.call("worker_pid")[1]
        with within(SOON):
            error = fails(envs, 3, WorkerDied)
        assert (error.row, error.rows, error.worker, error.phase, error.pid) == (0, (0, 1), 0, "step", pid)
        for part in ("actor 0", f"pid {pid}", "on node", "envs 0 to 1", "reset()"):
            assert part in str(error)
        assert pickle.loads(pickle.dumps(error)).rows == (0, 1)
        assert_rows(envs.recv().obs, 3, [2, 3])
        obs, _ = envs.reset(seed=40, options=mask(0, 1))
        assert_rows(obs, [0, 0, 3, 3])
        np.testing.assert_array_equal(obs[:2, 4], first[:2, 4])
        os.kill(envs.call("worker_pid")[3], signal.SIGKILL)  # an idle one is noticed by the next step
        error = fails(envs, 4, WorkerDied)
        assert error.rows == (2, 3)
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


@pytest.mark.parametrize("name", ["_give_up", "_pending.give_back"])
def test_a_death_that_an_interrupt_hides_is_not_forgotten(name: str, tmp_path: Path) -> None:
    with faulty("ray", "kill", at=1, fuse=str(tmp_path / "fuse")) as envs:
        envs.reset(seed=40)
        *owners, method = name.split(".")
        owner = functools.reduce(getattr, owners, envs.engine)
        with pytest.raises(KeyboardInterrupt), interrupted(owner, method):
            envs.step(np.array([11]), [1])
        with pytest.raises(WorkerDied):
            envs.recv()
        for row in (0, 1):  # the other died with it
            with pytest.raises(NotResetError, match=rf"envs \[{row}\] need a reset"):
                envs.step(np.array([10 + row]), [row])
        with within(SOON):
            obs, _ = envs.reset(seed=40, options=mask(0, 1))
        assert_rows(obs, 0)
        walk(envs, 1, 2)


def test_a_restart_that_an_interrupt_cuts_short_is_finished(tmp_path: Path) -> None:
    options = {"at": 1, "fuse": str(tmp_path / "fuse"), "on_error": "restart", "autoreset": "same-step"}
    with faulty("ray", "kill", **options) as envs:
        envs.reset(seed=40)
        with pytest.raises(KeyboardInterrupt), interrupted(envs.engine, "_resume", passing=2):
            envs.step(actions(1))
        with within(SOON):
            step = envs.recv()
        assert step.truncated.tolist() == step.infos["_fault"].tolist() == [True, True, False, False]
        obs = envs.step(actions(2))[0]
        assert obs[:, 2].tolist() == [1, 1, 2, 2]


def test_what_cannot_be_pickled_is_told_before_anything_is_sent() -> None:
    with faulty("ray") as envs:
        envs.reset(seed=40)
        with pytest.raises(SpaceError, match="cannot be sent to a worker"):
            envs.reset(options={"lock": threading.Lock()})
        walk(envs, 1, 2)


class _Interrupting(dict[Any, Any]):
    """Ctrl-C when a request has been sent, before that is noted."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("sent", [0, 1])
def test_a_request_that_an_interrupt_cuts_short_is_run_once(sent: int) -> None:
    with faulty("ray") as envs:
        envs.reset(seed=40)
        engine: Any = envs.engine
        with pytest.MonkeyPatch.context() as patch:
            if sent:
                patch.setattr(engine, "_sent", _Interrupting())
            else:
                patch.setattr(engine, "_send_rest", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.send(actions(1))
        assert_rows(envs.recv().obs, 1)
        walk(envs, 2, 3)


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def interrupted(owner: Any, name: str, passing: int = 0) -> Iterator[None]:
    """Ctrl-C before a method does its work, except for its first few calls."""
    method, calls = getattr(owner, name), []

    def interrupt(*args: Any) -> Any:
        calls.append(args)
        if len(calls) > passing:
            raise KeyboardInterrupt
        return method(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, interrupt)
        yield


def test_an_env_that_raises_is_named_by_its_index_among_all() -> None:
    with faulty("ray", "raise", env=3, at=1) as envs:
        envs.reset(seed=40)
        error = fails(envs, 1, EnvError)
        assert isinstance(error, ValueError)
        assert (error.row, error.rows, error.worker, error.seed, error.action) == (3, (3,), 1, 43, 13)
        assert "env 3 (worker 1, pid" in str(error)
        assert "boom in env 3" in error.remote_traceback
        assert envs.recv().env_ids.tolist() == [0, 1, 2]
        assert_rows(envs.reset(seed=40)[0], 0)


def test_an_actor_that_hangs_is_a_timeout_and_a_reset_kills_it(tmp_path: Path) -> None:
    with faulty("ray", "hang", at=1, timeout=1.0, fuse=str(tmp_path / "fuse")) as envs:
        envs.reset(seed=40)
        with within(SOON):
            error = fails(envs, 1, WorkerTimeout)
        assert (error.row, error.worker) == (0, 0)
        assert "actor 0" in str(error)
        with within(SOON):
            assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


def test_an_actor_that_hangs_is_restarted_if_so_wished(tmp_path: Path) -> None:
    options = {"timeout": 1.5, "on_error": "restart", "autoreset": "same-step", "fuse": str(tmp_path / "fuse")}
    with faulty("ray", "hang", at=1, **options) as envs:
        envs.reset(seed=40)
        with within(SOON):
            _, _, _, truncated, infos = envs.step(actions(1))
        assert truncated.tolist() == [True, True, False, False]
        assert infos["fault"]["kind"][0] == "WorkerTimeout"


@pytest.mark.timeout(300)  # Ray starts five actors, one after the other
def test_an_actor_that_dies_again_and_again_is_given_up() -> None:
    with faulty("ray", "kill", at=1, on_error="restart", autoreset="same-step") as envs:
        envs.reset(seed=40)
        error = first_failure(envs)
        assert isinstance(error, RestartLimit)
        assert error.rows == (0, 1)
        assert [type(cause) for cause in error.causes] == [WorkerDied] * 4
        assert_rows(envs.recv().obs[:, :4], 4, [2, 3])


def test_whoever_is_ready_first_comes_first() -> None:
    with faulty("ray", "hang", env=1, at=1, seconds=1.0, batch_size=2) as envs:
        envs.reset(seed=40)
        envs.send(actions(1))
        assert envs.recv().env_ids.tolist() == [2, 3]
        envs.send(actions(2)[2:], [2, 3])
        assert sorted([*envs.recv().env_ids, *envs.recv().env_ids]) == list(range(COUNT))


def test_a_thread_that_waits_for_actors_is_woken_by_close() -> None:
    with faulty("ray", "hang") as envs:
        envs.reset(seed=40)
        stepping = InAnotherThread(lambda: envs.step(actions(1)))
        assert until(lambda: stepping.is_in("wait"), LONG)
        with within(1.0), pytest.warns(RuntimeWarning, match="did not close within"):
            envs.close(timeout=0.3)
        stepping.end()
        assert isinstance(stepping.error, ClosedError), stepping.error
        assert envs.closed
