"""A few threads of our own that run one native function over parts of the rows, side by side with the caller."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

NativeCall = Callable[[int, int], int]
"""Runs rows start ... stop - 1 and returns a count; it releases the GIL."""

_SMALLEST = 16
"""No part is smaller than a sixteenth of what each thread would get of all rows."""

_TRIALS = 4
_NOT_WORTH = 50e-6
"""Seconds of a step below which another thread is not even tried: waking it takes as long."""


class NativeThreads:
    """Threads that wait for work, `size` with the caller. No OpenMP: GNU's aborts in a process that was forked."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pid = 0
        self._helpers: list[_Helper] = []

    def run(self, tasks: Sequence[NativeCall], count: int, align: int) -> int:
        """Run rows 0 ... count - 1 in parts, one task per thread, and return the sum of what they return.

        There are `size` tasks that do the same, each for one thread alone. Parts are multiples of `align` rows.
        """
        if self._pid != os.getpid():  # the threads of a forked parent are not here
            self._helpers = [_Helper() for _ in range(self.size - 1)]
            self._pid = os.getpid()
        left = deque(parts(count, self.size, align))
        totals = [0] * self.size
        work = [_share(task, left, totals, place) for place, task in enumerate(tasks)]
        self.join()
        try:
            for helper, share in zip(self._helpers, work[1:], strict=True):
                helper.begin(share)
            work[0]()
        finally:
            self.join()
        for helper in self._helpers:
            helper.check()
        return sum(totals)

    def join(self) -> None:
        """Wait until no helper is at work, also if Ctrl-C comes meanwhile: the memory they work on is the caller's."""
        interrupt: BaseException | None = None
        while True:
            try:
                for helper in self._helpers:
                    helper.wait()
                break
            except BaseException as error:
                interrupt = error
                self._stop_loops()
        if interrupt is not None:
            raise interrupt

    def _stop_loops(self) -> None:
        """End loops of native code that the helpers are in and that do not end by themselves."""
        from vecenv.kernel.numba.interrupts import stopping  # late: it is needed after Ctrl-C alone

        with stopping([helper.thread for helper in self._helpers]):
            for helper in self._helpers:
                helper.wait()

    def close(self) -> None:
        """End the threads. May be called twice; one that is at work, for a caller in another thread, is left to it."""
        if self._pid != os.getpid():
            self._helpers = []
        for helper in self._helpers:
            if not helper.busy:
                helper.end()
        self._helpers = [helper for helper in self._helpers if helper.busy]
        if not self._helpers:
            self._pid = 0


@functools.lru_cache(64)
def parts(count: int, size: int, align: int) -> tuple[tuple[int, int], ...]:
    """Rows 0 ... count - 1 in parts for `size` threads, each of which takes the next part when it has finished one.

    A part is half of a thread's share of the rows that are left. So the last parts are small, and all threads end at
    about the same time, also if rows are uneven. Parts are rounded up to multiples of `align` rows; the last one may be
    shorter.
    """
    found, start, smallest = list[tuple[int, int]](), 0, -(-count // (size * _SMALLEST))
    while start < count:
        part = max(smallest, -(-(count - start) // (2 * size)))
        stop = min(count, start + -(-part // align) * align)
        found.append((start, stop))
        start = stop
    return tuple(found)


def _share(task: NativeCall, left: deque[tuple[int, int]], totals: list[int], place: int) -> Callable[[], None]:
    def work() -> None:
        while left:
            try:
                start, stop = left.popleft()  # hands every part to one thread alone, without the GIL too
            except IndexError:  # another thread has just taken the last
                return
            totals[place] += task(start, stop)

    return work


class _Helper:
    """One thread and the two locks by which it is woken and waited for.

    An interrupt may come between any two lines of the caller. So the locks only wake the thread; `_begun` and
    `_finished` record what was begun and what is finished, and waking the thread twice does no harm.
    """

    def __init__(self) -> None:
        self._wake, self._finish = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._work: Callable[[], None] | None = None
        self._begun: Callable[[], None] | None = None
        self._finished: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._loop, name="vecenv native", daemon=True)
        self.thread.start()

    @property
    def busy(self) -> bool:
        """Whether it has unfinished work."""
        return self._finished is not self._begun

    def begin(self, work: Callable[[], None]) -> None:
        self._finish.acquire(blocking=False)
        self._error = None
        self._work = work
        self._begun = work
        _unlock(self._wake)

    def wait(self) -> None:
        """Wait until its work is finished."""
        while self.busy:
            if self._work is not None:  # not taken yet; perhaps `begin` did not come as far as to wake it
                _unlock(self._wake)
            self._finish.acquire()

    def check(self) -> None:
        """Raise what its work raised."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def end(self) -> None:
        self._work = _end
        _unlock(self._wake)
        self.thread.join(1.0)

    def _loop(self) -> None:
        while True:
            self._wake.acquire()
            work, self._work = self._work, None
            if work is _end:
                return
            if work is None:
                continue
            try:
                work()
            except BaseException as error:
                self._error = error
            self._finished = work
            _unlock(self._finish)


def _end() -> None:
    """The work that ends a helper."""


def _unlock(lock: Any) -> None:
    with contextlib.suppress(RuntimeError):  # it is not locked
        lock.release()


class ThreadTuner:
    """Whether several threads are faster than one, found out by trying both in turn."""

    def __init__(self, worth_trying: bool) -> None:
        self.together = False
        self.trying = worth_trying
        self._calls = 0
        self._best = {False: float("inf"), True: float("inf")}

    def note(self, seconds: float) -> None:
        """Take note of what the last run took and choose how to do the next."""
        self._calls += 1
        if self._calls == 1:
            return  # memory is touched for the first time
        self._best[self.together] = min(self._best[self.together], seconds)
        if self._calls > 2 * _TRIALS or self._best[False] < _NOT_WORTH:
            self.trying = False
            self.together = self._best[True] < self._best[False]
        else:
            self.together = not self.together
