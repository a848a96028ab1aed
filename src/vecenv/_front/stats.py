"""Where time went, and which env is slow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vecenv._batch.clocks import BUCKETS, Clocks

CHEAP_SECONDS, LITTLE_SECONDS = 100e-6, 2e-3
"""An env that steps faster than the first is not worth another process, unless a step of all takes longer than the
second; see benchmarks/engines.py."""


@dataclass(frozen=True)
class WorkerStats:
    """What one worker (a process, a thread, an actor, or the caller itself) did.

    Attributes:
        start, stop: it has the envs start ... stop - 1.
        steps: ops that it ran.
        seconds: time inside env code.
        p50, p99: seconds per op over its envs, as upper bounds within a factor of two; NaN if none was sampled.
    """

    start: int
    stop: int
    steps: int
    seconds: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Stats:
    """Totals since the vector env was made.

    Attributes:
        exchanges: `recv`s that returned.
        steps: ops run by envs, resets included.
        seconds_in_envs: time inside env code, summed over workers.
        seconds_waiting: time the caller spent in `recv` or in a step of all envs; for the sync engine that is the envs'
            own time.
        seconds_copying: time spent building what is handed out.
        env_mean, env_p50, env_p99: seconds per op of each env, resets included, from one exchange in sixteen (later one
            in 64); NaN where none was sampled. p50 and p99 are upper bounds within a factor of two.
        seconds: from the first exchange to the latest.
        workers: what each of them did.
    """

    exchanges: int
    steps: int
    seconds_in_envs: float
    seconds_waiting: float
    seconds_copying: float
    env_mean: np.ndarray
    env_p50: np.ndarray
    env_p99: np.ndarray
    seconds: float
    workers: tuple[WorkerStats, ...]

    @property
    def env_typical(self) -> np.ndarray:
        """Seconds of a usual op of each env: the mean as far as p50 allows, so that a few long resets do not count."""
        return np.clip(self.env_mean, self.env_p50 / 2, self.env_p50)

    @property
    def slowest(self) -> int:
        """The env whose usual step takes longest, -1 before any was sampled."""
        typical = self.env_typical
        return -1 if np.isnan(typical).all() else int(np.nanargmax(typical))


def gather(
    clocks: Iterable[tuple[slice, Clocks]], count: int, exchanges: int, waiting: float, copying: float, seconds: float
) -> Stats:
    """Read the clocks of all parts of a batch."""
    mean, p50, p99 = np.full((3, count), np.nan)
    workers = []
    for rows, part in clocks:
        together = part.histogram.sum(axis=0, keepdims=True)
        middle, high = (_quantile(together, fraction).item() if together.any() else np.nan for fraction in (0.5, 0.99))
        busy, steps = int(part.busy[0]) * 1e-9, int(part.rows_run[0])
        workers.append(WorkerStats(rows.start, rows.stop, steps, busy, middle, high))
        sampled = part.histogram.sum(axis=1)
        known = sampled > 0
        mean[rows] = np.where(known, part.total / np.maximum(sampled, 1) * 1e-9, np.nan)
        p50[rows] = np.where(known, _quantile(part.histogram, 0.5), np.nan)
        p99[rows] = np.where(known, _quantile(part.histogram, 0.99), np.nan)
    steps, busy = sum(worker.steps for worker in workers), sum(worker.seconds for worker in workers)
    return Stats(exchanges, steps, busy, waiting, copying, mean, p50, p99, seconds, tuple(workers))


def _quantile(histogram: np.ndarray, fraction: float) -> np.ndarray:
    """Upper edge, in seconds, of the bucket that holds the quantile."""
    cumulative = histogram.cumsum(axis=1)
    bucket = (cumulative < fraction * cumulative[:, -1:]).sum(axis=1)
    return 2.0 ** np.minimum(bucket, BUCKETS - 1) * 1e-9
