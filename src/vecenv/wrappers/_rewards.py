"""Wrappers of rewards."""

from __future__ import annotations

import gymnasium
import numpy as np

from vecenv._exchange import Exchange
from vecenv.errors import ConfigError
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._wrapper import Wrapper


class ClipReward(Wrapper):
    """Rewards between two bounds.

    Args:
        env: the vector env.
        min_reward, max_reward: bounds, None for none; at least one of them.
    """

    def __init__(
        self, env: gymnasium.vector.VectorEnv, min_reward: float | None = None, max_reward: float | None = None
    ) -> None:
        super().__init__(env, RewardClip(min_reward, max_reward))


class RewardClip(Transform):
    """Rewards between two bounds."""

    def __init__(self, low: float | None, high: float | None) -> None:
        if low is None and high is None:
            raise ConfigError("both min_reward and max_reward are None; give at least one bound")
        if low is not None and high is not None and low > high:
            raise ConfigError(f"min_reward must be at most max_reward, got {low} and {high}")
        self._low, self._high = low, high

    def exchange(self, exchange: Exchange) -> None:
        exchange.reward = np.clip(exchange.reward, self._low, self._high)
