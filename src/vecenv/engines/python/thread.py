"""The thread engine: the row loop on threads, for envs that release the GIL and for free-threaded Python."""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Mail, Op, Rows
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.local import LocalEngine, discard_mail, first_fault, hand_over, warn_of
from vecenv.engines.python.runner import RowRunner
from vecenv.errors import EnvError, Phase, WorkerTimeout

Task: TypeAlias = tuple[int, list[int]]
"""Number of the `send`, and rows local to the runner."""


class ThreadEngine(LocalEngine):
    """Each thread owns a block of envs and runs their rows one by one, so that `recv` sees the first that are ready.

    Args:
        workers: number of threads.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        origin: index of the first row among all envs, if these are a part of a larger batch.
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
        origin: int = 0,
    ) -> None:
        super().__init__(factories, parts=workers, observation_mode=observation_mode, on_error=on_error, origin=origin)
        self._ordered = ordered
        self._pending: dict[int, bool] = {}
        """Rows sent and not yet received, in the order of sending, and whether they are done."""
        self._done_count = 0
        self._finished: queue.SimpleQueue[tuple[int, Mail | None]] = queue.SimpleQueue()
        """Rows that the threads are done with, and what these have to say."""
        self._complaints: list[str] = []
        self._sends = 0
        self._numbers = np.zeros(len(self.envs), np.int64)
        """In which `send` each row was last sent, 0 once it began to run. A task with another number is not due."""
        self._closing = threading.Lock()
        """Held while a thread closes its envs: libraries that draw and play sound crash if two shut them down."""
        self._turn_seconds = 0.0
        """How long a thread waits for its turn to close; behind a close() that hangs it goes on."""
        self._queues: list[queue.SimpleQueue[Task | None]] = [queue.SimpleQueue() for _ in self._runners]
        self._worker_of = np.repeat(np.arange(workers), [stop - start for start, stop in self._bounds])
        self._threads = [
            threading.Thread(target=self._serve, args=pair, name=f"vecenv-thread-{number}", daemon=True)
            for number, pair in enumerate(zip(self._runners, self._queues, strict=True))
        ]
        for thread in self._threads:
            thread.start()

    def send(self, rows: Rows) -> None:
        rows = np.sort(rows)
        self._sends += 1
        workers = self._worker_of[rows]
        parts = [
            (int(worker), (rows[workers == worker] - self._bounds[worker][0]).tolist()) for worker in np.unique(workers)
        ]
        self._numbers[rows] = self._sends
        sent = dict.fromkeys(rows.tolist(), False)
        try:
            self._pending.update(sent)
            self._share_out(parts)
        except BaseException:
            if int(rows[0]) in self._pending:  # interrupted half way; a task that comes twice is run once
                self._share_out(parts)
            raise

    def _share_out(self, parts: list[tuple[int, list[int]]]) -> None:
        for worker, mine in parts:
            runner = self._runners[worker]
            if runner.batch is not self.batch:
                hand_over(self.batch.options, runner.batch.options, mine, runner.first)
                hand_over(self.batch.raw_actions, runner.batch.raw_actions, mine, runner.first)
            self._queues[worker].put((self._sends, mine))

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._enough(count):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                # By `map`: after a call a signal handler may run and raise, and then what was taken would be lost.
                ((row, mail),) = map(self._finished.get, (True,), (left,))
            except queue.Empty:
                raise self._late(timeout) from None
            if mail is not None:
                self.batch.mail[row] = mail
            self._pending[row] = True
            self._done_count += 1
        rows = self._choose(count)
        error = self._error(rows)
        gone = set(rows.tolist() if error is None else error.rows)
        left_over = {row: done for row, done in self._pending.items() if row not in gone}
        done_count = sum(left_over.values())
        self._pending, self._done_count = left_over, done_count
        if error is None:
            return rows
        discard_mail(self.batch, error.rows)
        raise error

    def pending(self) -> Rows:
        return np.array(sorted(self._pending), np.int64)

    def close(self, timeout: float = 5.0) -> None:
        if self._closed:
            return
        self._turn_seconds = timeout / 2
        self._closed = True
        for inbox in self._queues:
            inbox.put(None)
        deadline = time.monotonic() + timeout
        for number, thread in enumerate(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():  # it is a daemon and dies with the process
                row = self._at(number, self._bounds[number][0])
                self._complaints.append(
                    f"env {row} (thread {number}) did not end within {timeout} s and was left running"
                )
        warn_of(self._complaints)

    def _serve(self, runner: RowRunner, inbox: queue.SimpleQueue[Task | None]) -> None:
        while (task := inbox.get()) is not None and not self._closed:
            number, rows = task
            for row in rows:
                if self._closed:
                    break
                if self._numbers[runner.first + row] == number:
                    self._numbers[runner.first + row] = 0
                    self._run_row(runner, row)
        alone = self._closing.acquire(timeout=self._turn_seconds)
        try:
            self._complaints += runner.close()
        finally:
            if alone:
                self._closing.release()

    def _run_row(self, runner: RowRunner, row: int) -> None:
        runner.run_whatever_happens([row])
        self._finished.put((runner.first + row, runner.batch.mail.pop(row, None)))

    def _enough(self, count: int) -> bool:
        if not self._ordered or count == len(self._pending):
            return self._done_count >= count
        return all(done for done, _ in zip(self._pending.values(), range(count), strict=False))

    def _choose(self, count: int) -> Rows:
        if count == len(self._pending):
            return np.array(sorted(self._pending))
        ready = [row for row, done in self._pending.items() if done]
        return np.array(ready[:count])

    def _error(self, rows: Rows) -> EnvError | None:
        found = first_fault(self.batch, rows)
        if found is None:
            return None
        row, fault = found
        return fault.to_error(row, int(self._worker_of[row]))

    def _at(self, worker: int, otherwise: int) -> int:
        """The row that a thread is running."""
        running = int(self._runners[worker].clocks.current[0])
        return otherwise if running < 0 else self._runners[worker].first + running

    def _late(self, timeout: float | None) -> WorkerTimeout:
        first = next(row for row, done in self._pending.items() if not done)
        worker = int(self._worker_of[first])
        row = self._at(worker, first)
        frame = sys._current_frames().get(self._threads[worker].ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        phase: Phase = "reset" if self.batch.op[row] == Op.RESET else "step"
        error = WorkerTimeout(
            f"env {row} (thread {worker}) did not answer within {timeout} s in {phase}; a thread cannot be stopped "
            "from outside: call recv() to wait on, or close() and use engine='process', which can kill it\n" + stack,
            row=row,
            phase=phase,
            worker=worker,
        )
        error.stack, error.elapsed = stack, timeout
        return error
