"""Gymnasium's registry as a door to `vecenv.make`: `gymnasium.make_vec("vecenv:vecenv/<id>", ...)`."""

from __future__ import annotations

import copy
import functools
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, registry

from vecenv._make import make
from vecenv._vector_env import VectorEnv

NAMESPACE = "vecenv"


def register(id: str) -> str:
    """Make an env of Gymnasium's registry available as `vecenv/<id>`, and return that id.

    `gymnasium.make_vec("vecenv/<id>", num_envs=...)` is then `vecenv.make(id, num_envs, ...)`: its keyword arguments go
    to `vecenv.make`, which hands the env's own on. The envs that Gymnasium itself registers are available already.
    """
    ours = f"{NAMESPACE}/{id.replace('/', '-')}"
    if ours not in registry:
        _register(gymnasium.spec(id), ours)
    return ours


def register_all() -> None:
    """Make every env that is registered now available under our namespace."""
    for id, spec in list(registry.items()):
        if spec.namespace is None and spec.entry_point is not None:
            _register(spec, f"{NAMESPACE}/{id}")


def _register(spec: EnvSpec, id: str) -> None:
    gymnasium.register(
        id=id,
        entry_point=spec.entry_point,
        vector_entry_point=functools.partial(_make_registered, spec.id),  # type: ignore[arg-type]  # any creator will do
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        additional_wrappers=spec.additional_wrappers,
        kwargs=copy.copy(spec.kwargs),
    )


def _make_registered(id: str, num_envs: int = 1, max_episode_steps: int | None = None, **kwargs: Any) -> VectorEnv:
    """What Gymnasium calls for `vecenv/<id>`."""
    if max_episode_steps != gymnasium.spec(id).max_episode_steps:
        kwargs["max_episode_steps"] = max_episode_steps
    return make(id, num_envs, **kwargs)
