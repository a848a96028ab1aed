"""Evaluation while training, and the best agent so far."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vecenv._util.checks import brief, positive_int
from vecenv.errors import ConfigError, ConfigTypeError
from vecenv.evaluation import evaluate
from vecenv.presets import make_options_for
from vecenv.trainers._progress import Progress


class PeriodicEvaluation:
    """A callback of `learn` that evaluates the policy at regular intervals, and keeps the best agent.

    Mean returns are appended to `trainer.evaluations[name]`, which checkpoints contain, so that a training that
    continues knows its best result. Loggers get "eval/mean_reward" and "eval/mean_ep_length". Before it trains, `learn`
    makes the envs once, resets them and closes them, so that wrong arguments are noticed then.

    Args:
        every: steps between two evaluations; there is one after the last step of training too, but none when a
            callback stops it.
        envs: what `vecenv.evaluate` takes; default: the id that the trainer was made with.
        episodes: number of episodes of each evaluation; always the same ones.
        name: what its results are called in `trainer.evaluations` and in the curves; several need names of their own.
        best: path of the checkpoint that is written when an evaluation is the best so far; None writes none. Those with
            a mean of NaN do not count.
        options: further arguments of `vecenv.evaluate`, such as `seeds` or `engine`.

    Attributes:
        result: the last result, see `vecenv.evaluate`.
        seconds: how long all evaluations took together.
    """

    def __init__(
        self,
        every: int,
        envs: Any = None,
        *,
        episodes: int = 20,
        name: str = "eval",
        best: str | Path | None = None,
        **options: Any,
    ) -> None:
        self.every, self.episodes = positive_int("every", every), positive_int("episodes", episodes)
        if not isinstance(name, str) or not name:
            raise ConfigTypeError(f"name must be text, got {brief(name)}")
        self.name = name
        self.envs, self.best = envs, None if best is None else Path(best)
        if self.best is not None and not self.best.parent.is_dir():
            raise ConfigError(f"best={str(best)!r} cannot be written: there is no directory {self.best.parent}")
        if "background" in options:
            raise ConfigTypeError("PeriodicEvaluation waits for its results; leave background out")
        self._options = options
        self.result: Any = None
        self.seconds = 0.0

    def __call__(self, progress: Progress) -> None:
        """Evaluate if it is time."""
        trainer = progress.trainer
        points = trainer.evaluations.setdefault(self.name, [])
        last = points[-1][0] if points else 0
        if progress.steps - last < self.every and progress.steps < progress.total_steps:
            return
        envs, options = self._envs_of(trainer)
        started = time.perf_counter()
        self.result = evaluate(trainer.policy, envs, episodes=self.episodes, **options)
        row = self.result.summary[0]
        best_so_far = max((mean for _, mean in points if mean == mean), default=-math.inf)
        points.append((progress.steps, float(row.mean)))
        trainer.log({f"{self.name}/mean_reward": row.mean, f"{self.name}/mean_ep_length": row.length})
        if self.best is not None and row.mean > best_so_far:
            trainer.save(self.best)
        self.seconds += time.perf_counter() - started

    def check(self, trainer: Any) -> None:
        """Raise what evaluating this trainer's policy would raise before its first action."""
        envs, options = self._envs_of(trainer)
        policy: Any = _begin
        if isinstance(trainer.policy, Mapping):
            policy = dict.fromkeys(trainer.policy, _begin)
        with contextlib.suppress(_Began):
            evaluate(policy, envs, episodes=self.episodes, **{**options, "progress": None})

    def _envs_of(self, trainer: Any) -> tuple[Any, dict[str, Any]]:
        """What to evaluate in, and the options of `evaluate`; the trainer's id is made as the trainer makes it."""
        if self.envs is not None:
            return self.envs, self._options
        env_id = trainer.collector.env_id
        if env_id is None:
            raise ConfigError(
                "the trainer was made with a vector env: say where to evaluate: PeriodicEvaluation(every, envs)"
            )
        return env_id, {**make_options_for(env_id), **self._options}


class _Began(Exception):
    """An evaluation has made and reset its envs."""


def _begin(obs: Any) -> Any:
    raise _Began
