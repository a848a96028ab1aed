"""Advice about objects that other libraries call an env, for error messages."""

from __future__ import annotations

from typing import Any

import gymnasium


def advice_about(env: Any) -> str:
    """`; it is ...: what to do instead`, to be appended to a message; "" if nothing is known about such an object."""
    if isinstance(env, gymnasium.Env):
        return f"; it is an env, pass a function that makes one, e.g. lambda: {type(env).__name__}(...)"
    if isinstance(env, gymnasium.vector.VectorEnv):
        return (
            "; it is a vector env already, and make() builds one from single envs: pass an id or a function that makes "
            "one env, and num_envs. vecenv.wrappers and vecenv.sb3.wrap take vector envs as they are"
        )
    packages = {kind.__module__.partition(".")[0] for kind in type(env).__mro__}
    if "stable_baselines3" in packages or _has(env, "step_async", "step_wait", "env_is_wrapped"):
        return (
            "; it is a VecEnv of Stable-Baselines3 already: pass the function that makes one of its envs, and "
            "num_envs. vecenv.sb3.wrap(vecenv.make(...)) is a VecEnv again"
        )
    if "pettingzoo" in packages or _has(env, "possible_agents", "step"):
        return (
            "; it is an env with several agents (PettingZoo): pass a function that makes one, e.g. "
            f"lambda: {type(env).__name__}(...), or its name, e.g. 'pettingzoo:mpe2.simple_spread_v3'"
        )
    if "gym" in packages:
        return (
            "; it is an env of gym, the predecessor of Gymnasium: pip install 'shimmy[gym-v26]' and pass "
            "lambda: gymnasium.make('GymV26Environment-v0', env=...)"
        )
    return ""


def _has(env: Any, *names: str) -> bool:
    return all(hasattr(env, name) for name in names)
