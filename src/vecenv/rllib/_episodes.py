"""Returns and lengths of the episodes of many envs, and how RLlib's metrics merge them exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.utils.metrics import (
    EPISODE_LEN_MAX,
    EPISODE_LEN_MEAN,
    EPISODE_LEN_MIN,
    EPISODE_RETURN_MAX,
    EPISODE_RETURN_MEAN,
    EPISODE_RETURN_MIN,
)
from ray.rllib.utils.metrics.metrics_logger import DEFAULT_STATS_CLS_LOOKUP, MetricsLogger
from ray.rllib.utils.metrics.stats.base import StatsBase

NOT_FINITE = "num_episodes_not_finite_lifetime"
"""Metric: episodes that are in no other one, because their return is NaN or infinite."""


class EpisodeLog:
    """Adds up rewards, one row per env, in float64.

    Args:
        num_envs: how many envs.
    """

    def __init__(self, num_envs: int) -> None:
        self._return = np.zeros(num_envs)
        self._length = np.zeros(num_envs, np.int64)
        self._ended: list[tuple[np.ndarray, np.ndarray]] = []
        self._steps = 0

    def add(self, reward: np.ndarray, done: np.ndarray, valid: np.ndarray) -> None:
        """One step of all envs. Rows that are not valid only reset their env."""
        self._return += np.where(valid, reward, 0.0)
        self._length += valid
        self._steps += int(np.count_nonzero(valid))
        rows = np.flatnonzero(done & valid)
        if rows.size:
            self._ended.append((self._return[rows], self._length[rows]))
            self._return[rows] = 0.0
            self._length[rows] = 0

    @property
    def steps(self) -> int:
        """Environment steps since `take`."""
        return self._steps

    @property
    def episodes(self) -> int:
        """Episodes that ended since `take`."""
        return sum(len(lengths) for _, lengths in self._ended)

    def take(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Steps, returns and lengths since the last call."""
        ended, steps = self._ended, self._steps
        self._ended, self._steps = [], 0
        if not ended:
            return steps, np.empty(0), np.empty(0, np.int64)
        returns, lengths = zip(*ended, strict=True)
        return steps, np.concatenate(returns), np.concatenate(lengths)

    def restart(self) -> None:
        """All envs begin a new episode; what ended before stays."""
        self._return[:] = 0.0
        self._length[:] = 0


class ExactMean(StatsBase):
    """A mean that stays one when runners with different numbers of episodes are merged. Holds (sum, count).

    RLlib's own takes the mean of the runners' means.
    """

    stats_cls_identifier = "vecenv_mean"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.total, self.count = 0.0, 0
        self.latest_merged: Any = (0.0, 0)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"ExactMean({self.peek()}; count={self.count})"

    def push(self, value: Any) -> None:
        """Add (sum, count)."""
        self.total += value[0]
        self.count += value[1]

    def merge(self, incoming_stats: list[Any]) -> None:
        """Add those of others."""
        self.latest_merged = (sum(s.total for s in incoming_stats), sum(s.count for s in incoming_stats))
        self.push(self.latest_merged)

    def peek(self, compile: bool = True, latest_merged_only: bool = False) -> Any:
        """The mean; nan of nothing."""
        total, count = self.latest_merged if latest_merged_only else (self.total, self.count)
        mean = total / count if count else float("nan")
        return mean if compile else [mean]

    def reduce(self, compile: bool = True) -> Any:
        """The mean, or a copy with the numbers it is made of; begins anew."""
        mean, sent = self.peek(), self.clone()
        sent.push((self.total, self.count))
        self.total, self.count = 0.0, 0
        return mean if compile else sent

    def get_state(self) -> dict[str, Any]:
        """As RLlib saves it."""
        return {**super().get_state(), "total": self.total, "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """What `get_state` gave."""
        super().set_state(state)
        self.total, self.count = state["total"], state["count"]


STATS = {**DEFAULT_STATS_CLS_LOOKUP, ExactMean.stats_cls_identifier: ExactMean}
"""For `config.reporting(custom_stats_cls_lookup=...)`."""


def log_episodes(metrics: MetricsLogger, returns: np.ndarray, lengths: np.ndarray) -> None:
    """Mean, min and max over exactly these episodes; nan where there are none.

    Episodes whose return is not finite are left out and counted.
    """
    fit = np.isfinite(returns)
    if not fit.all():
        metrics.log_value(NOT_FINITE, int(np.count_nonzero(~fit)), reduce="lifetime_sum")
        returns, lengths = returns[fit], lengths[fit]
    for values, mean, low, high in (
        (returns, EPISODE_RETURN_MEAN, EPISODE_RETURN_MIN, EPISODE_RETURN_MAX),
        (lengths, EPISODE_LEN_MEAN, EPISODE_LEN_MIN, EPISODE_LEN_MAX),
    ):
        metrics.log_value(mean, (float(values.sum()), len(values)), reduce=ExactMean.stats_cls_identifier)
        if len(values):
            metrics.log_value(low, float(values.min()), reduce="min")
            metrics.log_value(high, float(values.max()), reduce="max")
