"""rsl_rl 5: `VecEnv(vecenv.make(..., autoreset="same-step"))` is an env for its runners."""

from vecenv._util.extras import load_client as _load_client

_load_client("rsl_rl", "rsl-rl-lib", "5.")  # before torch, which it brings

from vecenv.rsl_rl._vec_env import VecEnv

__all__ = ["VecEnv"]
