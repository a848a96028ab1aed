"""A worker process that dies: noticed at once, explained, and started again by the next reset."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.faults.faulty import (
    actions,
    assert_rows,
    fails,
    faulty,
    mask,
    until,
    walk,
    with_every_start_method,
    within,
)
from tests.sampling import slow
from vecenv.engines.process import handle
from vecenv.errors import WorkerDied
from vecenv.recording._forked import run_forked


def test_rows_of_the_dead_worker_alone_can_be_reset() -> None:
    with faulty("process", "kill", at=3) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        fails(envs, 3, WorkerDied)
        assert_rows(envs.recv().obs, 3, [2, 3])
        obs, _ = envs.reset(seed=7, options=mask(0, 1))
        assert_rows(obs, [0, 0, 3, 3])
        obs, *_ = envs.step(np.array([10, 11, 42, 43]))
        assert_rows(obs, [1, 1, 4, 4])


@with_every_start_method
def test_death_of_an_idle_worker_is_noticed_by_the_next_step(context: str) -> None:
    with faulty("process", context=context) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 2)
        os.kill(envs.call("worker_pid")[0], signal.SIGKILL)
        with within(2.0):
            error = fails(envs, 3, WorkerDied)
        assert (error.rows, error.signal) == ((0, 1), "SIGKILL")
        assert_rows(envs.recv().obs, 3, [2, 3])
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="there are no real-time signals here")
@pytest.mark.parametrize(("past", "name"), [(0, "SIGRTMIN"), (3, "SIGRTMIN+3")])
def test_a_death_by_a_real_time_signal_names_it(past: int, name: str) -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        os.kill(envs.call("worker_pid")[0], signal.SIGRTMIN + past)
        error = fails(envs, 1, WorkerDied)
        assert (error.signal, error.exitcode) == (name, -signal.SIGRTMIN - past)
        assert f"died by {name}" in str(error)


@pytest.fixture
def no_exit_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system forgets how children ended. Who waits for the stack of one that is gone waits for ever."""
    monkeypatch.setattr(handle, "_STACK_SECONDS", 1000.0)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("no_exit_codes")
@pytest.mark.parametrize("context", ["fork", *slow("spawn")])
def test_where_sigchld_is_ignored_a_death_is_no_exit_and_nothing_waits_for_the_dead(context: str) -> None:
    with faulty("process", context=context, close_timeout=1000.0) as envs:
        envs.reset(seed=40)
        pid = envs.call("worker_pid")[0]
        os.kill(pid, signal.SIGKILL)
        error = fails(envs, 1, WorkerDied)
        assert (error.rows, error.exitcode, error.signal) == ((0, 1), None, None)
        assert f"(pid {pid}) died with an unknown exit code" in str(error)
        assert "SIGCHLD is ignored here" in str(error)
        assert_rows(envs.recv().obs, 1, [2, 3])
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)


@pytest.mark.usefixtures("no_exit_codes")
def test_where_sigchld_is_ignored_a_copy_of_the_process_ends_as_it_does() -> None:
    assert run_forked(lambda: None, 30.0).kind == "returned"
    ending = run_forked(lambda: os.kill(os.getpid(), signal.SIGKILL), 30.0)
    assert (ending.kind, ending.exitcode, ending.signal) == ("died", None, None)


def test_a_reset_starts_an_idle_dead_worker_with_the_seeds_it_was_given() -> None:
    with faulty("process") as envs:
        first, _ = envs.reset(seed=40)
        walk(envs, 1, 1)
        os.kill(envs.call("worker_pid")[3], signal.SIGKILL)
        fails(envs, 2, WorkerDied)
        second, _ = envs.reset(seed=40)
        np.testing.assert_array_equal(first[:, [0, 2, 3, 4]], second[:, [0, 2, 3, 4]])


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([3, 4], "out-of-memory killer has struck"),
        ([3, 3], "the kernel's out-of-memory killer did not kill it"),
        ([None, None], "was it the out-of-memory killer?"),
    ],
)
def test_the_out_of_memory_killer_is_suspected_if_it_was_at_work(
    counts: list[int | None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = counts[:1]
    monkeypatch.setattr("vecenv.engines.process.handle.out_of_memory_kills", lambda: count[0])
    with faulty("process", "kill") as envs:
        envs.reset(seed=40)
        count[0] = counts[1]
        assert says in str(fails(envs, 1, WorkerDied))


def test_every_worker_may_die() -> None:
    with faulty("process") as envs:
        envs.reset(seed=40)
        for pid in set(envs.call("worker_pid")):
            os.kill(pid, signal.SIGKILL)
        first = fails(envs, 1, WorkerDied)
        with pytest.raises(WorkerDied) as caught:
            envs.recv()
        assert {first.rows, caught.value.rows} == {(0, 1), (2, 3)}
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 3)


def test_a_worker_that_dies_while_one_env_is_waited_for_is_noticed() -> None:
    with faulty("process", "kill", at=2, batch_size=1) as envs:
        envs.reset(seed=40)
        walk(envs, 1, 1)
        envs.send(actions(2))
        received: list[int] = []
        deaths: list[WorkerDied] = []
        while not {2, 3} <= set(received) or not deaths:
            try:
                received += envs.recv().env_ids.tolist()
            except WorkerDied as error:
                deaths.append(error)
        assert [death.rows for death in deaths] == [(0, 1)]
        assert 1 not in received
        assert_rows(envs.reset(seed=40)[0], 0)


def test_close_after_a_death_is_quick_and_leaves_no_process() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with faulty("process", "kill") as envs:
        envs.reset(seed=40)
        fails(envs, 1, WorkerDied)
        with within(1.0):
            envs.close()
    assert until(lambda: {child.pid for child in psutil.Process().children(recursive=True)} <= before)


def test_a_worker_that_cannot_be_started_again_says_so_at_every_reset(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.touch()
    with faulty("process", "raise", where="make", fuse=str(fuse)) as envs:
        envs.reset(seed=40)
        os.kill(envs.call("worker_pid")[0], signal.SIGKILL)
        fails(envs, 1, WorkerDied)
        for _ in range(2):
            fuse.unlink()
            with pytest.raises(ValueError, match="boom in env 1"):
                envs.reset(seed=40)
        assert_rows(envs.reset(seed=40)[0], 0)
        walk(envs, 1, 2)
