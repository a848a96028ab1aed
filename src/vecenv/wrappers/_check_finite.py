"""A wrapper that reports the step that produced a NaN or an infinity."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal

import gymnasium
import numpy as np

from vecenv._batch.finite import Finder
from vecenv._batch.layout import Layout
from vecenv._batch.seeding import NO_SEED, Seeding, spread
from vecenv._front.exchange import Exchange
from vecenv._util.checks import positive_int
from vecenv.errors import ConfigError, InvalidAction
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class CheckFinite(Wrapper):
    """Looks for NaN and infinity in actions, observations (every part of them) and rewards.

    The report has what is needed to reproduce it: the env, its step, its seed and its last actions.

    Args:
        env: the vector env.
        action: "raise" a NotFiniteError, before bad actions are sent or instead of returning bad results; or "warn",
            once per env and place.
        check_inf: whether infinity counts.
        keep: how many of the last actions of each env's episode the report has.
    """

    transform: FiniteTransform

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        action: Literal["raise", "warn"] = "raise",
        check_inf: bool = True,
        keep: int = 100,
    ) -> None:
        super().__init__(env, FiniteTransform(action, check_inf, keep))

    def _exchange_reset(self, seed: Any, options: Any) -> Exchange:
        if seed is not None:
            seeding: Seeding = getattr(self.unwrapped, "_seeding", "gymnasium")
            self.transform.seeds = spread(seed, self.num_envs, seeding)
        return super()._exchange_reset(seed, options)


class FiniteTransform(Transform):
    """Looks for NaN and infinity, and keeps the last actions.

    Attributes:
        seeds: of the running reset, NO_SEED for envs without a seed; None at other times.
    """

    def __init__(self, action: str, check_inf: bool, keep: int) -> None:
        if action not in ("raise", "warn"):
            raise ConfigError(f"action must be 'raise' or 'warn', got {action!r}")
        self._raises, self._check_inf, self._keep = action == "raise", check_inf, positive_int("keep", keep)
        self.seeds: np.ndarray | None = None

    def bind(self, observation: Any, action: Any, count: int) -> tuple[Any, Any]:
        self._observation, self._layout = Layout(observation), Layout(action)
        self._actions = [np.empty((count, self._keep, *leaf.shape), leaf.dtype) for leaf in self._layout.leaves]
        """The last actions of each env; that of step k is at k modulo `keep`."""
        self._steps = np.zeros(count, np.int64)
        """Steps of each env's episode so far; `_episodes` counts those since it was seeded."""
        self._episodes = np.full(count, -1, np.int64)
        self._last_seeds = np.full(count, NO_SEED, np.int64)
        self._finder = Finder(self._last_seeds, self._steps, self._check_inf)
        return observation, action

    def actions(self, actions: Any, rows: np.ndarray) -> Any:
        try:
            leaves = [leaf for leaf in _leaves(self._layout, actions, "actions") if len(leaf[1]) == len(rows)]
        except (LookupError, TypeError, ValueError):
            leaves = []  # not nested like the space
        for name, leaf in leaves:
            self._check(name, leaf, rows, None)
        try:
            columns = self._layout.pack(actions, len(rows))
        except InvalidAction:
            return actions  # the env inside raises an error that says what is wrong with them
        places = self._steps[rows] % self._keep
        for kept, column in zip(self._actions, columns, strict=True):
            kept[rows, places] = column
        return actions

    def exchange(self, exchange: Exchange) -> None:
        seeds, self.seeds = self.seeds, None
        self._count(exchange, seeds)
        touched, rolled = exchange.touched, exchange.rolled
        if exchange.final_obs is not None:
            for name, leaf in _leaves(self._observation, exchange.final_obs, "final_obs"):
                self._check(name, leaf, exchange.rows, rolled)
        self._check("reward", exchange.reward, exchange.rows, exchange.valid)
        self._begin(exchange.rows[rolled])
        for name, leaf in _leaves(self._observation, exchange.obs, "obs"):
            self._check(name, leaf, exchange.rows, touched)

    def _count(self, exchange: Exchange, seeds: np.ndarray | None) -> None:
        valid = exchange.valid
        self._begin(exchange.rows[exchange.began & ~valid])
        self._steps[exchange.rows[valid]] += 1
        if seeds is not None:
            rows = exchange.rows[exchange.touched]
            rows = rows[seeds[rows] != NO_SEED]
            self._last_seeds[rows], self._episodes[rows] = seeds[rows], 0

    def _begin(self, rows: np.ndarray) -> None:
        self._steps[rows] = 0
        self._episodes[rows] += 1

    def _check(self, name: str, leaf: Any, rows: np.ndarray, where: np.ndarray | None) -> None:
        for finding in self._finder.in_column(name, leaf, rows, where=where):
            row = finding.row
            error = self._finder.error(finding, episode=int(self._episodes[row]), actions=self._remembered(row))
            if self._raises:
                raise error
            if self._finder.is_new(finding):
                warnings.warn(str(error), stacklevel=6)

    def _remembered(self, row: int) -> Any:
        """The last actions of the env's episode, oldest first, nested like the space."""
        steps = int(self._steps[row])
        places = np.arange(max(steps - self._keep, 0), steps) % self._keep
        return self._layout.batched([kept[row, places] for kept in self._actions])


def _leaves(layout: Layout, tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves of batched values, with names like "obs.camera": arrays, or sequences of values of any size."""
    for leaf, values in zip(layout.leaves, layout.flat(tree), strict=True):
        values = values if isinstance(values, (np.ndarray, tuple, list)) else np.asarray(values)
        yield f"{name}.{leaf.path}" if leaf.path else name, values
