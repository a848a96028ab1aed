"""What one exchange with the environments returned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._batch import Op
from vecenv._layout import Columns, Layout

_RESET, _ROLL = int(Op.RESET), int(Op.ROLL)


@dataclass(frozen=True, eq=False)
class Step:
    """Results of some or all envs. Position k of every array belongs to env `env_ids[k]`.

    Unpacks like Gymnasium's step: `obs, reward, terminated, truncated, infos = envs.recv()`.

    Attributes:
        obs: batched observations to act on next.
        reward: float64.
        terminated, truncated: bool.
        infos: Gymnasium's dict of arrays, over these envs.
        env_ids: which envs these are.
        ops: what each row did.
        episode_return, episode_length: totals of the episode each row's transition belongs to, complete where it ended.
    """

    obs: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]
    env_ids: np.ndarray
    ops: np.ndarray
    episode_return: np.ndarray
    episode_length: np.ndarray
    _layout: Layout = field(repr=False)
    _obs_columns: Columns = field(repr=False)
    _final_columns: Columns | None = field(repr=False)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.obs, self.reward, self.terminated, self.truncated, self.infos))

    @property
    def done(self) -> np.ndarray:
        """Where an episode ended."""
        return self.terminated | self.truncated

    @property
    def rolled(self) -> np.ndarray:
        """Where an episode ended and the next one began in this same exchange."""
        return (self.ops == _ROLL) & self.done

    @property
    def valid(self) -> np.ndarray:
        """Where the row is a transition. False for the reset rows of "next-step" mode, whose action was ignored."""
        return self.ops != _RESET

    @property
    def final_obs(self) -> Any:
        """Batched observations that ended an episode, meaningful where `rolled`; None if nowhere."""
        return None if self._final_columns is None else self._layout.batched(self._final_columns)

    @property
    def next_obs(self) -> Any:
        """The true successor observation of each transition: `final_obs` where an episode rolled, else `obs`."""
        return successors(self._layout, self.obs, self._obs_columns, self._final_columns, self.rolled)


def successors(layout: Layout, obs: Any, columns: Columns, finals: Columns | None, rolled: np.ndarray) -> Any:
    """Observations with those that ended an episode where it rolled."""
    if finals is None:
        return obs
    pairs = zip(finals, columns, strict=True)
    return layout.batched([np.where(_like(rolled, final), final, column) for final, column in pairs])


def _like(mask: np.ndarray, column: np.ndarray) -> np.ndarray:
    return mask.reshape(mask.shape + (1,) * (column.ndim - mask.ndim))
