"""How much runs at once, and how much starts per second."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_CATCH_UP = 0.05
"""Seconds of starts that are made up for after the loop was busy with something else."""


class Limits:
    """Starts what it is given in order, as soon as the limits allow. All methods are called in the event loop.

    Args:
        loop: the event loop.
        concurrency: how many may run at once; None for no limit.
        rate: how many may start per second; None for no limit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, concurrency: int | None, rate: float | None) -> None:
        self._loop = loop
        self.concurrency = concurrency
        self.rate = rate
        self._waiting: deque[Callable[[], object]] = deque()
        self._running = 0
        self._next_start = 0.0
        """By the loop's clock, if there is a rate."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, start: Callable[[], object]) -> None:
        """Call `start` as soon as it may. Whatever it starts ends with `release`."""
        self._waiting.append(start)
        self._pump()

    def release(self) -> None:
        """Something that was started has ended."""
        self._running -= 1
        self._pump()

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _pump(self) -> None:
        while self._waiting and (self.concurrency is None or self._running < self.concurrency):
            if self.rate is not None and not self._may_start(self.rate):
                return
            self._running += 1
            self._waiting.popleft()()

    def _may_start(self, rate: float) -> bool:
        now = self._loop.time()
        self._next_start = max(self._next_start, now - _CATCH_UP)
        if now < self._next_start:
            if self._timer is None:
                self._timer = self._loop.call_at(self._next_start, self._due)
            return False
        self._next_start += 1.0 / rate
        return True

    def _due(self) -> None:
        self._timer = None
        self._pump()
