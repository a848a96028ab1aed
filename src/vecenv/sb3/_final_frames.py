"""Pictures of the last frame of episodes. Envs are reset in the step that ends an episode, so workers take them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import gymnasium

from vecenv.sb3._front import FrontVecEnv
from vecenv.sb3.base_vec_env import VecEnv

_FRAME, _STEP = "_vecenv_final_frame", "_vecenv_plain_step"


class FinalFrames:
    """Pictures of the last frames of episodes of some envs. Kernels and vector envs of other libraries have none.

    Args:
        venv: the vector env, or a wrapper around it.
        rows: env ids.
    """

    def __init__(self, venv: VecEnv, rows: Collection[int]) -> None:
        self._venv, self._rows = venv.unwrapped, frozenset(rows)

    def start(self) -> None:
        """Take pictures from now on."""
        self._at_envs(_watch, self._rows)

    def take(self, rows: Collection[int]) -> dict[int, Any]:
        """The pictures of those of the envs `rows` that ended an episode and have one, by env id."""
        frames = self._at_envs(_take, self._rows.intersection(rows))
        return {row: frame for row, frame in enumerate(frames) if frame is not None}

    def stop(self) -> None:
        """Stop taking pictures."""
        self._at_envs(_unwatch, self._rows)

    def _at_envs(self, function: Callable[..., Any], rows: Collection[int]) -> list[Any]:
        """Call a function with each env and its id, in the process of the env."""
        if not rows:
            return []
        envs = getattr(self._venv, "envs", None)
        if isinstance(envs, list):
            return [function(env, row, rows) for row, env in enumerate(envs)]
        if isinstance(self._venv, FrontVecEnv):
            return self._venv.at_envs(function, rows)
        return []


def _watch(env: gymnasium.Env[Any, Any], row: int, rows: Collection[int]) -> None:
    if row not in rows or _STEP in env.__dict__:
        return
    plain = env.step

    def step(action: Any) -> Any:
        results = plain(action)
        if results[2] or results[3]:
            env.__dict__[_FRAME] = env.render()
        return results

    env.__dict__[_STEP] = env.__dict__.get("step")
    env.__dict__["step"] = step


def _take(env: gymnasium.Env[Any, Any], row: int, rows: Collection[int]) -> Any:
    return env.__dict__.pop(_FRAME, None) if row in rows else None


def _unwatch(env: gymnasium.Env[Any, Any], row: int, rows: Collection[int]) -> None:
    if row not in rows or _STEP not in env.__dict__:
        return
    del env.__dict__["step"]
    own = env.__dict__.pop(_STEP)
    if own is not None:
        env.__dict__["step"] = own
    env.__dict__.pop(_FRAME, None)
