"""`gymnasium.make_vec` with our vector envs, and Gymnasium's registry as a door to `vecenv.make`."""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import VectorizeMode
from gymnasium.envs.registration import EnvSpec, registry

from vecenv._factories import MakeEnv, Wrapper, importable
from vecenv._make import make
from vecenv._vector_env import VectorEnv
from vecenv.gymnasium._async import AsyncVectorEnv
from vecenv.gymnasium._sync import SyncVectorEnv

NAMESPACE = "vecenv"


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Wrapper] | None = None,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv:
    """Make a vector env as `gymnasium.make_vec` does; "sync" and "async" are ours, an env's own entry point is its own.

    Args:
        id: a Gymnasium id or EnvSpec.
        num_envs: how many.
        vectorization_mode: "sync", "async" or "vector_entry_point"; None takes the env's entry point, else "sync".
        vector_kwargs: arguments of SyncVectorEnv or AsyncVectorEnv.
        wrappers: applied to every single env.
        **kwargs: constructor arguments of the envs.
    """
    spec = copy.deepcopy(id if isinstance(id, EnvSpec) else gymnasium.spec(_without_module(id)))
    mode = spec.kwargs.pop("vectorization_mode", vectorization_mode)
    if mode is None and spec.vector_entry_point is None:
        mode = VectorizeMode.SYNC
    if mode is None or VectorizeMode(mode) is VectorizeMode.VECTOR_ENTRY_POINT or spec.entry_point is None:
        return gymnasium.make_vec(id, num_envs, vectorization_mode, vector_kwargs, wrappers, **kwargs)
    mode = VectorizeMode(mode)
    num_envs = spec.kwargs.pop("num_envs", num_envs)
    vector_kwargs = spec.kwargs.pop("vector_kwargs", vector_kwargs) or {}
    wrappers = spec.kwargs.pop("wrappers", wrappers) or []
    env_kwargs = {**spec.kwargs, **kwargs}
    spec.kwargs = {}
    factory = MakeEnv(importable(spec), env_kwargs, tuple(wrappers))
    vectorizer = SyncVectorEnv if mode is VectorizeMode.SYNC else AsyncVectorEnv
    envs = vectorizer([factory] * num_envs, **vector_kwargs)
    spec.kwargs = {**env_kwargs, **_recreating(num_envs, mode, vector_kwargs, wrappers)}
    envs.spec = spec
    return envs


def register(id: str) -> str:
    """Make an env of Gymnasium's registry available as `vecenv/<id>`, and return that id.

    `gymnasium.make_vec("vecenv/<id>", num_envs=...)` is then `vecenv.make(id, num_envs, ...)`: its keyword arguments go
    to `vecenv.make`, which hands the env's own on. The envs that Gymnasium itself registers are available already.
    """
    spec = copy.copy(gymnasium.spec(id))
    ours = f"{NAMESPACE}/{id.replace('/', '-')}"
    if ours not in registry:
        _register(spec, ours)
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


def _without_module(id: str) -> str:
    """Import the module of a "module:id" and return the id."""
    module, colon, name = id.partition(":")
    if not colon:
        return id
    importlib.import_module(module)
    return name


def _recreating(num_envs: int, mode: VectorizeMode, vector_kwargs: Any, wrappers: Any) -> dict[str, Any]:
    """Spec arguments with which `make_vec(envs.spec)` makes the same vector env again."""
    kwargs: dict[str, Any] = {"vectorization_mode": mode.value}
    if num_envs != 1:
        kwargs["num_envs"] = num_envs
    if vector_kwargs:
        kwargs["vector_kwargs"] = vector_kwargs
    if wrappers:
        kwargs["wrappers"] = wrappers
    return kwargs
