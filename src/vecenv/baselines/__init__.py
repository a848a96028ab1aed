"""Interface of OpenAI Baselines: `VecEnv` and its three implementations, on vecenv's vector envs.

When an episode ends, the next one begins in the same step, and `obs` is its first observation. Unlike in Baselines
the last observation is not lost: where an episode ended, the info has "terminal_observation" and
"TimeLimit.truncated" (whether it was truncated rather than terminated). The single envs are Gymnasium's.
"""

from gymnasium.vector.utils import clear_mpi_env_vars

from vecenv.baselines._vec_env import (
    AlreadySteppingError,
    CloudpickleWrapper,
    NotSteppingError,
    VecEnv,
    VecEnvObservationWrapper,
    VecEnvWrapper,
)
from vecenv.baselines._vec_envs import DummyVecEnv, ShmemVecEnv, SubprocVecEnv
from vecenv.wrappers._video import tile as tile_images

__all__ = [
    "AlreadySteppingError",
    "CloudpickleWrapper",
    "DummyVecEnv",
    "NotSteppingError",
    "ShmemVecEnv",
    "SubprocVecEnv",
    "VecEnv",
    "VecEnvObservationWrapper",
    "VecEnvWrapper",
    "clear_mpi_env_vars",
    "tile_images",
]
