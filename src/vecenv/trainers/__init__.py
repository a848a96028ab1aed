"""Trainers: PPO, A2C as its special case, and SAC. They need torch."""

from vecenv.errors import MissingExtra as _MissingExtra

try:
    import torch as _torch
except ImportError:
    raise _MissingExtra("trainers need torch: pip install 'vecenv[torch]'") from None
del _torch

from vecenv.trainers._policy import Policy
from vecenv.trainers._ppo_config import PPOConfig, a2c
from vecenv.trainers._progress import Progress
from vecenv.trainers.ppo import PPO

__all__ = ["PPO", "PPOConfig", "Policy", "Progress", "a2c"]
