"""An env that prints. Imports little: programs and workers that have no standard descriptors import it."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


def standard_descriptors() -> list[str | None]:
    """What descriptors 0, 1 and 2 of this process are; None where one is closed."""
    names = [f"/proc/self/fd/{number}" for number in range(3)]
    return [os.readlink(name) if os.path.lexists(name) else None for name in names]


class PrintingEnv(gymnasium.Env[Any, Any]):
    """Writes to these descriptors in every call, if they are open, and so does a child that it has at first."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = 0
        self._print()
        subprocess.run(["/bin/sh", "-c", "echo hello; echo hello >&2"], check=False)

    def _print(self) -> None:
        for number in range(3):
            try:
                os.write(number, b"not a message, but long enough to be taken for one\n")
            except OSError:
                continue

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._print()
        return np.zeros(1), {"an": "info"}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self._print()
        return np.full(1, self.steps, np.float64), 1.0, False, self.steps == 2, {"an": "info"}

    def standard(self) -> list[str | None]:
        return standard_descriptors()
