"""vecenv: many reinforcement-learning environments as one."""

import importlib as _importlib
from typing import Any as _Any

from vecenv import kernel
from vecenv._batch.batch import Op
from vecenv._front.stats import Stats
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.registration import make_env
from vecenv._make.registration import register_all as _register_all
from vecenv._util.version import __version__

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
