"""Where time went, and which env is slow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vecenv._clocks import BUCKETS, Clocks


@dataclass(frozen=True)
class Stats:
    """Totals since the vector env was made.

    Attributes:
        exchanges: `recv`s that returned.
        steps: ops run by envs, resets included.
        seconds_in_envs: time inside env code, summed over workers.
        seconds_waiting: time the caller spent in `recv`; for the sync engine that is the envs' own time.
        seconds_copying: time spent building what is handed out.
        env_mean, env_p99: seconds per op of each env, from one exchange in sixteen; NaN where none was sampled. p99
            is an upper bound within a factor of two.
    """

    exchanges: int
    steps: int
    seconds_in_envs: float
    seconds_waiting: float
    seconds_copying: float
    env_mean: np.ndarray
    env_p99: np.ndarray

    @property
    def slowest(self) -> int:
        """The env with the longest mean step, -1 before any was sampled."""
        return -1 if np.isnan(self.env_mean).all() else int(np.nanargmax(self.env_mean))


def gather(clocks: Iterable[tuple[slice, Clocks]], count: int, exchanges: int, waiting: float, copying: float) -> Stats:
    """Read the clocks of all parts of a batch."""
    mean, p99 = np.full(count, np.nan), np.full(count, np.nan)
    busy = steps = 0
    for rows, part in clocks:
        busy += int(part.busy[0])
        steps += int(part.rows_run[0])
        sampled = part.histogram.sum(axis=1)
        known = sampled > 0
        mean[rows] = np.where(known, part.total / np.maximum(sampled, 1) * 1e-9, np.nan)
        p99[rows] = np.where(known, _quantile(part.histogram, 0.99), np.nan)
    return Stats(exchanges, steps, busy * 1e-9, waiting, copying, mean, p99)


def _quantile(histogram: np.ndarray, fraction: float) -> np.ndarray:
    """Upper edge, in seconds, of the bucket that holds the quantile."""
    cumulative = histogram.cumsum(axis=1)
    bucket = (cumulative < fraction * cumulative[:, -1:]).sum(axis=1)
    return 2.0 ** np.minimum(bucket, BUCKETS - 1) * 1e-9
