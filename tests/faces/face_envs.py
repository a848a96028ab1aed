"""Envs and comparisons that the tests of the faces share."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode


class Walk(gymnasium.Env[dict[str, Any], np.int64]):
    """Dict observations, infos of many kinds, episodes of random length that are terminated or truncated."""

    observation_space = Dict({"clock": Discrete(100), "position": Box(-100.0, 100.0, (2,), np.float32)})
    action_space = Discrete(3)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    step_size = 1.0

    def __init__(self, name: str = "walk", seed: int | None = None, render_mode: str | None = None) -> None:
        self.name, self.render_mode, self.asked = name, render_mode, None
        self.clock, self.limit = 0, 0
        self.position = np.zeros(2, np.float32)
        if seed is not None:
            super().reset(seed=seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.asked = options
        self.clock, self.limit = 0, int(self.np_random.integers(2, 7))
        self.position[:] = self.np_random.normal(size=2)
        return self._observe(), {"limit": self.limit}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.clock += 1
        self.position += self.step_size * (int(action) - 1)
        over = self.clock >= self.limit
        info = {"clock": self.clock, "nested": {"odd": self.clock % 2}, "track": self.position.copy()}
        terminated = over and self.limit % 2 == 0
        return self._observe(), float(self.position.sum()), terminated, over and not terminated, info

    def render(self) -> np.ndarray:
        return np.full((2, 3, 3), self.clock, np.uint8)

    def _observe(self) -> dict[str, Any]:
        # The same array every time, as careless envs do: whoever keeps it must copy it.
        return {"clock": self.clock, "position": self.position}


class Breaks(Walk):
    """Fails on its second step."""

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.clock == 1:
            raise ZeroDivisionError("broken")
        return super().step(action)


class Waits(Walk):
    """Its steps wait until somebody opens the named pipe `gate` for writing."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.gate = gate

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with open(self.gate):
            return super().step(action)


class Copying(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Gymnasium keeps final observations by reference, so its own run of Walk needs copies."""

    def step(self, action: Any) -> Any:
        obs, *rest = self.env.step(action)
        return {**obs, "position": obs["position"].copy()}, *rest


def cart_poles(count: int) -> list[Any]:
    return [lambda: gymnasium.make("CartPole-v1", max_episode_steps=15)] * count


def walks(count: int) -> list[Any]:
    return [lambda row=row: Walk(f"walk {row}", seed=row) for row in range(count)]


def oracle(env_fns: list[Any]) -> gymnasium.vector.SyncVectorEnv:
    """Gymnasium's own vector env of the same envs."""
    copying = [lambda fn=fn: Copying(fn()) if isinstance(fn().unwrapped, Walk) else fn() for fn in env_fns]
    return gymnasium.vector.SyncVectorEnv(copying, autoreset_mode=AutoresetMode.SAME_STEP)


def same(ours: Any, theirs: Any) -> bool:
    """Bit-equal, dtypes and structure included; object arrays entry by entry."""
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in theirs)
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    if theirs.dtype == object and theirs.ndim:
        return all(map(same, ours.tolist(), theirs.tolist()))
    return bool(np.array_equal(ours, theirs))


def row_of(batched: Any, row: int) -> Any:
    """One env's part of a batched observation."""
    return {key: value[row] for key, value in batched.items()} if isinstance(batched, dict) else batched[row]
