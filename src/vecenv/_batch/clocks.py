"""How long envs take: counters that workers write and the front reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vecenv._batch.memory import HeapMemory, Memory

BUCKETS = 48
"""Bucket b of a histogram counts steps of 2**(b-1) ... 2**b - 1 ns."""


@dataclass
class Clocks:
    """Time spent in the envs of some rows; columns like those of a batch, so that workers can share them.

    Attributes:
        busy: ns inside env code, [1]; `rows_run` ops were run in that time.
        current: row being run now, -1 for none.
        histogram: [rows, BUCKETS] sampled step times; `total` their sum in ns.
    """

    busy: np.ndarray
    rows_run: np.ndarray
    current: np.ndarray
    histogram: np.ndarray
    total: np.ndarray

    @classmethod
    def allocate(cls, count: int) -> Clocks:
        """Clocks of `count` rows on the heap."""
        clocks = cls.map(count, HeapMemory())
        clocks.current[0] = -1
        return clocks

    def rows_within(self, seconds: float) -> int:
        """How many rows usually take no longer than this, at least one; one as long as nothing is known."""
        busy, rows_run = int(self.busy[0]), int(self.rows_run[0])
        return max(1, int(seconds * 1e9 * rows_run / busy)) if busy else 1

    @classmethod
    def together(cls, count: int, busy: int, rows_run: int) -> Clocks:
        """Of rows that are not timed one by one."""
        nothing = np.broadcast_to(np.zeros(1, np.int64), (count, BUCKETS))
        return cls(np.array([busy]), np.array([rows_run]), np.array([-1]), nothing, nothing[:, 0])

    @classmethod
    def map(cls, count: int, memory: Memory) -> Clocks:
        """Lay the columns out in memory, whatever they hold."""
        integer = np.dtype(np.int64)
        return cls(
            busy=memory.array((1,), integer),
            rows_run=memory.array((1,), integer),
            current=memory.array((1,), integer),
            histogram=memory.array((count, BUCKETS), integer),
            total=memory.array((count,), integer),
        )
