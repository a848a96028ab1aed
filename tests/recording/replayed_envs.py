"""Envs that are recorded and replayed: good ones, and those that keep something from the recorder."""

import os
import signal
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple


class Walk(gymnasium.Env):
    """A random walk; each step adds the action and a little noise. Fails as told."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(3)

    def __init__(self, fails_at=None, length=50, render_mode=None):
        self.fails_at, self.length, self.render_mode = fails_at, length, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.steps = self.np_random.normal() + (options or {}).get("shift", 0.0), 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        self.x += int(action) - 1 + 0.01 * self.np_random.normal()
        if self.steps == self.fails_at:
            raise ZeroDivisionError(f"the walk broke at {self.steps}")
        return self._obs(), float(self.x), False, self.steps >= self.length, {}

    def _obs(self):
        return np.array([self.x, self.steps])

    def render(self):
        frame = np.zeros((20, 40, 3), np.uint8)
        frame[:, int(np.clip(20 + 3 * self.x, 0, 39))] = 255
        return frame


class GlobalNoise(Walk):
    """Draws from NumPy's global stream, from the third step on."""

    def step(self, action):
        result = super().step(action)
        if self.steps >= 3:
            self.x += np.random.random()
            return self._obs(), *result[1:]
        return result


class Drifting(Walk):
    """Keeps something from one episode to the next."""

    drift = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.drift += 1.0
        return self._obs(), {}

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward + self.drift, *rest


class Nested(gymnasium.Env):
    """All kinds of leaves: a picture, a number, a text."""

    observation_space = Dict({"picture": Box(0, 255, (40, 40), np.uint8), "more": Tuple((Discrete(9), Text(8)))})
    action_space = Dict({"push": Box(-1, 1, (2,), np.float32), "word": Text(3)})

    def __init__(self, spoilt=False):
        self.spoilt = spoilt

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(""), {}

    def step(self, action):
        self.steps += 1
        return self._obs(action["word"]), float(action["push"].sum()), False, False, {}

    def _obs(self, word):
        picture = self.np_random.integers(0, 256, (40, 40)).astype(np.uint8)
        if self.spoilt and self.steps == 2:
            picture[3, 4] ^= 1
        return {"picture": picture, "more": (self.steps, word)}


class Cliff(Walk):
    """Falls off where its stream leads it too far, in some episode or other."""

    def __init__(self, edge=4.0, how="raise", **kwargs):
        super().__init__(**{"length": 8, **kwargs})
        self.edge, self.how = edge, how

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.x <= self.edge:
            return obs, reward, terminated, truncated, info
        if self.how == "raise":
            raise OverflowError(f"over the edge at {self.x}")
        if self.how == "invalid":
            return obs[:1], reward, terminated, truncated, info
        if self.how == "nan":
            return obs * np.nan, reward, terminated, truncated, info
        if self.how == "hang":
            time.sleep(30)
        os.kill(os.getpid(), signal.SIGKILL)
        return None
