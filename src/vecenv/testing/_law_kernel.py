"""LawEnv as a kernel, so that the laws can be checked on the engine that runs native code."""

# pyright: reportSelfClsParameterName=false
# The first parameter of a kernel is the state of one env, not an object of the class.
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from vecenv.engines.native.compiled import CompiledEngine
from vecenv.engines.python.envs import Factory
from vecenv.kernel.language.define import build
from vecenv.kernel.rng import random


class LawKernel:
    """LawEnv without its infos: infos of native code have the same keys in every env and step."""

    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float64)
    action_space = spaces.Discrete(3)
    state = {"episode": int, "step": int, "drawn": float, "last": int}  # noqa: RUF012  # a declaration

    class Params:
        """Parameters."""

        index = 0
        bonus = 0.0

    def reset(s: Any, rng: Any, p: Any) -> None:
        s.episode += 1
        s.step = 0
        s.drawn = random(rng)
        s.last = -1

    def step(s: Any, action: Any, rng: Any, p: Any) -> Any:
        s.step += 1
        s.drawn = random(rng)
        s.last = action
        ended = s.step >= 3 + p.index
        reward = random(rng) + p.bonus
        return reward, ended and s.episode % 2 == 0, ended and s.episode % 2 == 1

    def observe(s: Any, obs: Any, p: Any) -> None:
        obs[0] = p.index
        obs[1] = s.episode
        obs[2] = s.step
        obs[3] = s.drawn
        obs[4] = s.last


def law_kernel_engine(factories: Sequence[Factory], **options: Any) -> CompiledEngine:
    """A compiled engine with one row per factory; the factories are not called."""
    kernel = build("vecenv-law", LawKernel, None, {})
    return CompiledEngine(kernel, len(factories), kwargs={"index": np.arange(len(factories))}, **options)
