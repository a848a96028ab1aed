"""A small env whose observations contain their origin."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class LawEnv(gymnasium.Env[np.ndarray, Any]):
    """Observes [index, episode, step, a random number, last action], always in the same array.

    Episodes of env i have 3 + i steps and end alternately in termination and truncation. The reward is random too.

    Args:
        index: number of the env.
        fail_at: the step of the first episode in which it raises, None for never.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # Gymnasium reads it from the class

    def __init__(self, index: int = 0, fail_at: int | None = None) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
        self.action_space = spaces.Discrete(3)
        self._index = index
        self._fail_at = fail_at
        self._buffer = np.zeros(5)
        self._episode = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._episode += 1
        self._buffer[:] = self._index, self._episode, 0, self.np_random.random(), -1
        return self._buffer, {"began": self._episode}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step; most infos are empty."""
        step = int(self._buffer[2]) + 1
        if step == self._fail_at and self._episode == 1:
            raise ValueError(f"env {self._index} fails at this step on purpose")
        self._buffer[2:] = step, self.np_random.random(), action
        ended = step >= 3 + self._index
        info = {"ended": self._episode} if ended else {}
        terminated, truncated = ended and self._episode % 2 == 0, ended and self._episode % 2 == 1
        return self._buffer, self.np_random.random(), terminated, truncated, info
