"""Gymnasium's face: `SyncVectorEnv`, `AsyncVectorEnv` and `make_vec` with Gymnasium's names, order and defaults.

Replace `gymnasium.vector.AsyncVectorEnv` by `vecenv.gymnasium.AsyncVectorEnv` and nothing else changes, except that
it is faster, closes in bounded time, and says which env failed and why.
"""

from vecenv._make.registration import register
from vecenv.gymnasium._async import AsyncVectorEnv
from vecenv.gymnasium._make_vec import make_vec
from vecenv.gymnasium._sync import SyncVectorEnv

__all__ = ["AsyncVectorEnv", "SyncVectorEnv", "make_vec", "register"]
