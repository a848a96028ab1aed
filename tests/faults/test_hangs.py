"""An env that does not answer: named, with its stack; then waited for, or killed."""

from __future__ import annotations

import contextlib
import pickle
import signal
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.faults.faulty import actions, assert_rows, fails, faulty, until, walk, within
from tests.sampling import slow
from vecenv.errors import PendingError, WorkerDied, WorkerTimeout
from vecenv.testing import FaultEnv

HANGS = {"hang": "_hang", "hang-with-gil": "_hang_with_gil"}
on_every_hang = pytest.mark.parametrize("kind", HANGS)


@on_every_hang
def test_a_timeout_names_the_env_and_shows_where_it_hangs(kind: str) -> None:
    with faulty("process", kind, at=2, timeout=0.3, close_timeout=0.1) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        with within(1.5):
            error = fails(envs, 2, WorkerTimeout)
        assert isinstance(error, TimeoutError)
        assert (error.row, error.rows, error.worker, error.phase) == (1, (1,), 0, "step")
        assert (error.action, error.seed) == (21, 41)
        assert HANGS[kind] in error.stack
        for part in ("env 1", "worker 0", f"pid {error.pid}", "0.3 s", "step", HANGS[kind]):
            assert part in str(error)
        assert pickle.loads(pickle.dumps(error)).stack == error.stack


# A thread that hangs with the GIL is not among these: nothing else in the process runs, so nobody could notice.
@pytest.mark.parametrize(
    ("engine", "kind"), [("thread", "hang"), *(("process", kind) for kind in HANGS)], ids=lambda value: value
)
def test_recv_resumes_when_a_late_env_answers_after_all(engine: str, kind: str) -> None:
    with faulty(engine, kind, at=2, seconds=0.5, timeout=0.1) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        fails(envs, 2, WorkerTimeout)
        with pytest.raises(PendingError):
            envs.step(actions(3))
        step = envs.recv(timeout=5.0)
        assert_rows(step.obs, 2, episode=1)
        walk(envs, 3, 5)


class Resetting(FaultEnv):
    """An env that gives some signals, or all it can, their default back: most of them end a process."""

    def __init__(self, *arguments: Any, signals: tuple[int, ...] = (), **options: Any) -> None:
        self.signals = signals
        super().__init__(*arguments, **options)

    def step(self, action: np.int64) -> Any:
        for number in self.signals or signal.valid_signals():
            with contextlib.suppress(OSError, ValueError):  # not SIGKILL and SIGSTOP
                signal.signal(number, signal.SIG_DFL)
        return super().step(action)


@pytest.mark.parametrize("signals", [(signal.SIGUSR1, signal.SIGUSR2), ()], ids=["some", "all"])
def test_a_late_env_that_changed_its_signals_survives_the_question_where_it_is(
    signals: tuple[int, ...],
) -> None:
    fns = Resetting.many(2, kind="hang", seconds=0.5, length=10**6, signals=signals)
    with vecenv.make(fns, engine="process", workers=1, context="fork", timeout=0.1) as envs:
        envs.reset(seed=40)
        with pytest.raises(WorkerTimeout) as caught:
            envs.step([10, 11])
        assert ("_hang" in caught.value.stack) == bool(signals)
        assert_rows(envs.recv(timeout=10.0).obs, 1, [0, 1])


@on_every_hang
def test_reset_kills_what_hangs_and_recovers(kind: str) -> None:
    with faulty("process", kind, at=2, timeout=0.3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        fails(envs, 2, WorkerTimeout)
        with within(2.0):
            obs, _ = envs.reset(seed=40)
        assert_rows(obs, 0, episode=[1, 1, 2, 2])
        walk(envs, 1, 1)


def test_reset_is_as_patient_as_the_recv_that_gave_up() -> None:
    with faulty("process", "hang", at=2) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        envs.send(actions(2))
        with pytest.raises(WorkerTimeout):
            envs.recv(timeout=0.2)
        with within(2.0):
            assert_rows(envs.reset(seed=40)[0], 0)


def test_a_reset_that_hangs_is_of_phase_reset() -> None:
    with faulty("process", "hang", where="reset", timeout=0.2, close_timeout=0.1) as envs:
        with pytest.raises(WorkerTimeout) as caught:
            envs.reset(seed=40)
        assert (caught.value.row, caught.value.phase) == (1, "reset")


@pytest.mark.parametrize("context", ["fork", *slow("forkserver", "spawn")])
def test_a_constructor_that_hangs_ends_with_the_start_timeout(context: str) -> None:
    patience = 0.5 if context == "fork" else 10.0  # the others first import what the env needs
    with (
        within(patience + 3.0),
        pytest.raises(WorkerTimeout) as caught,
        faulty("process", "hang", where="make", start_timeout=patience, context=context),
    ):
        pass
    assert (caught.value.phase, caught.value.worker) == ("make", 0)
    assert "_hang" in caught.value.stack
    assert "start_timeout" in str(caught.value)


def test_close_does_not_wait_for_a_hung_step_longer_than_told() -> None:
    with faulty("process", "hang-with-gil", timeout=0.2) as envs:
        envs.reset(seed=40)
        fails(envs, 1, WorkerTimeout)
        with within(2.5):
            envs.close(timeout=0.2)


def test_a_hung_thread_is_named_and_close_leaves_it_behind() -> None:
    with faulty("thread", "hang", at=2, seconds=3.0, timeout=0.2) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        error = fails(envs, 2, WorkerTimeout)
        assert (error.row, error.worker, error.phase) == (1, 0, "step")
        assert "_hang" in error.stack
        with pytest.raises(WorkerTimeout), within(1.0):
            envs.reset()
        with within(1.0), pytest.warns(RuntimeWarning, match="env 1 .*left running"):
            envs.close(timeout=0.3)


def test_a_worker_killed_while_it_hangs_is_a_death_not_a_timeout() -> None:
    with faulty("process", "hang", at=2, timeout=30.0) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        envs.send(actions(2))
        assert until(lambda: int(envs.engine.clocks()[0][1].current[0]) == 1)  # type: ignore[attr-defined]
        envs.engine.kill(1)  # type: ignore[attr-defined]
        with within(2.0), pytest.raises(WorkerDied) as caught:
            envs.recv()
        assert caught.value.row == 1
        np.testing.assert_array_equal(envs.recv().env_ids, [2, 3])
