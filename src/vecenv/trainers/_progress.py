"""What a trainer reports while it learns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._util.checks import brief
from vecenv._util.episodes import EpisodeLog
from vecenv.errors import ConfigTypeError

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
            own, whatever normalization there is. An episode that a fault ended, or whose return is not finite, does
            not count.
        returns, lengths: of the episodes that ended since the last record.
        losses: by name; of the last update.
        time: share of the seconds spent in "env", "forward", "buffer", "update".
        updates: gradient steps so far.
        trainer: the trainer, for callbacks that save it or use its policy.
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
    trainer: Any = field(default=None, repr=False, compare=False)

    @property
    def scalars(self) -> dict[str, float]:
        """What loggers get, under the names that Stable-Baselines3 uses."""
        return {
            "rollout/ep_rew_mean": self.mean_return,
            "rollout/ep_len_mean": self.mean_length,
            "time/fps": self.steps_per_second,
            **{f"train/{name}": value for name, value in self.losses.items()},
        }


Callback = Callable[[Progress], Any]
"""Called after updates; returning False stops training."""
Callbacks = Callback | Iterable[Callback] | None


def callbacks_of(given: Callbacks) -> list[Callback]:
    """A list of callbacks, from none, one or several. Raises ConfigTypeError if one cannot be called."""
    several: Any = () if given is None else given
    one = callable(given) or isinstance(given, str) or not isinstance(given, (Iterable, type(None)))
    found: list[Any] = [several] if one else list(several)
    for callback in found:
        if not callable(callback) or isinstance(callback, type):
            raise ConfigTypeError(
                f"a callback must be a function of a Progress, or an object that can be called, got {brief(callback)}"
            )
    return found


class Clock:
    """How long `learn` has been running, and the seconds that its parts took, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = dict.fromkeys(("env", "forward", "buffer", "update"), 0.0)
        self.started = time.perf_counter()

    def progress(self, trainer: Any, steps_before: int, total_steps: int, losses: dict[str, float]) -> Progress:
        """The progress at this moment."""
        seconds = time.perf_counter() - self.started
        episodes: Episodes = trainer.collector.episodes
        mean_return, mean_length = episodes.mean()
        _, returns, lengths = episodes.take()
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
            trainer=trainer,
        )

    def measure(self, name: str) -> Measured:
        """A context that adds the time of its block."""
        return Measured(self.spent, name)


class Measured:
    """Adds the time of a block to what was spent under a name; several times faster than a generator as a context."""

    __slots__ = ("_began", "_name", "_spent")

    def __init__(self, spent: dict[str, float], name: str) -> None:
        self._spent, self._name, self._began = spent, name, 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self._spent[self._name] += time.perf_counter() - self._began


class Episodes(EpisodeLog):
    """Returns and lengths of the envs' episodes, with the rewards that the envs returned.

    Attributes:
        ended: how many episodes ended.
        skipped: how many of these were ended by a fault, or had a return that is not finite.
        recent: return and length of the last of the others.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.ended = self.skipped = 0
        self.recent: deque[tuple[float, int]] = deque(maxlen=RECENT)

    def add(
        self,
        reward: np.ndarray,
        done: np.ndarray,
        valid: Any = True,
        rows: Any = slice(None),
        faulty: np.ndarray | None = None,
    ) -> np.ndarray:
        """Count one result of each of the envs `rows`; return at which positions of `rows` an episode ended.

        `faulty` says which of the results are of a fault, see `info["fault"]`.
        """
        ended = super().add(reward, done, valid, rows)
        if ended.size:
            self._note(*self._ended[-1], None if faulty is None else faulty[ended])
        return ended

    def record(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Count episodes that somebody else has added up, in the order in which they ended."""
        if len(returns):
            self._ended.append((returns, lengths))
            self._note(returns, lengths)

    def _note(self, returns: np.ndarray, lengths: np.ndarray, faulty: np.ndarray | None = None) -> None:
        finite = np.isfinite(returns) if faulty is None else np.isfinite(returns) & ~faulty
        recent = returns[finite][-RECENT:].tolist(), lengths[finite][-RECENT:].tolist()
        self.recent.extend(zip(*recent, strict=True))
        self.skipped += int(np.count_nonzero(~finite))
        self.ended += len(returns)

    def mean(self) -> tuple[float, float]:
        """Mean return and length of the recent ones."""
        if not self.recent:
            return float("nan"), float("nan")
        returns, lengths = zip(*self.recent, strict=True)
        return float(np.mean(returns)), float(np.mean(lengths))

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to continue."""
        recent = [list(episode) for episode in self.recent]
        return {"totals": self.returns, "lengths": self.lengths, "ended": self.ended, "recent": recent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.returns[...], self.lengths[...], self.ended = state["totals"], state["lengths"], state["ended"]
        self.recent = deque(((float(value), int(length)) for value, length in state["recent"]), maxlen=RECENT)
