"""Pictures of the last frame of episodes. Envs are reset in the step that ends an episode, so workers take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from vecenv.sb3._front import FrontVecEnv
from vecenv.sb3.base_vec_env import VecEnv

_FRAME, _STEP = "_vecenv_final_frame", "_vecenv_plain_step"


def at_envs(venv: VecEnv, rows: list[int], function: Callable[[gymnasium.Env[Any, Any]], Any]) -> list[Any]:
    """Call a function with each of these envs, in its process; empty for kernels and vector envs of other libraries."""
    inner = venv.unwrapped
    envs = getattr(inner, "envs", None)
    if isinstance(envs, list):
        return [function(envs[row]) for row in rows]
    return inner.at_envs(rows, function) if isinstance(inner, FrontVecEnv) else []


def watch(env: gymnasium.Env[Any, Any]) -> None:
    """Take a picture at the end of each episode from now on."""
    if _STEP in env.__dict__:
        return
    plain = env.step

    def step(action: Any) -> Any:
        results = plain(action)
        if results[2] or results[3]:
            env.__dict__[_FRAME] = env.render()
        return results

    env.__dict__[_STEP] = env.__dict__.get("step")
    env.__dict__["step"] = step


def take(env: gymnasium.Env[Any, Any]) -> Any:
    """The picture that was taken last, once; None if there is none."""
    return env.__dict__.pop(_FRAME, None)


def unwatch(env: gymnasium.Env[Any, Any]) -> None:
    """Take no more pictures."""
    if _STEP not in env.__dict__:
        return
    del env.__dict__["step"]
    own = env.__dict__.pop(_STEP)
    if own is not None:
        env.__dict__["step"] = own
    env.__dict__.pop(_FRAME, None)
