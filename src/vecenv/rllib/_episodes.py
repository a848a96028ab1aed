"""How RLlib's metrics merge returns and lengths of episodes exactly."""

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


class ExactMean(StatsBase):
    """The mean over all values, also when runners with different numbers of episodes are merged.

    It stores a sum and a count. RLlib's own takes the mean of the runners' means.
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
        """Add a pair: a sum and its number of values."""
        self.total += value[0]
        self.count += value[1]

    def merge(self, incoming_stats: list[Any]) -> None:
        """Add the sums and counts of others."""
        self.latest_merged = (sum(s.total for s in incoming_stats), sum(s.count for s in incoming_stats))
        self.push(self.latest_merged)

    def peek(self, compile: bool = True, latest_merged_only: bool = False) -> Any:
        """The mean; NaN without values."""
        total, count = self.latest_merged if latest_merged_only else (self.total, self.count)
        mean = total / count if count else float("nan")
        return mean if compile else [mean]

    def reduce(self, compile: bool = True) -> Any:
        """The mean, or a copy with its sum and count; then start with no values."""
        mean, sent = self.peek(), self.clone()
        sent.push((self.total, self.count))
        self.total, self.count = 0.0, 0
        return mean if compile else sent

    def get_state(self) -> dict[str, Any]:
        """The state for RLlib's checkpoints."""
        return {**super().get_state(), "total": self.total, "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        super().set_state(state)
        self.total, self.count = state["total"], state["count"]


STATS = {**DEFAULT_STATS_CLS_LOOKUP, ExactMean.stats_cls_identifier: ExactMean}
"""For `config.reporting(custom_stats_cls_lookup=...)`."""


def log_episodes(metrics: MetricsLogger, returns: np.ndarray, lengths: np.ndarray) -> None:
    """Log mean, min and max over exactly these episodes; NaN if there are none.

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
