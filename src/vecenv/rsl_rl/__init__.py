"""rsl_rl 5: `VecEnv(vecenv.make(..., autoreset="same-step"))` is an env for its runners."""

from vecenv.rsl_rl._vec_env import VecEnv

__all__ = ["VecEnv"]
