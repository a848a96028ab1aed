"""The names and modules of `stable_baselines3.common.vec_env`, on top of vecenv's vector envs.

    from vecenv.sb3 import SubprocVecEnv, VecNormalize
    model = PPO("MlpPolicy", VecNormalize(SubprocVecEnv([make_env] * 64)))

`wrap(vecenv.make("CartPole-v1", 1024, autoreset="same-step"))` is such a VecEnv too, and `from_sb3` goes the other way.
Where Stable-Baselines3 is installed, all of them are instances of its `VecEnv`, and the first use of one of these names
imports it. Without it everything works except `RolloutBuffer` and `ReplayBuffer`. Worker processes never import it.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from vecenv.sb3._buffers import ReplayBuffer, RolloutBuffer
    from vecenv.sb3._chains import (
        is_vecenv_wrapped,
        sync_envs_normalization,
        unwrap_vec_normalize,
        unwrap_vec_wrapper,
    )
    from vecenv.sb3._wrap import from_sb3, unwrap, wrap
    from vecenv.sb3.base_vec_env import CloudpickleWrapper, VecEnv, VecEnvWrapper
    from vecenv.sb3.dummy_vec_env import DummyVecEnv
    from vecenv.sb3.env_util import make_atari_env, make_vec_env
    from vecenv.sb3.evaluation import evaluate_policy
    from vecenv.sb3.monitor import Monitor, load_results
    from vecenv.sb3.stacked_observations import StackedDictObservations, StackedObservations
    from vecenv.sb3.subproc_vec_env import SubprocVecEnv
    from vecenv.sb3.vec_check_nan import VecCheckNan
    from vecenv.sb3.vec_extract_dict_obs import VecExtractDictObs
    from vecenv.sb3.vec_frame_stack import VecFrameStack
    from vecenv.sb3.vec_monitor import VecMonitor
    from vecenv.sb3.vec_normalize import VecNormalize
    from vecenv.sb3.vec_transpose import VecTransposeImage
    from vecenv.sb3.vec_video_recorder import VecVideoRecorder

_NAMES = {
    "_buffers": ("ReplayBuffer", "RolloutBuffer"),
    "_chains": ("is_vecenv_wrapped", "sync_envs_normalization", "unwrap_vec_normalize", "unwrap_vec_wrapper"),
    "_wrap": ("from_sb3", "unwrap", "wrap"),
    "base_vec_env": ("CloudpickleWrapper", "VecEnv", "VecEnvWrapper"),
    "dummy_vec_env": ("DummyVecEnv",),
    "env_util": ("make_atari_env", "make_vec_env"),
    "evaluation": ("evaluate_policy",),
    "monitor": ("Monitor", "load_results"),
    "stacked_observations": ("StackedDictObservations", "StackedObservations"),
    "subproc_vec_env": ("SubprocVecEnv",),
    "vec_check_nan": ("VecCheckNan",),
    "vec_extract_dict_obs": ("VecExtractDictObs",),
    "vec_frame_stack": ("VecFrameStack",),
    "vec_monitor": ("VecMonitor",),
    "vec_normalize": ("VecNormalize",),
    "vec_transpose": ("VecTransposeImage",),
    "vec_video_recorder": ("VecVideoRecorder",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [  # noqa: RUF022  # Stable-Baselines3's, then what it has elsewhere, then ours
    "CloudpickleWrapper",
    "DummyVecEnv",
    "StackedDictObservations",
    "StackedObservations",
    "SubprocVecEnv",
    "VecCheckNan",
    "VecEnv",
    "VecEnvWrapper",
    "VecExtractDictObs",
    "VecFrameStack",
    "VecMonitor",
    "VecNormalize",
    "VecTransposeImage",
    "VecVideoRecorder",
    "is_vecenv_wrapped",
    "sync_envs_normalization",
    "unwrap_vec_normalize",
    "unwrap_vec_wrapper",
    "Monitor",
    "evaluate_policy",
    "load_results",
    "make_atari_env",
    "make_vec_env",
    "ReplayBuffer",
    "RolloutBuffer",
    "from_sb3",
    "unwrap",
    "wrap",
]


def __getattr__(name: str) -> _Any:
    """Import the module of a name when the name is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'vecenv.sb3' has no attribute {name!r}")
    return getattr(_importlib.import_module(f"vecenv.sb3.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
