"""How replay stores observations: as pairs, or every frame once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from vecenv._batch.leaf import Leaf
from vecenv.buffers._storage import Storage, put
from vecenv.errors import SpaceError

CHECKED = 64
"""The first writes are checked thoroughly: are these observations really stacks of frames?"""


class Pairs:
    """An observation and its successor for every transition."""

    def __init__(self, space: Space[Any], slots: int, lanes: int) -> None:
        self.storage, self._next = Storage(space, (slots * lanes,)), Storage(space, (slots * lanes,))

    def write(self, index: Any, lanes: Any, rows: Any, obs: Any, next_obs: Any, fresh: np.ndarray) -> None:
        """Store the rows of a batch at `index`."""
        self.storage.write(index, obs, rows)
        self._next.write(index, next_obs, rows)

    def read(self, index: np.ndarray, last: np.ndarray) -> tuple[Any, Any]:
        """Observations of the transitions `index`, and successors of the transitions `last`."""
        return self.storage.read(index), self._next.read(last)

    def lost(self, index: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Whether data of these transitions was overwritten."""
        return np.zeros(len(index), np.bool_)

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        both = {"obs": self.storage.columns, "next": self._next.columns}
        return {f"{name}{leaf}": column for name, columns in both.items() for leaf, column in enumerate(columns)}

    def rows(self, transitions: int, arrays: dict[str, np.ndarray]) -> dict[str, int]:
        """How many rows of each of these arrays are in use, given how many rows of transitions are."""
        return dict.fromkeys(self.arrays(), transitions)


class Frames:
    """Stores each frame once; observations are stacked again from frames when they are read.

    An observation is a stack of k frames along one axis, newest last. The next observation drops the oldest frame and
    adds one. k is 1 for observations that are not stacks. The first observation of an episode is stored whole, so its
    padding is kept. A lane (the ring of one env) has room for some more frames than transitions; if episodes are so
    short that this is not enough, the oldest transitions are dropped.

    Args:
        space: the observation space.
        slots: transitions per lane.
        lanes: one per env.
        stack: k, for all leaves or by path (others: 1).
        axis: axis of an observation along which frames are stacked.
    """

    def __init__(self, space: Space[Any], slots: int, lanes: int, stack: int | Mapping[str, int], axis: int) -> None:
        self.storage = Storage(space, (0, 0))
        self._stacks = [_stack_of(leaf, stack, axis) for leaf in self.storage.layout.leaves]
        self._axis, self._lanes, self._deepest = axis, lanes, max(self._stacks)
        self._room = slots + slots // 8 + 2 * self._deepest + 1
        leaves = zip(self.storage.layout.leaves, self._stacks, strict=True)
        stacks = ((np.empty((0, *leaf.shape), leaf.dtype), k) for leaf, k in leaves)
        self._frames = [
            np.zeros((self._room * lanes, *self._frame(stack, k, 0).shape[1:]), stack.dtype) for stack, k in stacks
        ]
        self._newest = np.zeros(slots * lanes, np.int64)
        """For each transition: the number, within its lane, of its observation's newest frame."""
        self._written = np.zeros(lanes, np.int64)
        self._checks = CHECKED

    def write(self, index: Any, lanes: np.ndarray, rows: Any, obs: Any, next_obs: Any, fresh: np.ndarray) -> None:
        """Store the rows of a batch at `index`; `fresh` rows do not continue the episode last stored in their lane."""
        obs, following = self.storage.flat(obs), self.storage.flat(next_obs)
        positions = np.arange(len(fresh)) if rows is None else np.flatnonzero(rows)
        begin = np.flatnonzero(fresh)
        self._written[lanes[begin]] += self._deepest
        for column, k, now, after in zip(self._frames, self._stacks, obs, following, strict=True):
            for back in range(k if len(begin) else 0):
                at = self._place(self._written[lanes[begin]] - 1 - back, lanes[begin])
                put(column, at, self._frame(np.asarray(now)[positions[begin]], k, k - 1 - back))
            self._check(column, k, lanes, np.asarray(now)[positions], np.asarray(after)[positions])
            newest = self._frame(np.asarray(after)[positions], k, k - 1)
            put(column, self._place(self._written[lanes], lanes), newest)
        self._checks = max(0, self._checks - 1)
        self._newest[index] = self._written[lanes] - 1
        self._written[lanes] += 1

    def read(self, index: np.ndarray, last: np.ndarray) -> tuple[Any, Any]:
        """Observations of the transitions `index`, and successors of the transitions `last`."""
        obs = self._stacked(self._newest[index], index % self._lanes)
        return obs, self._stacked(self._newest[last] + 1, last % self._lanes)

    def lost(self, index: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Whether frames of these transitions were overwritten."""
        return self._newest[index] - (self._deepest - 1) < self._written[lanes] - self._room

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        frames = {f"frames{leaf}": array for leaf, array in enumerate(self._frames)}
        return {**frames, "newest": self._newest, "written": self._written}

    def rows(self, transitions: int, arrays: dict[str, np.ndarray]) -> dict[str, int]:
        """How many rows of each of these arrays are in use, given how many rows of transitions are."""
        frames = min(int(arrays["written"].max()), self._room) * self._lanes
        return {**{f"frames{leaf}": frames for leaf in range(len(self._frames))}, "newest": transitions}

    def _stacked(self, newest: np.ndarray, lanes: np.ndarray) -> Any:
        leaves = []
        for column, k, leaf in zip(self._frames, self._stacks, self.storage.layout.leaves, strict=True):
            if k == 1:
                leaves.append(column.take(self._place(newest, lanes), 0))
                continue
            out = np.empty((len(newest), *leaf.shape), leaf.dtype)
            for position in range(k):
                self._frame(out, k, position)[...] = column[self._place(newest - (k - 1 - position), lanes)]
            leaves.append(out)
        return self.storage.nest(leaves)

    def _place(self, number: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        return number % self._room * self._lanes + lanes

    def _frame(self, batch: np.ndarray, k: int, position: int) -> np.ndarray:
        """One frame of a batch of stacks. A view."""
        if k == 1:
            return batch
        axis = self._axis + 1 if self._axis >= 0 else batch.ndim + self._axis
        depth = batch.shape[axis] // k
        return batch[(slice(None),) * axis + (slice(position * depth, (position + 1) * depth),)]

    def _check(self, column: np.ndarray, k: int, lanes: np.ndarray, now: np.ndarray, after: np.ndarray) -> None:
        if not self._checks or column.dtype == object:
            return
        nan = column.dtype.kind == "f"
        stored = column[self._place(self._written[lanes] - 1, lanes)]
        same = np.array_equal(self._frame(now, k, k - 1), stored, equal_nan=nan)
        for position in range(1, k):
            same &= np.array_equal(self._frame(now, k, position), self._frame(after, k, position - 1), equal_nan=nan)
        if not same:
            raise SpaceError(
                f"observations are not stacks of {k} frames that follow each other (newest last, axis {self._axis}); "
                "pass stack= and axis= as they were stacked, or cut() where an env was reset by hand"
            )


def _stack_of(leaf: Leaf, stack: int | Mapping[str, int], axis: int) -> int:
    k = stack if isinstance(stack, int) else stack.get(leaf.path, 1)
    if k < 1 or (k > 1 and (not leaf.shape or leaf.shape[axis] % k)):
        raise SpaceError(
            f"{leaf.space} is not a stack of {k} frames along axis {axis}; pass stack={{path: k}} for some leaves"
        )
    return k
