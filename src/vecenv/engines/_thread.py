"""The thread engine: the row loop on threads, for envs that release the GIL and for free-threaded Python."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv._batch import Rows
from vecenv._rows import Factory, RowRunner
from vecenv.engines._local import LocalEngine, hand_over, raise_fault
from vecenv.errors import WorkerTimeout


class ThreadEngine(LocalEngine):
    """Each thread owns a block of envs and runs their rows one by one, so that `recv` sees the first that are ready.

    Args:
        workers: number of threads.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
    """

    name = "thread"

    def __init__(
        self,
        factories: Sequence[Factory],
        *,
        workers: int,
        observation_mode: Any = "same",
        on_error: Any = "raise",
        ordered: bool = False,
    ) -> None:
        super().__init__(factories, parts=workers, observation_mode=observation_mode, on_error=on_error)
        self._ordered = ordered
        self._pending: dict[int, bool] = {}
        """Rows sent and not yet received, in the order of sending, and whether they are done."""
        self._done_count = 0
        self._changed = threading.Condition()
        self._queues: list[queue.SimpleQueue[list[int] | None]] = [queue.SimpleQueue() for _ in self._runners]
        self._worker_of = np.repeat(np.arange(workers), [stop - start for start, stop in self._bounds])
        self._threads = [
            threading.Thread(target=self._serve, args=pair, name=f"vecenv-thread-{number}", daemon=True)
            for number, pair in enumerate(zip(self._runners, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def send(self, rows: Rows) -> None:
        self._pending.update(dict.fromkeys(rows.tolist(), False))
        workers = self._worker_of[rows]
        for worker in np.unique(workers):
            runner = self._runners[worker]
            mine = (rows[workers == worker] - runner.first).tolist()
            if runner.batch is not self.batch:
                hand_over(self.batch.options, runner.batch.options, mine, runner.first)
                hand_over(self.batch.given, runner.batch.given, mine, runner.first)
            self._queues[worker].put(mine)

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._enough(count):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._late(timeout)
                self._changed.wait(left)
            rows = self._choose(count)
            self._deliver(rows)
        return rows

    def close(self, timeout: float = 5.0) -> None:
        if self._closed:
            return
        self._closed = True
        for inbox in self._queues:
            inbox.put(None)
        deadline = time.monotonic() + timeout
        for thread, runner in zip(self._threads, self._runners, strict=True):
            thread.join(max(0.0, deadline - time.monotonic()))
            if not thread.is_alive():  # a hung env cannot be closed; its thread is a daemon and dies with the process
                runner.close()

    def _serve(self, runner: RowRunner, inbox: queue.SimpleQueue[list[int] | None]) -> None:
        while (rows := inbox.get()) is not None:
            for row in rows:
                if self._closed:
                    return
                runner.run_whatever_happens([row])
                with self._changed:
                    mail = runner.batch.mail.pop(row, None)
                    if mail is not None:
                        self.batch.mail[runner.first + row] = mail
                    self._pending[runner.first + row] = True
                    self._done_count += 1
                    self._changed.notify()

    def _enough(self, count: int) -> bool:
        if not self._ordered or count == len(self._pending):
            return self._done_count >= count
        return all(done for done, _ in zip(self._pending.values(), range(count), strict=False))

    def _choose(self, count: int) -> Rows:
        if count == len(self._pending):
            return np.array(sorted(self._pending))
        ready = [row for row, done in self._pending.items() if done]
        return np.array(ready[:count])

    def _deliver(self, rows: Rows) -> None:
        try:
            raise_fault(self.batch, rows)
        except Exception as error:
            rows = np.array([error.row])  # type: ignore[attr-defined]  # raise_fault raises EnvErrors
            raise
        finally:
            for row in rows.tolist():
                del self._pending[row]
            self._done_count -= len(rows)

    def _late(self, timeout: float | None) -> WorkerTimeout:
        row = next(row for row, done in self._pending.items() if not done)
        worker = int(self._worker_of[row])
        runner = self._runners[worker]
        running = int(runner.clocks.current[0])
        row = row if running < 0 else runner.first + running
        return WorkerTimeout(
            f"env {row} (thread {worker}) did not answer within {timeout} s; a thread cannot be stopped from outside: "
            "call recv() to wait on, or close() and use engine='process', which can kill it",
            row=row,
            phase="step",
            worker=worker,
        )
