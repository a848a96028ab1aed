"""Trainers: PPO, A2C as its special case, and SAC. They need torch."""

import importlib.util as _importlib_util

from vecenv.errors import MissingExtra as _MissingExtra

if _importlib_util.find_spec("torch") is None:
    raise _MissingExtra("trainers need torch: pip install 'vecenv[torch]'")

from vecenv.trainers._policy import Policy  # noqa: E402  # after the check, all of them
from vecenv.trainers._ppo_config import PPOConfig, a2c  # noqa: E402
from vecenv.trainers._progress import Progress  # noqa: E402
from vecenv.trainers._trainer import Trainer  # noqa: E402
from vecenv.trainers.ppo import PPO  # noqa: E402
from vecenv.trainers.sac import SAC, SACConfig  # noqa: E402

__all__ = ["PPO", "SAC", "PPOConfig", "Policy", "Progress", "SACConfig", "Trainer", "a2c"]
