"""The shared block of the process engine: control words, tickets (see `ledger.py`), and the batch itself.

Control words of the two sides are on cache lines of their own. x86 keeps the order of stores, which the spinning
waits rely on; on other machines `SPIN_SECONDS` is zero and every exchange goes through the kernel.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from dataclasses import dataclass

import numpy as np

from vecenv._batch.batch import Batch
from vecenv._batch.clocks import Clocks
from vecenv._batch.layout import Layout
from vecenv._batch.memory import MeasuringMemory, Memory
from vecenv._util.forks import renewed_at_fork

_WORDS = 16
"""Words of 8 bytes per worker and side: two cache lines."""
RINGS, MESSAGES, WAITING, EAGER = range(4)
"""Words of the parent: wake-ups, messages sent, whether it sleeps in poll(), whether it wants rows one by one."""
FINISHED, MAILS, PARKED, CLOSING = range(4)
"""Words of a worker: rows finished since it started, messages sent, whether it sleeps, whether it closes its envs."""

_ORDERED_STORES = platform.machine().lower() in {"x86_64", "amd64", "i686", "i386"}
SPIN_SECONDS = 0.0003 if _ORDERED_STORES else 0.0
WORKER_SPIN_SECONDS = 0.001 if _ORDERED_STORES else 0.0
"""How long the parent and a worker spin before they sleep. A kernel wake-up costs about 0.1 ms, so giving up much
sooner is slower. The parent's spinning also takes time from the workers when cores are few; a worker's does not. After
a long wait they do not spin before the next: on a busy machine whoever spins is scheduled last."""

_fence_lock = renewed_at_fork(threading.Lock())


def fence() -> None:
    """Order all earlier stores before all later loads: the lock's atomic instruction does."""
    with _fence_lock:
        pass


@dataclass
class Control:
    """The words of one worker, as memoryviews (faster to read one by one than arrays)."""

    parent: memoryview
    worker: memoryview


@dataclass
class SharedBlock:
    """Everything that is in shared memory."""

    parent: np.ndarray
    worker: np.ndarray
    requests: np.ndarray
    answers: np.ndarray
    batch: Batch
    clocks: list[Clocks]

    @classmethod
    def map(cls, memory: Memory, observation: Layout, action: Layout, bounds: list[tuple[int, int]]) -> SharedBlock:
        """Lay the block out. Every process that maps it asks for the same arrays in the same order."""
        count, integer = bounds[-1][1], np.dtype(np.int64)
        return cls(
            parent=memory.array((len(bounds), _WORDS), integer),
            worker=memory.array((len(bounds), _WORDS), integer),
            requests=memory.array((count,), integer),
            answers=memory.array((count,), integer),
            batch=Batch.map(observation, action, count, memory),
            clocks=[Clocks.map(stop - start, memory) for start, stop in bounds],
        )

    @classmethod
    def size(cls, observation: Layout, action: Layout, bounds: list[tuple[int, int]]) -> int:
        """Bytes that `map` needs."""
        memory = MeasuringMemory()
        cls.map(memory, observation, action, bounds)
        return memory.size

    def clear(self) -> None:
        """Give a new block its first values. Only the parent does this; workers change nothing."""
        self.batch.clear()
        for clocks in self.clocks:
            clocks.current[0] = -1

    def control(self, worker: int) -> Control:
        return Control(memoryview(self.parent[worker]), memoryview(self.worker[worker]))


yield_cpu = getattr(os, "sched_yield", lambda: time.sleep(0))
"""Let another process have this core."""


def spin(words: memoryview, index: int, seen: int, seconds: float) -> bool:
    """Spin until `words[index]` is no longer `seen`; False after `seconds`. Gives the core away at every turn."""
    clock = time.perf_counter
    deadline = clock() + seconds
    while words[index] == seen:
        yield_cpu()
        if clock() > deadline:
            return False
    return True
