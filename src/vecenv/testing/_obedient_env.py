"""An env that fails, waits or ends its process when its action says so."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv.testing._law_env import LawEnv

RAISE, SLOW, EXIT = 3, 4, 5
"""Actions that are orders; 0, 1 and 2 are LawEnv's own."""
SLOW_SECONDS = 0.02


class ObedientEnv(LawEnv):
    """LawEnv with three more actions: 3 raises, 4 waits, 5 ends the process it runs in.

    Attributes:
        index: number of the env.
        bonus: added to every reward from the next episode on.
    """

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.action_space = spaces.Discrete(6)
        self.index = index
        self.bonus = self._paid = 0.0

    @classmethod
    def many(cls, count: int) -> list[partial[ObedientEnv]]:
        """Factories of `count` envs."""
        return [partial(cls, index) for index in range(count)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode."""
        self._paid = self.bonus
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Follow the action's order, or step."""
        if action == RAISE:
            raise ValueError(f"env {self.index} fails because of its action")
        if action == EXIT:
            os._exit(9)
        if action == SLOW:
            time.sleep(SLOW_SECONDS)
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward + self._paid, terminated, truncated, info

    def poke(self, value: int = 0) -> int:
        """A method for `call`: returns the env's index plus `value`."""
        return self.index + value

    def worker_pid(self) -> int:
        """The id of the process that runs this env."""
        return os.getpid()
