"""Envs with `async def step`, and ordinary twins of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from vecenv.testing._law_env import LawEnv


class AsyncLawEnv(LawEnv):
    """LawEnv, awaited: it gives way to other envs in the middle of each call."""

    async def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        await asyncio.sleep(0)
        return result

    async def step(self, action):
        await asyncio.sleep(0)
        return super().step(action)

    async def close(self):
        await asyncio.sleep(0)


class Waiting(gymnasium.Env):
    """Waits as long as it is told in every step; observes [its number, steps so far, made so often].

    Args:
        number: of the env.
        seconds: of a step, or one per step; None waits for ever.
        fails: by step, what happens: "raise", "hang", "ignore" (cancellation, until `freed` is set),
            "disconnect", "cancel".
    """

    made: dict[Any, int] = {}
    sent: list[tuple[int, int, Any]] = []

    def __init__(
        self, number: int = 0, seconds: float = 0.0, fails: dict[int, str] | None = None, key: Any = ""
    ) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(1000)
        self.number, self.seconds, self.fails, self.steps = number, seconds, fails or {}, 0
        self.made[key, number] = self.made.get((key, number), 0) + 1
        self.generation = self.made[key, number]
        self.closed, self.freed = False, asyncio.Event()

    def _obs(self):
        return np.array([self.number, self.steps, self.generation], np.float64)

    async def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.steps = 0
        await self._do(self.fails.get(0))
        return self._obs(), {}

    async def step(self, action):
        self.steps += 1
        self.sent.append((self.number, self.generation, int(action)))
        await asyncio.sleep(self.seconds)
        await self._do(self.fails.get(self.steps) if self.generation == 1 else None)
        return self._obs(), float(action), False, False, {}

    async def _do(self, what):
        if what == "raise":
            raise ValueError("on purpose")
        if what == "disconnect":
            raise ConnectionResetError("the server went away")
        if what == "hang":
            await asyncio.sleep(3600)
        if what == "cancel":
            raise asyncio.CancelledError
        if what == "exit":
            raise SystemExit(3)
        while what == "ignore":
            try:
                await self.freed.wait()
                return
            except asyncio.CancelledError:
                pass

    async def close(self):
        self.closed = True


class Gated(Waiting):
    """A step waits until its action is among those that may end."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.may_end: set[int] = set()

    async def step(self, action):
        while action not in self.may_end:
            await asyncio.sleep(0.001)
        return await super().step(action)


class Ordinary(gymnasium.Env):
    """An ordinary env that remembers which threads have called it, and must be called by one alone.

    Args:
        hangs_at: this step waits until `freed` is set.
    """

    def __init__(self, hangs_at: int | None = None) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.thread, self.hangs_at, self.steps, self.freed = threading.get_ident(), hangs_at, 0, threading.Event()

    def _check(self):
        assert threading.get_ident() == self.thread, "called from another thread than it was made in"

    def reset(self, *, seed=None, options=None):
        self._check()
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        self._check()
        self.steps += 1
        if self.steps == self.hangs_at:
            self.freed.wait(60.0)
        return np.zeros(1), 1.0, False, False, {}

    def which(self):
        self._check()
        return self.thread

    def close(self):
        self._check()


class Talk(gymnasium.Env):
    """Text in, text out."""

    def __init__(self) -> None:
        self.observation_space = spaces.Text(100)
        self.action_space = spaces.Text(100)

    async def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        return "hello", {"asked": ["nothing"]}

    async def step(self, action):
        await asyncio.sleep(0)
        return f"you said {action}", 1.0, action == "bye", False, {"tool": {"name": action}}


class Learnable(Waiting):
    """Episodes of five steps."""

    def __init__(self, number=0):
        super().__init__(number)
        self.action_space = spaces.Discrete(2)

    async def step(self, action):
        obs, reward, _, _, info = await super().step(action)
        return obs, reward, self.steps >= 5, False, info
