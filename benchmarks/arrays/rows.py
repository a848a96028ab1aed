"""A hand-written vector env for Numba: one record per env, one loop over records, and nothing else.

It is what a person writes who knows Numba: autoreset on the next step, a time limit, arrays that every step overwrites.
There is no check of actions, and no infos but the action mask. Random numbers come from vecenv's PCG64 for Numba, so
that both sides draw the same bits by the same code, and what differs is the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numba import njit

from vecenv.kernel.numba import distributions, draws, pcg64

integers = pcg64.between
"""integers(rng, low, high), as NumPy's."""
random = pcg64.random
uniform = pcg64.uniform
normal = distributions.normal
shuffle = draws.shuffle


class RowLoop:
    """Functions of one record as a vector env.

    Args:
        fields: the record's, as for `np.dtype`; a stream and a clock are added.
        reset: reset(row, rng).
        step: step(row, action, rng), returns reward and terminated.
        observe: observe(row, obs); obs is zero before.
        observation_space: of one env, a Box.
        action_space: of one env.
        limit: time limit.
        mask: mask(row, mask) writes the action mask; None if there is none.
    """

    def __init__(
        self,
        fields: list[tuple[Any, ...]],
        reset: Any,
        step: Any,
        observe: Any,
        observation_space: spaces.Box,
        action_space: Space[Any],
        limit: int | None = None,
        mask: Any = None,
    ) -> None:
        own = [("rng", np.uint64, (6,)), ("elapsed", np.int64), ("over", np.bool_)]
        self.dtype = np.dtype([*fields, *own], align=True)
        self.observation_space, self.action_space, self._masked = observation_space, action_space, mask is not None
        self._limit = limit or 2**62
        self._run = _loop(reset, step, observe, mask or _no_mask)

    def make(self, count: int) -> Rows:
        return Rows(self, count)


class Rows:
    """Some envs. What `reset` and `step` return is overwritten by the next call."""

    def __init__(self, loop: RowLoop, count: int) -> None:
        self._loop, self._run, self._limit = loop, loop._run, loop._limit
        self.rows = np.zeros(count, loop.dtype)
        self._obs = np.zeros((count, *loop.observation_space.shape), loop.observation_space.dtype)
        self._rewards = np.zeros(count)
        self._terminated, self._truncated = np.zeros(count, bool), np.zeros(count, bool)
        actions = loop.action_space.n if isinstance(loop.action_space, spaces.Discrete) and loop._masked else 0
        self._masks = np.zeros((count, actions), np.int8)
        self._info = {"action_mask": self._masks} if loop._masked else {}
        shape, dtype = loop.action_space.shape or (), loop.action_space.dtype
        self._no_actions = np.zeros((count, *shape), dtype)

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        for row in range(len(self.rows)):
            self.rows["rng"][row] = _stream(seed + row)
        self.rows["over"] = True
        obs, *_, info = self.step(self._no_actions)
        return obs, info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._run(
            self.rows, actions, self._obs, self._rewards, self._terminated, self._truncated, self._masks, self._limit
        )
        return self._obs, self._rewards, self._terminated, self._truncated, self._info


def _stream(seed: int) -> list[int]:
    """The state of NumPy's PCG64 after seeding, in words of 64 bits."""
    state = np.random.PCG64(np.random.SeedSequence(seed)).state["state"]
    words = [state["state"] >> 64, state["state"] % 2**64, state["inc"] >> 64, state["inc"] % 2**64]
    return [*words, 0, 0]


@njit
def _no_mask(row: Any, mask: Any) -> None:
    return


def _loop(reset: Any, step: Any, observe: Any, mask: Any) -> Callable[..., None]:
    @njit
    def run(rows, actions, obs, rewards, terminated, truncated, masks, limit):  # type: ignore[no-untyped-def]
        for index in range(len(rows)):
            row = rows[index]
            rng = row.rng
            if row.over:
                reset(row, rng)
                row.elapsed = 0
                row.over = False
                rewards[index] = 0.0
                terminated[index] = False
                truncated[index] = False
            else:
                reward, ended = step(row, actions[index], rng)
                row.elapsed += 1
                rewards[index] = reward
                terminated[index] = ended
                truncated[index] = row.elapsed >= limit
                row.over = ended or row.elapsed >= limit
            seen = obs[index]
            seen[:] = 0
            observe(row, seen)
            mask(row, masks[index])

    return run
