"""vecenv: many reinforcement-learning environments as one."""

import importlib as _importlib
from typing import Any as _Any

from vecenv import kernel
from vecenv._batch import Op
from vecenv._make import make
from vecenv._registration import make_env
from vecenv._registration import register_all as _register_all
from vecenv._stats import Stats
from vecenv._step import Step
from vecenv._vector_env import VectorEnv

__version__ = "0.1.0"
__all__ = ["Op", "Stats", "Step", "VectorEnv", "__version__", "kernel", "make", "make_env"]

_register_all()

_SUBPACKAGES = (
    *("atari", "baselines", "buffers", "distributed", "evaluation", "gym", "gymnasium", "mujoco", "rllib", "sb3"),
    *("recording", "scenarios", "testing", "trainers", "wrappers"),
)
_LATE = {"evaluate": "evaluation", "Recording": "recording", "replay": "recording"}
"""Names that are loaded when they are first used, and where from."""


def __getattr__(name: str) -> _Any:
    """Load subpackages when they are first used."""
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"vecenv.{name}")
    if name in _LATE:
        return getattr(_importlib.import_module(f"vecenv.{_LATE[name]}"), name)
    raise AttributeError(f"module 'vecenv' has no attribute {name!r}")
