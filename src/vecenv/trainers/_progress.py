"""What a trainer tells while it learns."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

RECENT = 100
"""Episodes that count as recent."""


@dataclass(frozen=True)
class Progress:
    """Where training is.

    Attributes:
        steps: steps of envs so far, all together.
        total_steps: where it is to end.
        seconds: since `learn` was called.
        steps_per_second: since `learn` was called.
        episodes: that ended so far.
        mean_return, mean_length: of the last hundred episodes, NaN before the first one ends. Rewards are the envs'
            own, whatever normalization there is. An episode whose return is not finite does not count.
        returns, lengths: of the episodes that ended since the last record.
        losses: by name; of the last update.
        time: share of the seconds spent in "env", "forward", "buffer", "update".
        updates: gradient steps so far.
    """

    steps: int
    total_steps: int
    seconds: float
    steps_per_second: float
    episodes: int
    mean_return: float
    mean_length: float
    returns: np.ndarray
    lengths: np.ndarray
    losses: dict[str, float]
    time: dict[str, float]
    updates: int


Callback = Callable[[Progress], Any]
"""Called after every update (or every so many); returning False stops training."""


class Clock:
    """Seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = dict.fromkeys(("env", "forward", "buffer", "update"), 0.0)
        self.started = time.perf_counter()

    def progress(self, trainer: Any, steps_before: int, total_steps: int, losses: dict[str, float]) -> Progress:
        """A record of now."""
        seconds = time.perf_counter() - self.started
        episodes: Episodes = trainer.collector.episodes
        mean_return, mean_length = episodes.mean()
        returns, lengths = episodes.news()
        return Progress(
            steps=trainer.steps,
            total_steps=total_steps,
            seconds=seconds,
            steps_per_second=(trainer.steps - steps_before) / seconds,
            episodes=episodes.ended,
            mean_return=mean_return,
            mean_length=mean_length,
            returns=returns,
            lengths=lengths,
            losses=losses,
            time={name: spent / seconds for name, spent in self.spent.items()},
            updates=trainer.updates,
        )

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time of a block."""
        began = time.perf_counter()
        yield
        self.spent[name] += time.perf_counter() - began


class Episodes:
    """Returns and lengths of the envs' episodes, as the envs gave the rewards."""

    def __init__(self, count: int) -> None:
        self.totals, self.lengths = np.zeros(count), np.zeros(count, np.int64)
        self.ended = self.skipped = 0
        """Episodes that ended, and those of them whose return was not finite."""
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._news: list[tuple[np.ndarray, np.ndarray]] = []

    def note(self, rows: np.ndarray, reward: np.ndarray, valid: np.ndarray, done: np.ndarray) -> None:
        """Count an exchange."""
        self.totals[rows] += reward
        self.lengths[rows] += valid
        if done.any():
            ended = rows[done]
            returns, lengths = self.totals[ended], self.lengths[ended]
            self._news.append((returns, lengths))
            fit = np.isfinite(returns)
            self.skipped += len(fit) - int(np.count_nonzero(fit))
            good, long = returns[fit][-RECENT:], lengths[fit][-RECENT:]
            self.recent.extend(zip(good.tolist(), long.tolist(), strict=True))
            self.ended += len(ended)
            self.totals[ended], self.lengths[ended] = 0.0, 0

    def forget(self) -> None:
        """All envs begin new episodes; what they made of their last ones counts for none."""
        self.totals[:], self.lengths[:] = 0.0, 0

    def news(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns and lengths of the episodes that ended since this was last asked."""
        news, self._news = self._news, []
        if not news:
            return np.zeros(0), np.zeros(0, np.int64)
        return np.concatenate([one[0] for one in news]), np.concatenate([one[1] for one in news])

    def mean(self) -> tuple[float, float]:
        """Mean return and length of the recent ones."""
        if not self.recent:
            return float("nan"), float("nan")
        returns, lengths = zip(*self.recent, strict=True)
        return float(np.mean(returns)), float(np.mean(lengths))

    def state_dict(self) -> dict[str, Any]:
        """To go on with later."""
        recent = [list(episode) for episode in self.recent]
        return {"totals": self.totals, "lengths": self.lengths, "ended": self.ended, "recent": recent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on."""
        self.totals[...], self.lengths[...], self.ended = state["totals"], state["lengths"], state["ended"]
        self.recent = deque(((float(value), int(length)) for value, length in state["recent"]), maxlen=RECENT)
