"""The thread engine: the row loop on threads, for envs that release the GIL and for free-threaded Python."""

from __future__ import annotations

import atexit
import contextlib
import queue
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Mail, Op, Rows
from vecenv._batch.faults import Fault
from vecenv.engines.python.calls import item_view
from vecenv.engines.python.copies import end_copies_of_this_thread
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.local import LocalEngine, hand_over, warn_of
from vecenv.engines.python.queued import QueuedEngine
from vecenv.engines.python.runner import RowRunner
from vecenv.errors import Phase, WorkerDied, WorkerTimeout

_TOGETHER_SECONDS = 0.005
"""Rows are handed over together as far as they take no longer than this: handing one over takes about 20 us."""
SentRows: TypeAlias = tuple[int, list[int]]
"""Number of the `send`, and rows local to the runner."""


class ThreadEngine(QueuedEngine, LocalEngine):
    """Each thread owns a block of envs and runs those rows of it that are sent.

    Rows that take next to no time are handed over together. Slow ones are handed over one by one, and so are all once
    `recv` has asked for some of those that are pending, or `gather` was called.

    Args:
        workers: number of threads.
        ordered: `recv` returns rows in the order they were sent, whichever is ready first.
        origin: index of the first row among all envs, if these are a part of a larger batch.
    """

    name = "thread"
    watched = True
    checks_actions = False

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
        LocalEngine.__init__(
            self, factories, parts=workers, observation_mode=observation_mode, on_error=on_error, origin=origin
        )
        QueuedEngine.__init__(self, len(self.envs), ordered)
        self._complaints: list[str] = []
        self._stopping = self._closed = False
        """Threads are to end; they have, or were left running."""
        self._to_run = np.zeros(len(self.envs), np.int64)
        """Number of the `send` that each row has still to run, 0 once it began to. Tasks of another number are void."""
        self._closing = threading.Lock()
        """Held while a thread closes its envs: libraries that draw and play sound crash if two shut them down."""
        self._turn_seconds = 0.0
        """How long a thread waits for that lock before it closes its envs without it: another close() may hang."""
        self._queues: list[queue.SimpleQueue[SentRows | None]] = [queue.SimpleQueue() for _ in self._runners]
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._gone: set[int] = set()
        """Threads that have closed their envs. `Thread.join` would not do: after Ctrl-C in it, CPython takes a running
        thread for ended."""
        self._worker_of = np.repeat(np.arange(workers), [stop - start for start, stop in self._bounds])
        self._blocks = [(worker, list(range(stop - start))) for worker, (start, stop) in enumerate(self._bounds)]
        """The rows of each thread, if all are sent."""
        self._threads = [
            threading.Thread(target=self._serve, args=parts, name=f"vecenv-thread-{number}", daemon=True)
            for number, parts in enumerate(zip(self._runners, self._queues, range(workers), strict=True))
        ]
        for thread in self._threads:
            thread.start()
        _open.add(self)

    def send(self, rows: Rows) -> None:
        number = self._pending.sequence + 1
        parts = self._blocks if len(rows) == len(self._worker_of) else self._parts_of(np.sort(rows))
        self._to_run[rows] = number
        try:
            self._pending.open(rows)
            self._share_out(parts, number)
        except BaseException:
            if self._pending.sequence == number:  # interrupted half way; a task that comes twice is run once
                self._share_out(parts, number)
            raise

    def exchange_all(self, alive: int, over: int, rotate: bool) -> int:
        """Send all rows and receive them. Observations have no ring of buffers: `rotate` changes nothing."""
        self.batch.set_ops(alive, over)
        self.send(self._pending.everyone)
        self.recv(len(self._worker_of))
        return self.batch.count_ended()

    @property
    def rewards_are_finite(self) -> bool:
        return self.batch.rewards_are_finite()

    def _parts_of(self, rows: Rows) -> list[tuple[int, list[int]]]:
        """Threads and their rows, local to their runners; `rows` are ascending."""
        workers = self._worker_of[rows]
        return [
            (int(worker), (rows[workers == worker] - self._bounds[worker][0]).tolist()) for worker in np.unique(workers)
        ]

    def _share_out(self, parts: list[tuple[int, list[int]]], number: int) -> None:
        """Give each thread its rows."""
        for worker, mine in parts:
            runner = self._runners[worker]
            hand_over(self.batch, runner.batch, mine, runner.first)
            self._queues[worker].put((number, mine))

    def close(self, timeout: float = 5.0) -> None:
        if self._closed:
            return
        self._turn_seconds = timeout / 2
        self._stopping = True
        for inbox in self._queues:
            inbox.put(None)
        deadline = time.monotonic() + timeout
        with contextlib.suppress(queue.Empty):
            while len(self._gone) < len(self._threads):  # in one C call, as in `recv`
                self._gone.update(map(self._ended.get, (True,), (max(0.0, deadline - time.monotonic()),)))
        late = [
            f"env {self._at(number, self._bounds[number][0])} (thread {number}) did not end within {timeout} s and was "
            "left running"  # it is a daemon and dies with the process
            for number in range(len(self._threads))
            if number not in self._gone
        ]
        self._closed = True
        warn_of([*self._complaints, *late])

    def _serve(self, runner: RowRunner, inbox: queue.SimpleQueue[SentRows | None], worker: int) -> None:
        end_copies_of_this_thread()  # which would be copies of the program that have this thread alone
        to_run = self._to_run[runner.first : runner.first + len(runner.envs)]
        number_of = item_view(to_run)
        while (task := inbox.get()) is not None and not self._stopping:
            number, rows = task
            rows = [row for row in rows if number_of[row] == number]
            while rows and not self._stopping:
                count = 1 if self._eager else runner.clocks.rows_within(_TOGETHER_SECONDS)
                self._run_rows(runner, to_run, rows[:count])
                rows = rows[count:]
        alone = self._closing.acquire(timeout=self._turn_seconds)
        try:
            self._complaints += runner.close(BaseException)
        finally:
            if alone:
                self._closing.release()
            self._ended.put(worker)

    def _run_rows(self, runner: RowRunner, to_run: np.ndarray, rows: list[int]) -> None:
        to_run[rows] = 0
        first, mail = runner.first, dict[int, Mail]()
        try:
            runner.run_whatever_happens(rows)
            if runner.batch.mail:
                mail = {first + row: runner.batch.mail.pop(row) for row in rows if row in runner.batch.mail}
        except BaseException as error:  # no known error gets here; a row that is lost would be waited for without end
            mail = {first + row: Mail(fault=Fault.of(error, "step")) for row in rows}
        self._finish([first + row for row in rows], mail)

    def _check_running(self) -> None:
        """Raise WorkerDied if a thread is gone whose rows are waited for."""
        pending = self._pending
        for number, thread in enumerate(self._threads):
            start, stop = self._bounds[number]
            rows = [row for row in range(start, stop) if pending.sent_at[row] and not pending.finished[row]]
            if rows and not thread.is_alive():
                raise WorkerDied(
                    f"thread {number} with envs {start} to {stop - 1} has ended; close the vector env and make it anew",
                    row=rows[0],
                    rows=tuple(rows),
                    phase="reset" if self.batch.op[rows[0]] == Op.RESET else "step",
                    worker=number,
                )

    def _home(self, row: int) -> tuple[int, None]:
        return int(self._worker_of[row]), None

    def _at(self, worker: int, otherwise: int) -> int:
        """The row that a thread is running."""
        running = int(self._runners[worker].clocks.current[0])
        return otherwise if running < 0 else self._runners[worker].first + running

    def _late(self, timeout: float | None) -> WorkerTimeout:
        pending = self._pending
        first = next(row for row in pending.oldest(pending.count).tolist() if not pending.finished[row])
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


_open: weakref.WeakSet[ThreadEngine] = weakref.WeakSet()


@atexit.register
def _close_open() -> None:
    """Close what the program left open, while its threads can still run."""
    for engine in list(_open):
        engine.close(1.0)
