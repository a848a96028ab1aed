"""Trainers: PPO, A2C as its special case, PPO for groups of agents, SAC and DQN. They need torch."""

import importlib.util as _importlib_util

from vecenv.errors import MissingExtra as _MissingExtra

if _importlib_util.find_spec("torch") is None:
    raise _MissingExtra("trainers need torch: pip install 'vecenv[torch]'")

from vecenv.trainers._actor_critic import Network  # this and the next imports must come after the check
from vecenv.trainers._evaluation import PeriodicEvaluation
from vecenv.trainers._policy import Policy
from vecenv.trainers._ppo_config import PPOConfig, a2c
from vecenv.trainers._progress import Progress
from vecenv.trainers._settings import Settings
from vecenv.trainers._trainer import Trainer
from vecenv.trainers.dqn import DQN, DQNConfig
from vecenv.trainers.group_ppo import GroupPPO
from vecenv.trainers.loggers import CSV, Logger, TensorBoard, WandB
from vecenv.trainers.ppo import PPO
from vecenv.trainers.sac import SAC, SACConfig

__all__ = [
    "CSV",
    "DQN",
    "PPO",
    "SAC",
    "DQNConfig",
    "GroupPPO",
    "Logger",
    "Network",
    "PPOConfig",
    "PeriodicEvaluation",
    "Policy",
    "Progress",
    "SACConfig",
    "Settings",
    "TensorBoard",
    "Trainer",
    "WandB",
    "a2c",
]
