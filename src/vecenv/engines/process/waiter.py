"""How the parent waits for workers: it spins, then sleeps in poll(), and notices workers that die or are late."""

from __future__ import annotations

import math
from collections.abc import Callable

from vecenv._batch.faults import OnError
from vecenv.engines.process.backend import ProcessBackend
from vecenv.engines.process.messages import MessageReader
from vecenv.engines.process.pool import WorkerPool
from vecenv.engines.process.shared import EAGER, SPIN_SECONDS, WAITING, SharedBlock, fence
from vecenv.errors import EnvError

_LOOK_UP_SECONDS = 0.1
"""A sleeping parent looks this often whether another thread closes, and at its workers, should a wake-up be lost."""


class Waiter:
    """Waits until something is done. A worker that was killed for being late has `start_timeout` seconds to restart."""

    def __init__(
        self,
        backend: ProcessBackend,
        block: SharedBlock,
        pool: WorkerPool,
        messages: MessageReader,
        on_error: OnError,
        start_timeout: float,
    ) -> None:
        self._backend = backend
        self._clock, self._yield_cpu = backend.clock, backend.yield_cpu
        self._words = block.parent
        self._pool = pool
        self._messages = messages
        self._on_error: OnError = on_error
        self._start_timeout = start_timeout
        self._waited = 0.0
        """How long the last wait took. After a long one the next does not begin with spinning."""

    def until(self, satisfied: Callable[[], bool], timeout: float | None, *, eager: bool | None = None) -> None:
        """Return once `satisfied`. Raises if a worker dies or time runs out, as `on_error` says.

        Args:
            eager: True: from now on workers hand over rows one by one; False: all rows that they are asked for at once;
                None: as before.
        """
        if eager is not None and self._words[0, EAGER] != eager:
            self._words[:, EAGER] = eager
        if satisfied():
            return
        clock, yield_cpu = self._clock, self._yield_cpu
        started = clock()
        longest = 0.0 if self._waited > 2 * SPIN_SECONDS else SPIN_SECONDS
        limit = started + (longest if timeout is None else min(longest, timeout))
        while not satisfied():
            if clock() >= limit:
                self.park(satisfied, timeout, started, lambda: self._pool.late(timeout))
                break
            yield_cpu()
        self._waited = clock() - started

    def gather(self, satisfied: Callable[[], bool], seconds: float, timeout: float | None) -> None:
        """Return once `satisfied`, or after these seconds. Raises as `until` does."""
        self._words[:, EAGER] = True
        started = self._clock()
        end = started + seconds

        def over() -> bool:
            return satisfied() or self._clock() >= end

        self.park(over, timeout, started, lambda: self._pool.late(timeout), end)

    def park(
        self,
        satisfied: Callable[[], bool],
        timeout: float | None,
        started: float,
        late: Callable[[], EnvError],
        look_at: float = math.inf,
    ) -> None:
        """Like `until`, without spinning.

        Args:
            late: makes the error for the time being up.
            look_at: when `satisfied` will be asked at the latest, whatever workers do.
        """
        deadline, killed = None if timeout is None else started + timeout, False
        self._words[:, WAITING] = 1
        try:
            fence()
            while not satisfied():
                self._pool.check_open()
                left = _LOOK_UP_SECONDS if deadline is None else min(_LOOK_UP_SECONDS, deadline - self._clock())
                if left <= 0:
                    self._kill_or_raise(late())
                    deadline, killed = self._clock() + self._start_timeout, True
                    continue
                left = min(left, max(0.0, look_at - self._clock()))
                if self._look_up(satisfied, left) and killed and timeout is not None:
                    deadline, killed = self._clock() + timeout, False
        finally:
            self._words[:, WAITING] = 0

    def _look_up(self, satisfied: Callable[[], bool], seconds: float) -> bool:
        """Read what has arrived from workers; True if one of them was dead and is replaced."""
        pool, replaced = self._pool, False
        ready = self._backend.poll(pool.workers, seconds)
        for worker in pool.workers:
            if worker.error is not None:
                continue
            if worker.channel.fileno() in ready:
                worker.channel.drain()
            if self._backend.is_gone(worker, ready) and not satisfied():
                pool.handle_death(worker)
                replaced = True
        return replaced

    def _kill_or_raise(self, error: EnvError) -> None:
        """A worker is late: kill it, so that it is started again, where the user has asked for that."""
        if self._on_error == "raise" or error.row is None or self._messages.call_requests:
            raise error
        self._pool.worker_of(error.row).hung = error
        self._pool.kill(error.row)
