"""How much runs at once, and how much starts per second."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

_CATCH_UP = 0.05
"""Seconds of starts that are made up for after the loop was busy with something else."""


class Pace:
    """How many may start per second, shared by several `Limits`, which take turns.

    Args:
        loop: the event loop.
        rate: None for no limit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rate: float | None) -> None:
        self.rate = rate
        self._loop = loop
        self._next_start = 0.0
        """By the loop's clock."""
        self._refused: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def allows(self, again: Callable[[], None]) -> bool:
        """Whether one may start now, which is counted. If not, `again` is called when one may."""
        if self.rate is None:
            return True
        now = self._loop.time()
        self._next_start = max(self._next_start, now - _CATCH_UP)
        if now >= self._next_start:
            self._next_start += 1.0 / self.rate
            return True
        if again not in self._refused:
            self._refused.append(again)
        self._set_timer()
        return False

    def _set_timer(self) -> None:
        if self._timer is None and self._refused:
            self._timer = self._loop.call_at(self._next_start, self._due)

    def _due(self) -> None:
        self._timer = None
        self._refused.popleft()()
        self._set_timer()


class Limits:
    """Starts what it is given in order, as soon as the limits allow. All methods are called in the event loop.

    Args:
        loop: the event loop.
        concurrency: how many may run at once; None for no limit.
        pace: how many may start per second.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, concurrency: int | None, pace: Pace) -> None:
        self._loop = loop
        self._concurrency = concurrency
        self._pace = pace
        self._waiting: deque[Callable[[], object]] = deque()
        self._running = 0

    def add(self, start: Callable[[], object]) -> None:
        """Call `start` as soon as it may. Whatever it starts ends with `release`."""
        self._waiting.append(start)
        self._pump()

    def release(self) -> None:
        """Something that was started has ended."""
        self._running -= 1
        self._pump()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until something may start. It ends with the block."""
        may_start: asyncio.Future[None] = self._loop.create_future()

        def start() -> None:
            if may_start.cancelled():
                self._loop.call_soon(self.release)
            else:
                may_start.set_result(None)

        self.add(start)
        try:
            await may_start
            yield
        finally:
            if not may_start.cancelled():
                self.release()
            elif start in self._waiting:
                self._waiting.remove(start)  # or it would use up the rate

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()

    def _pump(self) -> None:
        while self._waiting and (self._concurrency is None or self._running < self._concurrency):
            if not self._pace.allows(self._pump):
                return
            self._running += 1
            self._waiting.popleft()()
