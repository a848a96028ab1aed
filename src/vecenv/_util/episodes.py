"""Returns and lengths of episodes: the one place that says what counts."""

from __future__ import annotations

from typing import Any

import numpy as np


class EpisodeTotals:
    """Return and length so far of the episode that each env is in.

    A row of results counts if it is a transition: its reward is added to the return and one step to the length. An
    episode ends with a transition that is terminated or truncated. Rows that only reset their env count for nothing.
    The totals `returns` and `lengths` of an ended episode stay until `begin`.
    """

    def __init__(self, count: int, return_dtype: Any = np.float64, length_dtype: Any = np.int64) -> None:
        self.returns = np.zeros(count, return_dtype)
        self.lengths = np.zeros(count, length_dtype)

    def begin(self, rows: Any = slice(None)) -> None:
        """Start new episodes in these envs, by default in all; what they did before counts for none."""
        self.returns[rows] = 0
        self.lengths[rows] = 0

    def add(self, reward: np.ndarray, done: np.ndarray, valid: Any = True, rows: Any = slice(None)) -> np.ndarray:
        """Count one result of each of the envs `rows`; return at which positions of `rows` an episode ended."""
        if valid is not True and np.count_nonzero(valid) == len(reward):
            valid = True
        self.returns[rows] += reward if valid is True else np.where(valid, reward, 0)
        self.lengths[rows] += valid
        return np.flatnonzero(done if valid is True else done & valid)


class EpisodeLog(EpisodeTotals):
    """Totals, and a list of ended episodes. Where one ends, the next begins. `steps` counts since `take`."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.steps = 0
        self._ended: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, reward: np.ndarray, done: np.ndarray, valid: Any = True, rows: Any = slice(None)) -> np.ndarray:
        """Count one result of each of the envs `rows`; return at which positions of `rows` an episode ended."""
        ended = super().add(reward, done, valid, rows)
        self.steps += int(np.count_nonzero(valid)) if valid is not True else len(reward)
        if ended.size:
            envs = ended if isinstance(rows, slice) else rows[ended]
            self._ended.append((self.returns[envs], self.lengths[envs]))
            self.begin(envs)
        return ended

    @property
    def episodes(self) -> int:
        """How many episodes ended since `take`."""
        return sum(len(lengths) for _, lengths in self._ended)

    def take(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Steps, and returns and lengths of the ended episodes, since the last call."""
        ended, steps = self._ended, self.steps
        self._ended, self.steps = [], 0
        if not ended:
            return steps, np.empty(0), np.empty(0, np.int64)
        returns, lengths = zip(*ended, strict=True)
        return steps, np.concatenate(returns), np.concatenate(lengths)
