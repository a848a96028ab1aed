"""Policies in the form that takes memories along, which `evaluate` and `play` use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def for_evaluation(policy: Any) -> Any:
    """A trained policy as `evaluate` takes it: one with a memory hands it out, so that envs may drop out."""
    return Remembering(policy) if policy.recurrent else policy


@contextmanager
def acting(policy: Any) -> Iterator[Any]:
    """The policy for `evaluate` and `play`, with as many threads of torch as pay for its size."""
    from vecenv.trainers._collect import torch_threads

    with torch_threads(None, sum(part.numel() for part in policy._network.parameters())):
        yield for_evaluation(policy)


class Remembering:
    """A policy with a memory, as a function of observations and memories."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __call__(
        self, obs: Any, state: Any, episode_start: np.ndarray, deterministic: bool = True, mask: Any = None
    ) -> tuple[Any, Any]:
        """Actions and memories, both with a row per observation."""
        policy = self._policy
        policy.reset()
        policy._state = state
        policy.reset(episode_start)
        return policy(obs, deterministic, mask), policy._state


class Random:
    """Random actions."""

    def __init__(self, space: Any, seed: int) -> None:
        self._space = space
        space.seed(seed)

    def __call__(self, obs: Any) -> Any:
        """Actions of all envs."""
        return self._space.sample()
