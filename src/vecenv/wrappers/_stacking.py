"""The last few frames of many envs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_TURNS = 4
"""The memory of an env is this many stacks long, so that frames are moved to its front only now and then."""


class Stacker:
    """Keeps the last `depth` frames of every env and joins them, the newest last.

    A stack that is handed out is a new array. When frames are joined on another axis than the first, it is the view of
    an array in which that axis comes first, because that is how frames lie in memory: joining the channels of images
    [height, width, channels] moves no pixel but once, and turning the result to [channels, height, width] moves none.

    Args:
        count: number of envs.
        depth: number of frames in a stack.
        shape: of a frame.
        dtype: of a frame.
        axis: of a frame, on which frames are concatenated; None to put them on a new first axis.
    """

    def __init__(self, count: int, depth: int, shape: tuple[int, ...], dtype: Any, axis: int | None = None) -> None:
        self.depth = depth
        self._axis = None if axis is None else axis % len(shape)
        self._in_front = self._axis in (None, 0)
        axes = list(range(1 + len(shape)))
        if not self._in_front:
            axes.insert(1, axes.pop(1 + (self._axis or 0)))
        self._inwards, self._outwards = tuple(axes), tuple(int(axis) for axis in np.argsort(axes))
        """Transpositions of frames on their way in, and of stacks on their way out."""
        moved = shape if self._axis is None else (shape[self._axis], *shape[: self._axis], *shape[self._axis + 1 :])
        self._stack_shape = (depth, *moved) if self._axis is None else (depth * moved[0], *moved[1:])
        self._frames = np.zeros((count, depth * _TURNS, math.prod(shape)), dtype)
        """Of env e, the frames `_end - depth` ... `_end - 1` are its stack."""
        self._end = depth
        self._everyone = np.arange(count).tobytes()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the stack of one env."""
        if self._axis is None or self._in_front:
            return self._stack_shape
        first, *rest = self._stack_shape
        return (*rest[: self._axis], first, *rest[self._axis :])

    def push(self, rows: np.ndarray, frames: np.ndarray, began: np.ndarray, fill: Any = 0) -> np.ndarray:
        """Add a frame to each of the envs `rows`.

        Args:
            rows: env ids.
            frames: one for each of them.
            began: where the frame is the first of an episode: all earlier ones become `fill`.
            fill: a number or a frame; None to repeat the first frame.

        Returns:
            Their stacks, in the order of rows.
        """
        flat = self._flat(frames)
        first = np.flatnonzero(began) if 1 in began.tobytes() else ()
        if rows.tobytes() != self._everyone:
            return self._push_some(rows, flat, first, fill)
        if self._end == self._frames.shape[1]:
            self._frames[:, : self.depth - 1] = self._frames[:, self._end - self.depth + 1 :]
            self._end = self.depth - 1
        self._frames[:, self._end] = flat
        self._end += 1
        window = self._frames[:, self._end - self.depth : self._end]
        if len(first):
            window[first, :-1] = self._filled(flat, first, fill)
        return self._shown(window.copy())

    def final(self, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """What the stacks of the envs `rows` would be with one more frame. Nothing changes."""
        return self._shown(self._next(rows, self._flat(frames)))

    def current(self, rows: np.ndarray) -> np.ndarray:
        """The stacks of the envs `rows`."""
        return self._shown(self._frames[rows, self._end - self.depth : self._end])

    def state_dict(self) -> dict[str, Any]:
        """The stacks of all envs, a copy."""
        return {"frames": self._frames[:, self._end - self.depth : self._end].copy()}

    def fits(self, state: dict[str, Any]) -> bool:
        """Whether `load_state_dict` takes it."""
        frames, (count, _, size) = np.asarray(state["frames"]), self._frames.shape
        return frames.shape == (count, self.depth, size) and frames.dtype == self._frames.dtype

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned."""
        self._frames[:, self._end - self.depth : self._end] = state["frames"]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _push_some(self, rows: np.ndarray, flat: np.ndarray, first: Any, fill: Any) -> np.ndarray:
        """Others stay where they are, so the stacks of these move by one frame."""
        stacks = self._next(rows, flat)
        if len(first):
            stacks[first, :-1] = self._filled(flat, first, fill)
        self._frames[rows, self._end - self.depth : self._end] = stacks
        return self._shown(stacks)

    def _next(self, rows: np.ndarray, flat: np.ndarray) -> np.ndarray:
        stacks = np.empty((len(rows), self.depth, flat.shape[1]), self._frames.dtype)
        stacks[:, :-1] = self._frames[rows, self._end - self.depth + 1 : self._end]
        stacks[:, -1] = flat
        return stacks

    def _filled(self, flat: np.ndarray, first: Any, fill: Any) -> Any:
        if fill is None:
            return flat[first, None]
        return fill if np.ndim(fill) == 0 else self._flat(np.asarray(fill, self._frames.dtype)[None])

    def _flat(self, frames: np.ndarray) -> np.ndarray:
        """Frames as they lie in memory here."""
        return (frames if self._in_front else frames.transpose(self._inwards)).reshape(len(frames), -1)

    def _shown(self, stacks: np.ndarray) -> np.ndarray:
        stacks = stacks.reshape(len(stacks), *self._stack_shape)
        return stacks if self._in_front else stacks.transpose(self._outwards)
