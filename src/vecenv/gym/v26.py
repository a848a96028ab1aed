"""`gym.vector` of gym 0.26 and Gymnasium before 1.0: five values, a dict of arrays with "final_observation"."""

from __future__ import annotations

import gymnasium

from vecenv.gym import _vector_env
from vecenv.gym._make import make_of

__all__ = ["AsyncVectorEnv", "SyncVectorEnv", "make"]


class SyncVectorEnv(_vector_env.SyncVectorEnv, gymnasium.vector.VectorEnv):
    """All envs in this process. Arguments are those of `vecenv.gym.SyncVectorEnv`."""

    step_tuple = 5
    infos = "dict"


class AsyncVectorEnv(_vector_env.AsyncVectorEnv, gymnasium.vector.VectorEnv):
    """Envs in worker processes, several per worker. Arguments are those of `vecenv.gym.AsyncVectorEnv`."""

    step_tuple = 5
    infos = "dict"


make = make_of(SyncVectorEnv, AsyncVectorEnv)
