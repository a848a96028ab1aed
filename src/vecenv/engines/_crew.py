"""A few threads of our own that run one native function over parts of the rows, side by side with the caller."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Task = Callable[[int, int], int]
"""Runs rows start ... stop - 1 and returns a count; it releases the GIL."""

CHUNKS_EACH = 4
"""Parts per thread: whoever is done first takes the next, so that uneven rows are balanced."""


class Crew:
    """Threads that wait for work. No OpenMP: GNU's aborts in a process that was forked.

    Args:
        size: threads, the caller included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pid = 0
        self._helpers: list[_Helper] = []

    def run(self, tasks: Sequence[Task], count: int, align: int) -> int:
        """Run rows 0 ... count - 1 in parts, one task per thread, and return the sum of what they return.

        Args:
            tasks: `size` of them, each for one thread alone; they do the same.
            count: number of rows.
            align: parts are multiples of this many rows.
        """
        if self._pid != os.getpid():  # the threads of a forked parent are not here
            self._pid = os.getpid()
            self._helpers = [_Helper() for _ in range(self.size - 1)]
        part = -(-count // (self.size * CHUNKS_EACH))
        part = -(-part // align) * align
        starts = iter(range(0, count, part))
        totals = [0] * self.size
        work = [_share(task, starts, part, count, totals, place) for place, task in enumerate(tasks)]
        begun: list[_Helper] = []
        errors: list[BaseException] = []
        try:
            for helper, share in zip(self._helpers, work[1:], strict=True):
                begun.append(helper)
                helper.begin(share)
            work[0]()
        except BaseException as error:
            errors.append(error)
        errors.extend(error for helper in begun for error in helper.wait())
        if errors:
            raise errors[0]
        return sum(totals)

    def close(self) -> None:
        """End the threads. May be called twice."""
        if self._pid == os.getpid():
            for helper in self._helpers:
                helper.end()
        self._helpers, self._pid = [], 0


def _share(
    task: Task, starts: Iterator[int], part: int, count: int, totals: list[int], place: int
) -> Callable[[], None]:
    def work() -> None:
        for start in starts:  # a range iterator: the GIL hands every start to one thread alone
            totals[place] += task(start, min(start + part, count))

    return work


class _Helper:
    """One thread and the two locks by which it is woken and waited for."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._work: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._loop, name="vecenv crew", daemon=True)
        self._thread.start()

    def begin(self, work: Callable[[], None]) -> None:
        self._work = work
        self._go.release()

    def wait(self) -> list[BaseException]:
        """Wait until it is done and return what went wrong, Ctrl-C meanwhile included.

        It never leaves before: the thread works on memory that the caller will use.
        """
        errors: list[BaseException] = []
        while True:
            try:
                self._done.acquire()
                break
            except BaseException as error:
                errors.append(error)
        if self._error is not None:
            errors.append(self._error)
            self._error = None
        return errors

    def end(self) -> None:
        self._work = None
        self._go.release()
        self._thread.join(1.0)

    def _loop(self) -> Any:
        for _ in itertools.count():
            self._go.acquire()
            if self._work is None:
                return
            try:
                self._work()
            except BaseException as error:
                self._error = error
            self._done.release()
