"""Tianshou 2: `VectorEnv(vecenv.make(..., autoreset="disabled"))` is a vector env for its collectors."""

from vecenv.tianshou._vector_env import VectorEnv

__all__ = ["VectorEnv"]
