"""Rendering envs, and the files that their frames are written to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv.errors import ConfigError, MissingExtra, VecenvError

VIDEOS = (".mp4", ".webm", ".mkv", ".mov", ".avi")
FPS = 30.0
"""Frames per second of envs that do not declare it."""


def check_film(out: Path | None, option: str) -> None:
    """Raise ConfigError unless frames can be written to such a file."""
    if out is not None and out.suffix.lower() not in (".gif", *VIDEOS):
        raise ConfigError(f"{option} must end with .gif or {', '.join(VIDEOS)}, got {out}")


def open_film(out: Path, fps: float) -> Any:
    """Open the GIF or video for the frames."""
    from vecenv.cli._frames import GifFile
    from vecenv.wrappers._video import VideoFile

    return GifFile(out, fps) if out.suffix.lower() == ".gif" else VideoFile(out, fps)


@contextlib.contextmanager
def drawing(name: str) -> Iterator[None]:
    """Context for making or rendering the env of this name; its errors say what to do."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # otherwise pygame looks for a screen and sound, and warns
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        yield
    except (VecenvError, gymnasium.error.Error) as error:
        if isinstance(error.__cause__, TypeError) and "render_mode" in str(error):
            raise ConfigError(
                f"{name} cannot be rendered: its constructor takes no render_mode (add it, and return a uint8 array "
                "[height, width, 3] from render() when it is 'rgb_array')"
            ) from error
        lacks = isinstance(error, gymnasium.error.DependencyNotInstalled) or "not installed" in str(error)
        if lacks:
            raise MissingExtra(f"rendering needs a package ({error}): pip install 'vecenv[render]'") from error
        raise


def checked_frame(frame: Any) -> np.ndarray:
    """The result of `render`, if it is a frame."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        got = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise ConfigError(
            f"render() must return a uint8 array [height, width, 3] with render_mode='rgb_array', got {got}"
        )
    return frame
