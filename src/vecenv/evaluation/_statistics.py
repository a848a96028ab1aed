"""Statistics of returns: robust means and confidence intervals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Statistic = Callable[..., np.ndarray]
"""A function of one or several arrays, along their last axis."""
_ELEMENTS = 4_000_000
"""Number of values that are resampled at a time, to limit memory."""


def mean(values: np.ndarray) -> np.ndarray:
    """The mean along the last axis."""
    return np.mean(values, axis=-1)


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean of the middle half along the last axis: a quarter of the values is left out at each end."""
    values = np.asarray(values, np.float64)
    count = values.shape[-1]
    cut = count // 4
    kept = np.partition(values, (cut, count - cut - 1), axis=-1)[..., cut : count - cut]
    return np.mean(kept, axis=-1)


def difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mean of the first minus mean of the second."""
    return mean(first) - mean(second)


def bootstrap(
    samples: tuple[np.ndarray, ...],
    statistic: Statistic,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile interval of a statistic over resamples drawn with replacement.

    Args:
        samples: one-dimensional arrays, independent of each other.
        statistic: function of that many arrays, along their last axis.
        confidence: share of resamples whose statistic is inside.
        resamples: number of resamples.
        seed: seed of the resampling.

    Returns:
        Lowest and highest value. If every sample has a single value, both are the statistic itself.
    """
    if all(len(sample) == 1 for sample in samples):
        value = float(statistic(*samples))
        return value, value
    generator = np.random.default_rng(seed)
    at_once = max(1, _ELEMENTS // sum(len(sample) for sample in samples))
    found = []
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        drawn = [sample[generator.integers(0, len(sample), (count, len(sample)))] for sample in samples]
        found.append(statistic(*drawn))
    outside = (1.0 - confidence) / 2
    low, high = np.percentile(np.concatenate(found), [100 * outside, 100 * (1 - outside)])
    return float(low), float(high)
