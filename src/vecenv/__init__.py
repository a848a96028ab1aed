"""vecenv: many reinforcement-learning environments as one."""

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
