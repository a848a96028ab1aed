"""Envs that say where every value comes from, and return NaN or infinity when told to: in Python and as a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import vecenv

LENGTH = 4
MODES = ("next-step", "same-step", "disabled")


class Sick(gymnasium.Env):
    """Values are made of the env's index, its episode and its step; noise comes from `np_random`.

    Args:
        index: of the env.
        bad: what is not finite.
        faults: (episode, step, place) of what is bad; step 0 is the first observation, places are "reward" and paths
            of leaves. Episodes are counted from 1.
        length: steps of an episode.
        truncates: the last step truncates the episode; it terminates otherwise.
    """

    observation_space = spaces.Dict(
        {
            "x": spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "deep": spaces.Tuple((spaces.Box(-np.inf, np.inf, (), np.float64), spaces.Discrete(100))),
            "half": spaces.Box(-np.inf, np.inf, (2, 2), np.float16),
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
        }
    )
    action_space = spaces.Discrete(5)

    def __init__(
        self,
        index: int = 0,
        bad: float = np.nan,
        faults: Sequence[tuple[int, int, str]] = (),
        length: int = LENGTH,
        truncates: bool = False,
    ):
        self.index, self.bad, self.faults, self.length, self.truncates = index, bad, set(faults), length, truncates
        self.episode = self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.steps = 0
        return self.observe(), {"asked": (options or {}).get("asked", 0)}

    def step(self, action):
        self.steps += 1
        reward = 1.0 + self.index + 0.5 * self.steps
        if self.sick("reward"):
            reward = self.bad
        ended = self.steps == self.length
        return self.observe(), reward, ended and not self.truncates, ended and self.truncates, {"at": self.steps}

    def sick(self, place: str) -> bool:
        return (self.episode, self.steps, place) in self.faults

    def observe(self):
        x = np.array([self.index, self.episode, self.steps], np.float32)
        deep = np.float64(self.np_random.random())
        half = np.full((2, 2), self.steps, np.float16)
        if self.sick("x"):
            x[1] = self.bad
        if self.sick("deep.0"):
            deep = np.float64(self.bad)
        if self.sick("half"):
            half[1, 0] = self.bad
        return {"x": x, "deep": (deep, self.steps), "half": half, "image": np.full((2, 2), self.index, np.uint8)}


def sick(count: int, faults: dict[int, list[tuple[int, int, str]]], **kwargs: Any) -> list[Any]:
    """Factories of so many envs; `faults` by env."""
    return [partial(Sick, index, faults=faults.get(index, ()), **kwargs) for index in range(count)]


class SickKernel:
    """Its episode number `episode` is sick at `step`: in the reward, or in the observation."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(5)
    state = {"episode": int}
    info = {"steps": int}

    class Params:
        index = 0
        episode = 0
        step = 0
        reward = 0
        bad = 0.0

    def reset(s, rng, p):
        s.episode += 1
        s.steps = 0

    def step(s, action, rng, p):
        s.steps += 1
        ill = s.episode == p.episode and s.steps == p.step and p.reward == 1
        return (p.bad if ill else 1.0 + p.index + 0.5 * s.steps), s.steps >= 4

    def observe(s, obs, p):
        obs[0] = p.index
        obs[1] = p.bad if s.episode == p.episode and s.steps == p.step and p.reward == 0 else s.episode
        obs[2] = s.steps


def kernels(count: int, env: int, episode: int, step: int, reward: bool, bad: float = np.nan, **kwargs: Any) -> Any:
    """A vector env of the kernel, one of which is sick."""
    kernel = vecenv.kernel("FiniteSick-v0")(type("SickKernel", (), dict(vars(SickKernel))))
    columns = {"episode": np.zeros(count, int), "step": np.zeros(count, int)}
    columns["episode"][env], columns["step"][env] = episode, step
    return vecenv.make(
        kernel, count, index=np.arange(count), reward=int(reward), bad=bad, **columns, engine="compiled", **kwargs
    )


def leaves(obs: Any) -> list[np.ndarray]:
    """The arrays of batched observations."""
    if isinstance(obs, dict):
        return [leaf for part in obs.values() for leaf in leaves(part)]
    if isinstance(obs, tuple):
        return [leaf for part in obs for leaf in leaves(part)]
    return [np.asarray(obs)]


def rows_equal(one: Any, other: Any, rows: Any) -> None:
    """Observations of these rows are equal to the last bit."""
    for left, right in zip(leaves(one), leaves(other), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left[rows], right[rows])
