"""Receiving rows that threads of this process have run: what the thread and asyncio engines share."""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import time
from collections.abc import Callable

from vecenv._batch.batch import Batch, Mail, Rows
from vecenv.engines.pending import PendingRows
from vecenv.errors import ClosedError, WorkerTimeout

_LOOK_UP_SECONDS = 1.0
"""How often `recv` looks whether whatever runs the rows is there."""


class QueuedEngine:
    """An engine whose rows are run by other threads, which put finished rows and their mail into a queue."""

    batch: Batch

    def __init__(self, count: int, ordered: bool) -> None:
        self._pending = PendingRows(count, ordered=ordered)
        self._eager = False
        """Whether rows are to be handed over one by one: `recv` waits for some of those that are pending."""
        self._gathered = False
        """The `recv` that comes next takes what `gather` has waited for."""
        self._results: queue.SimpleQueue[tuple[list[int], dict[int, Mail]]] = queue.SimpleQueue()
        """Rows that were run, and their mail. No rows: nothing follows, see `wake`."""
        self._taken: tuple[list[int], dict[int, Mail]] | None = None
        """What was taken from the queue and is not noted yet."""
        self._listeners: set[Callable[[], object]] = set()
        """Called, by the thread that ran a row, after the row was put into the queue."""

    # --- the seam ----------------------------------------------------------------------------------------------------

    def recv(self, count: int, timeout: float | None = None) -> Rows:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        eager = True if self._gathered else self._pending.one_by_one(count)
        self._eager = self._eager if eager is None else eager
        self._gathered = False
        self._drain()
        while self._pending.missing(count):
            if not self._wait(deadline):
                raise self._late(timeout)
        return self._pending.take(count, self.batch, self._home)

    def pending(self) -> Rows:
        return self._pending.rows()

    def gather(self, count: int, seconds: float, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (seconds if timeout is None else min(seconds, timeout))
        self._eager = self._gathered = True
        self._drain()
        while self._pending.missing(count) and self._wait(deadline):
            pass
        if timeout is not None and timeout <= seconds and self._pending.missing(count):
            raise self._late(timeout)
        return self._pending.count_ready()

    async def gather_async(self, count: int, seconds: float | None = None) -> int:
        self._eager = self._gathered = True
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        deadline = math.inf if seconds is None else time.monotonic() + seconds

        def listen() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed while it waited
                loop.call_soon_threadsafe(came.set)

        self._listeners.add(listen)
        try:
            while True:
                came.clear()
                self._drain()
                left = deadline - time.monotonic()
                if left <= 0 or not self._pending.missing(count):
                    return self._pending.count_ready()
                waiting = loop.call_later(min(_LOOK_UP_SECONDS, left), came.set)
                await came.wait()
                waiting.cancel()
                self._check_running()
        finally:
            self._listeners.discard(listen)

    def wake(self) -> None:
        self._finish([], {})

    # --- for the threads that run rows -------------------------------------------------------------------------------

    def _finish(self, rows: list[int], mail: dict[int, Mail]) -> None:
        """Rows were run: their columns are written."""
        self._results.put((rows, mail))
        for listen in self._listeners.copy() if self._listeners else ():  # another thread may add one meanwhile
            listen()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _wait(self, deadline: float) -> bool:
        """Take rows that are finished, waiting for one if there is none; False if none came before the deadline."""
        left = max(0.0, deadline - time.monotonic())
        self._check_may_wait()
        try:
            self._take(True, min(_LOOK_UP_SECONDS, left))
        except queue.Empty:
            if left <= _LOOK_UP_SECONDS:
                return False
            self._check_running()
        self._drain()
        return True

    def _drain(self) -> None:
        """Take all rows that are finished by now."""
        self._note_taken()
        for _ in range(self._results.qsize()):
            self._take(False, None)

    def _take(self, block: bool, seconds: float | None) -> None:
        # By `map`: after a call a signal handler may run and raise, and then what was taken would be lost.
        (self._taken,) = map(self._results.get, (block,), (seconds,))
        self._note_taken()

    def _note_taken(self) -> None:
        """Note what was taken from the queue. If an interrupt comes meanwhile, the next call does it again."""
        if self._taken is None:
            return
        rows, mail = self._taken
        if not rows:
            self._taken = None
            raise ClosedError("close() was called meanwhile")
        self.batch.mail.update(mail)
        self._pending.finished[rows] = True
        self._taken = None

    def _check_may_wait(self) -> None:
        """Raise if this thread must not wait here."""

    def _check_running(self) -> None:
        """Raise WorkerDied if whatever runs rows is gone."""
        raise NotImplementedError

    def _late(self, timeout: float | None) -> WorkerTimeout:
        """The error when `timeout` seconds have passed."""
        raise NotImplementedError

    def _home(self, row: int) -> tuple[int | None, None]:
        """The number of the thread that runs a row."""
        raise NotImplementedError
