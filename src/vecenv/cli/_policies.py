"""Policies for `evaluate` and `play`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def acting(policy: Any) -> Iterator[Any]:
    """The policy for `evaluate` and `play`, with a number of torch threads that suits its size."""
    from vecenv.trainers._collect import torch_threads

    with torch_threads(None, sum(part.numel() for part in policy._network.parameters())):
        yield policy


class Random:
    """Random actions."""

    def __init__(self, space: Any, seed: int) -> None:
        self._space = space
        space.seed(seed)

    def __call__(self, obs: Any) -> Any:
        """Random actions of all envs."""
        return self._space.sample()
