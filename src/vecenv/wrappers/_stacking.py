"""The last few frames of many envs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Stacker:
    """Keeps the last `depth` frames of every env and joins them, the newest last.

    A stack that is handed out is a new array. When frames are joined on another axis than the first, it is the view of
    an array in which that axis comes first, because that is how frames lie in memory: joining the channels of images
    [height, width, channels] copies each pixel once, and transposing the result to [channels, height, width] copies
    nothing.

    Args:
        count: number of envs.
        depth: number of frames in a stack.
        shape: of a frame.
        dtype: of a frame.
        axis: of a frame, on which frames are concatenated; None to put them on a new first axis.
    """

    def __init__(self, count: int, depth: int, shape: tuple[int, ...], dtype: Any, axis: int | None = None) -> None:
        self.depth = depth
        self._axis = 0 if axis is None else axis % len(shape)
        others = [index for index in range(len(shape)) if index != self._axis]
        self._inwards = (0, *(1 + index for index in (self._axis, *others))) if self._axis else ()
        self._outwards = tuple(np.argsort(self._inwards).tolist())
        """Transpositions of frames on their way in, and of stacks on their way out, unless the first axis is joined."""
        rest = tuple(shape[index] for index in others)
        self._stack_shape = (depth, *shape) if axis is None else (depth * shape[self._axis], *rest)
        self._frames = np.zeros((count, depth, math.prod(shape)), dtype)
        """A ring: the oldest frames are at `_oldest`, the newest before them."""
        self._oldest = 0
        self._everyone = np.arange(count).tobytes()

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
        everyone = rows.tobytes() == self._everyone
        if everyone:
            self._frames[:, self._oldest] = flat
            self._oldest = (self._oldest + 1) % self.depth
            stacks = self._read(slice(None), len(rows))
        else:
            stacks = self._next(rows, flat)
        if 1 in began.tobytes():
            first = np.flatnonzero(began)
            stacks[first, :-1] = self._filled(flat, first, fill)
            if everyone:
                self._write(first, stacks[first])
        if not everyone:
            self._write(rows, stacks)
        return self._shown(stacks)

    def final(self, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """What the stacks of the envs `rows` would be with one more frame. Nothing changes."""
        return self._shown(self._next(rows, self._flat(frames)))

    def current(self, rows: np.ndarray) -> np.ndarray:
        """The stacks of the envs `rows`."""
        return self._shown(self._read(rows, len(rows)))

    def frames(self) -> np.ndarray:
        """A copy of all frames, [count, depth, size of a frame], the newest last."""
        return self._read(slice(None), len(self._frames))

    def fits(self, frames: Any) -> bool:
        """Whether `restore` takes them."""
        frames = np.asarray(frames)
        return frames.shape == self._frames.shape and frames.dtype == self._frames.dtype

    def restore(self, frames: np.ndarray) -> None:
        """Bring back what `frames` returned."""
        self._write(slice(None), np.asarray(frames))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _read(self, rows: Any, count: int) -> np.ndarray:
        """Stacks, oldest frame first: the ring from its seam on, then what comes before the seam."""
        stacks = np.empty((count, *self._frames.shape[1:]), self._frames.dtype)
        seam = self._oldest
        stacks[:, : self.depth - seam] = self._frames[rows, seam:]
        if seam:
            stacks[:, self.depth - seam :] = self._frames[rows, :seam]
        return stacks

    def _write(self, rows: Any, stacks: np.ndarray) -> None:
        seam = self._oldest
        self._frames[rows, seam:] = stacks[:, : self.depth - seam]
        self._frames[rows, :seam] = stacks[:, self.depth - seam :]

    def _next(self, rows: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """Stacks of some, moved by one frame."""
        stacks = self._read(rows, len(rows))
        stacks[:, :-1] = stacks[:, 1:]
        stacks[:, -1] = flat
        return stacks

    def _filled(self, flat: np.ndarray, first: np.ndarray, fill: Any) -> Any:
        if fill is None:
            return flat[first, None]
        return fill if np.ndim(fill) == 0 else self._flat(np.asarray(fill, self._frames.dtype)[None])

    def _flat(self, frames: np.ndarray) -> np.ndarray:
        """Frames as they lie in memory here."""
        return (frames.transpose(self._inwards) if self._axis else frames).reshape(len(frames), -1)

    def _shown(self, stacks: np.ndarray) -> np.ndarray:
        stacks = stacks.reshape(len(stacks), *self._stack_shape)
        return stacks.transpose(self._outwards) if self._axis else stacks
