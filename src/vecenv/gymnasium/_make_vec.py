"""`gymnasium.make_vec` with vecenv's vector envs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import VectorizeMode
from gymnasium.envs.registration import EnvSpec

from vecenv._util.specs import without_module
from vecenv.engines.python.factories import MakeEnv, importable
from vecenv.gymnasium._async import AsyncVectorEnv
from vecenv.gymnasium._sync import SyncVectorEnv

_OURS = (VectorizeMode.SYNC, VectorizeMode.ASYNC, VectorizeMode.SYNC.value, VectorizeMode.ASYNC.value)


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    vectorization_mode: VectorizeMode | str | None = None,
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Any] | None = None,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv:
    """Like `gymnasium.make_vec`, with vecenv's "sync" and "async"; "vector_entry_point" uses the env's own entry point.

    Args:
        id: a Gymnasium id or EnvSpec.
        num_envs: number of envs.
        vectorization_mode: "sync", "async" or "vector_entry_point"; None: the env's entry point if it has one, else
            "sync".
        vector_kwargs: arguments of SyncVectorEnv or AsyncVectorEnv.
        wrappers: applied to every single env.
        **kwargs: constructor arguments of the envs.
    """
    spec = copy.deepcopy(id if isinstance(id, EnvSpec) else gymnasium.spec(without_module(id)))
    mode = spec.kwargs.pop("vectorization_mode", vectorization_mode)
    if mode is None and spec.vector_entry_point is None:
        mode = VectorizeMode.SYNC
    if mode not in _OURS or spec.entry_point is None:
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
