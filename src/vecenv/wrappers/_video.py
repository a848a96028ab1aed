"""Video files, written while the envs run."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv._util.descriptors import open_standard_descriptors
from vecenv._util.extras import load_extra
from vecenv.errors import ClosedError, ConfigError, SpaceError

_PATIENCE = 60.0
"""Seconds that an encoder has to finish a file whose frames it has."""


class VideoFile:
    """A video that frames are streamed to. No frame is kept; the file appears with the first one.

    Args:
        path: where; the suffix (".mp4") chooses the format. Missing directories are made. An existing file is
            replaced.
        fps: frames per second.

    Attributes:
        frames: how many were written.

    Raises:
        MissingExtra: imageio-ffmpeg is not installed.
    """

    def __init__(self, path: str | Path, fps: float) -> None:
        if not fps > 0:
            raise ConfigError(f"fps must be positive, got {fps}")
        self.path = Path(path).absolute()
        self.frames = 0
        self._fps = fps
        ffmpeg = load_extra("imageio_ffmpeg", "videos need imageio-ffmpeg: pip install 'vecenv[video]'")
        self._program: str = ffmpeg.get_ffmpeg_exe()
        self._encoder: _Encoder | None = None
        self._shape: tuple[int, ...] = ()
        self._closed = False

    def write(self, frame: np.ndarray) -> None:
        """Add a frame: uint8, [height, width, 3], all of one size. Odd sizes get a black line: encoders need even ones.

        Raises:
            SpaceError: the frame has another dtype or shape. The video stays open.
            OSError: the encoder failed; the message has its error output.
        """
        if self._closed:
            raise ClosedError(f"the video {self.path} is closed")
        self._check(frame)
        height, width, _ = self._shape = frame.shape
        if self._encoder is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._encoder = _Encoder(self._program, self.path, (width + width % 2, height + height % 2), self._fps)
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)))
        try:
            self._encoder.write(np.ascontiguousarray(frame))
        except BaseException:  # an interrupt may have cut the frame short: no other frame can follow it
            self.close()  # which raises if the encoder failed, and says why
            raise
        self.frames += 1

    def close(self) -> None:
        """Finish the file, so that players can read it. Without frames there is none.

        May be called again; after Ctrl-C it does the rest.
        """
        self._closed = True
        if self._encoder is not None:
            try:
                self._encoder.close()
            except Exception:
                self._encoder = None
                raise
            self._encoder = None

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_encoder", None) is not None:  # also if an interrupt cut `close` short
            self.close()

    def _check(self, frame: Any) -> None:
        if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise SpaceError(
                f"a frame must be a uint8 array of shape (height, width, 3), got {_describe(frame)}; "
                "make the envs with render_mode='rgb_array'"
            )
        if self._shape and frame.shape != self._shape:
            raise SpaceError(f"frames of one video have one size: the first had {self._shape}, this has {frame.shape}")


class _Encoder:
    """An ffmpeg process that reads raw frames. It finishes its file when its input ends, even if this process died."""

    def __init__(self, program: str, path: Path, size: tuple[int, int], fps: float) -> None:
        self._path = path
        open_standard_descriptors()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # open until close()
        frames = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", str(fps), "-i", "-"]
        self._process = subprocess.Popen(
            [program, "-y", "-v", "error", *frames, "-an", "-pix_fmt", "yuv420p", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            bufsize=0,  # or a forked child would write what is buffered once more
            start_new_session=sys.platform != "win32",  # Ctrl-C must not stop the encoder: the end of its input does
        )
        assert self._process.stdin is not None
        self._input = self._process.stdin
        _encoders.add(self)

    def write(self, frame: np.ndarray) -> None:
        left = frame.reshape(-1).data
        while left:
            left = left[self._input.write(left) :]

    def let_go(self) -> None:
        """In a forked child: close its copy of the pipe, or the input would not end when the parent closes it."""
        self._input.close()

    def close(self) -> None:
        if self._complaints.closed:
            return
        with contextlib.suppress(OSError):  # the encoder has ended; its return code is checked below
            self._input.close()
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._complaints.close()
            raise
        with self._complaints:
            if code:
                self._complaints.seek(0)
                reason = self._complaints.read().decode(errors="replace").strip()
                raise OSError(f"the video {self._path} could not be written: {reason}")


_encoders: weakref.WeakSet[_Encoder] = weakref.WeakSet()


def _let_go_of_all() -> None:
    for encoder in list(_encoders):
        encoder.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_of_all)


def check_draws(env: gymnasium.vector.VectorEnv, who: str) -> None:
    """Raise ConfigError unless the envs draw frames."""
    if env.render_mode != "rgb_array":
        raise ConfigError(
            f"{who} needs envs that draw frames, these have render_mode={env.render_mode!r}; "
            "make them with render_mode='rgb_array'"
        )


def tile(frames: Sequence[np.ndarray]) -> np.ndarray:
    """N frames of one size as one picture: ceil(sqrt(N)) rows, as many columns as needed, the rest is black.

    Row by row from the upper left. A single frame is returned as it is.
    """
    if len(frames) == 1:
        return frames[0]
    shapes = {np.shape(frame) for frame in frames}
    if len(shapes) != 1 or len(next(iter(shapes))) != 3:
        raise SpaceError(f"frames that are tiled must be [height, width, channels], all of one size; got {shapes}")
    height, width, channels = next(iter(shapes))
    rows = math.ceil(math.sqrt(len(frames)))
    columns = math.ceil(len(frames) / rows)
    picture = np.zeros((rows, height, columns, width, channels), np.asarray(frames[0]).dtype)
    for position, frame in enumerate(frames):
        picture[position // columns, :, position % columns] = frame
    return picture.reshape(rows * height, columns * width, channels)


def _describe(frame: Any) -> str:
    return f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
