"""Kernels that nobody has compiled before."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

import vecenv

_lock = threading.Lock()


@functools.cache
def _define(number: int) -> Any:
    @vecenv.kernel(f"New{number}-v0", max_episode_steps=9)
    class New:
        observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(2)
        state = {"x": float}

        class Params:
            pull: float = 0.5

        def reset(s, rng, p):
            s.x = rng.uniform(0.0, 1.0)

        def step(s, action, rng, p):
            s.x += p.pull * action
            return s.x, s.x > 3.0

        def observe(s, obs, p):
            obs[0] = s.x

    return New


def new_kernel(number: int) -> Any:
    """One of two kernels; defined once, so that threads compile the same one."""
    with _lock:
        return _define(number)
