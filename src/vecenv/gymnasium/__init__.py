"""Gymnasium's interface: `SyncVectorEnv`, `AsyncVectorEnv` and `make_vec` with its names, argument order and defaults.

Replace `gymnasium.vector.AsyncVectorEnv` by `vecenv.gymnasium.AsyncVectorEnv` and nothing else changes, except that
it is faster, closes in bounded time, and its errors say which env failed and why.
"""

from vecenv._make.registration import register
from vecenv.gymnasium._async import AsyncVectorEnv
from vecenv.gymnasium._make_vec import make_vec
from vecenv.gymnasium._sync import SyncVectorEnv

__all__ = ["AsyncVectorEnv", "SyncVectorEnv", "make_vec", "register"]
