"""Episodes to be watched."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np

from vecenv.cli._policies import Random
from vecenv.cli._screen import Bar
from vecenv.cli._sources import Source
from vecenv.errors import ConfigError, EnvError, MissingExtra, VecenvError
from vecenv.evaluation._policies import Actor

FPS = 30.0
"""Of envs that do not say."""


class Sink(Protocol):
    """What takes frames.

    Attributes:
        every: of so many frames it wants one; the others need not be drawn.
    """

    every: int

    def write(self, frame: np.ndarray) -> None:
        """Take a frame: uint8, [height, width, 3]."""
        ...

    def close(self) -> None:
        """There are no more."""
        ...


def play(
    source: Source,
    policy: Any,
    open_sink: Callable[[float], Sink],
    *,
    seed: int = 0,
    episodes: int = 1,
    max_steps: int = 1000,
    deterministic: bool = True,
    progress: Bar | None = None,
) -> list[dict[str, Any]]:
    """Run episodes and hand their frames out.

    Args:
        source: the env.
        policy: what `evaluate` takes; None acts at random.
        open_sink: from frames per second to what takes the frames.
        seed: of the first episode, the others count on.
        episodes: how many.
        max_steps: of each.
        deterministic: as for `evaluate`.
        progress: told of episodes, and of parts of them.

    Returns:
        Seed, return and length of each episode, and whether it came to its end.
    """
    envs = _drawn(source)
    try:
        actor = Actor(policy or Random(envs.action_space, seed), envs, deterministic)
        sink = open_sink(float(envs.metadata.get("render_fps") or FPS))
        try:
            told = []
            for number in range(episodes):
                told.append(_episode(envs, actor, sink, seed + number, max_steps, number, progress))
            return told
        finally:
            sink.close()
    finally:
        envs.close()


def _episode(
    envs: Any, actor: Actor, sink: Sink, seed: int, max_steps: int, number: int, progress: Bar | None
) -> dict[str, Any]:
    rows, starts = np.zeros(1, np.int64), np.ones(1, np.bool_)
    obs, info = envs.reset(seed=seed)
    sink.write(_frame(envs))
    total, length, done = 0.0, 0, False
    while not done and length < max_steps:
        actions = actor.act(obs, rows, starts, actor.masks(info, rows, np.ones(1, np.bool_)))
        starts = np.zeros(1, np.bool_)
        obs, reward, terminated, truncated, info = envs.step(actions)
        total, length, done = total + float(reward[0]), length + 1, bool(terminated[0] or truncated[0])
        if length % sink.every == 0 or done:
            sink.write(_frame(envs))
        if progress is not None:
            progress.update(number + (1.0 if done else length / max_steps), f"step {length}")
    return {"seed": seed, "return": total, "length": length, "ended": done}


def _drawn(source: Source) -> Any:
    """One env that draws itself."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame looks for a screen and loudspeakers, and complains
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        return source.make(1, engine="sync", autoreset="disabled", env_kwargs={"render_mode": "rgb_array"})
    except EnvError as error:
        if isinstance(error.__cause__, TypeError) and "render_mode" in str(error):
            raise ConfigError(
                f"{source.name} cannot be watched: its constructor takes no render_mode (give it one, and return a "
                "uint8 array [height, width, 3] from render() when it is 'rgb_array')"
            ) from error
        raise _missing(error) or error from error


def _frame(envs: Any) -> np.ndarray:
    try:
        frames = envs.render()
    except (VecenvError, gymnasium.error.Error) as error:
        raise _missing(error) or error from error
    frame = None if frames is None else frames[0]
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        got = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise ConfigError(
            f"render() must return a uint8 array [height, width, 3] with render_mode='rgb_array', got {got}"
        )
    return frame


def _missing(error: BaseException) -> MissingExtra | None:
    """What to install, if that is what it is about."""
    lacks = isinstance(error, gymnasium.error.DependencyNotInstalled) or "not installed" in str(error)
    return MissingExtra(f"drawing needs a package ({error}): pip install 'vecenv[render]'") if lacks else None
