"""Regressions: what the model, the schedules and the failing operations have found in the process engine."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from tests.protocol.program import Program
from tests.protocol.simulated import ProcessBackend
from tests.protocol.test_kth_operation import Env, descriptors
from vecenv._batch.batch import Op
from vecenv.engines.process import handle
from vecenv.engines.process.engine import ProcessEngine
from vecenv.errors import WorkerError, WorkerTimeout

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


def test_a_long_message_to_a_worker_that_does_not_read_is_no_hang() -> None:
    engine = ProcessEngine([Env] * 2, workers=1, context="fork")
    rows = np.arange(2)
    try:
        (process,) = engine.processes
        os.kill(process.pid, signal.SIGSTOP)
        engine.batch.options.update({0: {"big": "x" * 3_000_000}})
        engine.batch.op[:] = Op.RESET
        started = time.monotonic()
        engine.send(rows)
        with pytest.raises(WorkerTimeout):
            engine.recv(2, 0.3)
        assert time.monotonic() - started < 20
        os.kill(process.pid, signal.SIGCONT)
        assert engine.recv(2, 20.0).tolist() == [0, 1]
        assert len(engine.batch.mail[0].info["options"]["big"]) == 3_000_000
    finally:
        engine.close()


@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_whose_messages_are_lost_is_buried_not_waited_for(count: int) -> None:
    engine = ProcessEngine([Env] * 2, workers=2, context="fork")
    try:
        engine._workers[0].channel.ended = True
        engine.batch.op[:] = Op.RESET
        engine.send(np.arange(2))
        with pytest.raises(WorkerError, match="could not be reached") as caught:
            receive(engine, count)
        assert caught.value.rows == (0,)
        assert 0 not in engine.pending()
    finally:
        engine.close()


def receive(engine: ProcessEngine, count: int) -> None:
    while len(engine.pending()):
        engine.recv(count, 20.0)


def test_a_process_that_cannot_be_started_is_a_clear_error_and_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = descriptors()
    monkeypatch.setattr(handle, "start", refuse)
    with pytest.raises(
        WorkerError, match=r"worker 0 could not be started: .*Resource temporarily unavailable"
    ) as caught:
        ProcessEngine([Env] * 2, workers=2, context="fork")
    assert (caught.value.rows, caught.value.phase) == ((0,), "make")
    del caught
    assert descriptors() == before


def test_what_a_given_up_worker_left_is_not_kept_as_delivered() -> None:
    backend = ProcessBackend(0)
    backend.calm = True
    program = Program(backend, rows=2, workers=2, restarts=True, ordered=False)
    program.good_step()
    pool, batch = program.engine._pool, program.engine.batch
    kept = pool._delivered[0].copy()
    program.send([0, 1])
    batch.obs[0][0] = -77  # half written when it died
    pool._give_up(program.engine._workers[0])
    np.testing.assert_array_equal(pool._delivered[0], kept)


def test_a_send_that_is_interrupted_twice_is_finished_by_recv() -> None:
    backend = ProcessBackend(1)
    backend.calm = True
    program = Program(backend, rows=2, workers=2, restarts=False, ordered=False)
    engine, rings = program.engine, []
    for worker in engine._workers:
        worker.ring = _interrupted(worker.ring, rings)  # type: ignore[method-assign]
    program.send([0, 1])
    assert len(rings) == 2
    assert engine.pending().tolist() == [0, 1]
    program.recv(2, None)
    assert not program.sent


def _interrupted(ring: Any, rings: list[int]) -> Any:
    def interrupt() -> None:
        rings.append(1)
        if len(rings) <= 2:
            raise KeyboardInterrupt
        ring()

    return interrupt
