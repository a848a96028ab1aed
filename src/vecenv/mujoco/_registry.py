"""Tasks by id: Gymnasium's, and those that users define."""

from __future__ import annotations

import importlib
from typing import Any

from gymnasium.envs.registration import EnvSpec, registry

from vecenv.mujoco._task import TASKS, Task

GYMNASIUM = {
    "Ant-v5": "ant",
    "HalfCheetah-v4": "half_cheetah",
    "HalfCheetah-v5": "half_cheetah",
    "Hopper-v5": "hopper",
    "Humanoid-v5": "humanoid",
    "HumanoidStandup-v5": "humanoid",
    "InvertedDoublePendulum-v5": "pendulums",
    "InvertedPendulum-v5": "pendulums",
    "Pusher-v5": "pusher",
    "Reacher-v5": "reacher",
    "Swimmer-v4": "swimmer",
    "Swimmer-v5": "swimmer",
    "Walker2d-v5": "walker2d",
}
"""Module in `vecenv.mujoco.tasks` of each id."""


def find_task(env: Any) -> type[Task] | None:
    """The task of a class, an id or a spec. An id of Gymnasium only as long as its spec is Gymnasium's own."""
    if isinstance(env, type):
        return env if issubclass(env, Task) and env is not Task else None
    if isinstance(env, EnvSpec) and env.id in GYMNASIUM and env == registry.get(env.id):
        env = env.id
    if not isinstance(env, str):
        return None
    if env in GYMNASIUM:
        own = env in registry and str(registry[env].entry_point).startswith("gymnasium.envs.")
        if not own:
            return None
        importlib.import_module(f"vecenv.mujoco.tasks.{GYMNASIUM[env]}")
    return TASKS.get(env)
