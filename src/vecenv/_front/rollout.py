"""What `rollout` and `get_state` return."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv._front.transitions import Transitions


@dataclass(frozen=True, eq=False)
class Rollout(Transitions):
    """T steps of N envs. Every array has the axes [T, N, ...].

    Attributes:
        obs: observations after each step.
        actions: what was applied.
        reward: float64.
        terminated, truncated: bool.
        infos: columns of the kernel's infos.
        final_obs: observations that ended an episode, meaningful where `rolled`; None in "next-step" mode.
        final_infos: those of the steps that ended an episode, where `rolled`; empty if nowhere.
    """

    obs: Any
    actions: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    final_obs: Any
    infos: dict[str, np.ndarray]
    final_infos: dict[str, np.ndarray]
    _ended_before: np.ndarray = field(repr=False)
    _ops_of: tuple[int, int] = field(repr=False)

    @functools.cached_property
    def ops(self) -> np.ndarray:
        """What each row did."""
        before = np.concatenate([self._ended_before[None], self.done[:-1]])
        alive, ended = self._ops_of
        return np.where(before, np.uint8(ended), np.uint8(alive))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that some envs are made of. Plain arrays, so that it can be pickled or saved.

    Attributes:
        columns: by name; the first axis is the env.
        ready: which of the envs were reset.
    """

    columns: dict[str, np.ndarray]
    ready: np.ndarray

    def __len__(self) -> int:
        return len(self.ready)
