"""vecenv: many reinforcement-learning environments as one."""

import importlib as _importlib
from typing import Any as _Any

from vecenv import kernel
from vecenv._batch.batch import Op
from vecenv._front.infos import infos_to_list
from vecenv._front.stats import Stats
from vecenv._front.step import Step
from vecenv._front.vector_env import VectorEnv
from vecenv._make.make import make
from vecenv._make.registration import make_env
from vecenv._make.registration import register_all as _register_all
from vecenv._make.registration import register_kernel as _register_kernel
from vecenv._util.version import __version__
from vecenv.kernel.language.registry import when_defined as _when_defined

__all__ = ["Op", "Stats", "Step", "VectorEnv", "__version__", "infos_to_list", "kernel", "make", "make_env"]

_register_all()
_when_defined(_register_kernel)

_SUBPACKAGES = (
    *("agents", "atari", "baselines", "buffers", "distributed", "engines", "envpool", "evaluation", "gym", "gymnasium"),
    *("mujoco", "presets", "recording", "rllib", "rsl_rl", "sb3", "scenarios", "skrl", "testing", "tianshou"),
    *("torchrl", "trainers", "wrappers"),
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
