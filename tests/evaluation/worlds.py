"""Envs that show their parameters, and policies for them."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv
from vecenv.kernel.rng import uniform

ENGINES = ("compiled", "sync", "thread", "asyncio", "process")


@vecenv.kernel("Drift-v0", max_episode_steps=30)
class Drift:
    """Walks off at a speed that is a parameter; observations show position and speed."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(2)
    state = {"x": float}

    class Params:
        speed = 0.1
        spread = 0.05

    def reset(s, rng, p):
        s.x = uniform(rng, -p.spread, p.spread)

    def step(s, action, rng, p):
        s.x += p.speed * uniform(rng, 0.5, 1.5) if action else -p.speed * uniform(rng, 0.0, 0.5)
        return 1.0 - abs(s.x), abs(s.x) > 1.0

    def observe(s, obs, p):
        obs[0] = s.x
        obs[1] = p.speed


class Counted(gymnasium.Env):
    """A Python env with a constructor argument and a reset option, both seen in observations; counts its own calls."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Discrete(2)
    steps = 0
    resets = 0

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        Counted.resets += 1
        self.start = (options or {}).get("start", 0.0)
        self.left = int(self.np_random.integers(1, 12))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Counted.steps += 1
        self.left -= 1
        reward = self.gain * float(self.np_random.random()) + self.start
        return self._seen(), reward, self.left == 0, False, {}

    def _seen(self) -> np.ndarray:
        return np.array([float(self.left), self.gain, self.start])


def lean(obs: np.ndarray) -> np.ndarray:
    """Walk right where the position is on the left."""
    return (obs[:, 0] < 0.9).astype(np.int64)


def play(
    env: gymnasium.Env, policy: Any, seed: int, options: dict[str, Any], limit: float = math.inf
) -> tuple[float, int]:
    """One episode by a plain loop, up to a number of steps: the oracle."""
    obs, _ = env.reset(seed=seed, options=options or None)
    total, length, over = 0.0, 0, False
    while not over and length < limit:
        obs, reward, terminated, truncated, _ = env.step(policy(obs[None])[0])
        total, length, over = total + reward, length + 1, terminated or truncated
    return total, length
