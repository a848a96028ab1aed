"""Rendering envs, and the files that their frames are written to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vecenv.errors import ConfigError, MissingExtra, VecenvError
from vecenv.mujoco._registry import find_task

VIDEOS = (".mp4", ".webm", ".mkv", ".mov", ".avi")
FPS = 30.0
"""Frames per second of envs that do not declare it."""


GL_BACKENDS = ("egl", "osmesa")
"""Ways of MuJoCo to draw without a screen: with the GPU's driver, and in software."""
_NEED_SCREEN = ("glfw", "glx", "enable", "enabled", "on", "true", "1")
_NO_DRAWING = ("disable", "disabled", "off", "false", "0")
"""Other values of MUJOCO_GL that MuJoCo knows."""
_TRY_GL = "import mujoco; context = mujoco.GLContext(64, 64); context.make_current(); context.free()"


def choose_gl(env: Any, trial: Callable[[str], str | None] | None = None) -> None:
    """Set MUJOCO_GL to what works, if this env is drawn by MuJoCo, there is no screen, and the user has not set it.

    Args:
        env: an id, a class, or what else `vecenv.make` takes.
        trial: a function from a name to the error of trying it, None if it works; default: in a process of its own.

    Raises:
        ConfigError: none of them works, or what the user has set needs a screen.
    """
    spec = gymnasium.registry.get(env) if isinstance(env, str) else None
    of_mujoco = find_task(env) is not None or str(getattr(spec, "entry_point", "")).startswith("gymnasium.envs.mujoco")
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform != "linux"
    if not of_mujoco or screen:
        return
    given = os.environ.get("MUJOCO_GL")
    ways = "set MUJOCO_GL=egl or MUJOCO_GL=osmesa, or unset it: then both are tried"
    if given and given.lower() not in (*GL_BACKENDS, *_NEED_SCREEN, *_NO_DRAWING):
        raise ConfigError(f"MUJOCO_GL={given} is unknown to MuJoCo; {ways}")
    if given and given.lower() not in GL_BACKENDS:
        raise ConfigError(
            f"MUJOCO_GL={given} needs a screen, and there is none; {ways}"
            if given.lower() in _NEED_SCREEN
            else f"with MUJOCO_GL={given}, MuJoCo draws nothing; {ways}"
        )
    if given:
        return
    errors = {}
    for name in GL_BACKENDS:
        error = (trial or _try_gl)(name)
        if error is None:
            os.environ["MUJOCO_GL"] = name
            return
        errors[name] = error
    tried = "; ".join(f"MUJOCO_GL={name}: {error}" for name, error in errors.items())
    raise ConfigError(
        f"MuJoCo cannot draw: there is no screen, and nothing else works ({tried}). Install libegl1 with a GPU driver, "
        "or libosmesa6, and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
    )


def _try_gl(name: str) -> str | None:
    """The last line of the error of drawing this way, None if it works."""
    done = subprocess.run(
        [sys.executable, "-c", _TRY_GL], env={**os.environ, "MUJOCO_GL": name, "PYOPENGL_PLATFORM": name},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if not done.returncode:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("Exception ignored")]
    return next((line for line in lines if "Error" in line), f"exit code {done.returncode}").strip()[:120]


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
        refused = "render_mode" in str(error) or "takes no arguments" in str(error)
        if isinstance(error.__cause__, TypeError) and refused:
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
