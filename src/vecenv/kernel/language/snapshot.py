"""Python envs that are copies of a compiled row."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from vecenv._batch.random_state import set_words
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Record
from vecenv.kernel.language.python import KernelEnv

_TRIAL_STEPS, _TRIAL_SECONDS = 200, 0.1


def snapshot(
    kernel: Kernel,
    params: Mapping[str, np.ndarray],
    state: Mapping[str, np.ndarray] | None = None,
    render_mode: str | None = None,
) -> KernelEnv:
    """A Python env with these parameters (columns of one row) and this state (zeros if None)."""
    env = KernelEnv(kernel, render_mode)
    env.adopt(params)
    env.state = Record(kernel.state, state)
    return env


def generator(words: np.ndarray) -> np.random.Generator:
    """NumPy's generator at the place of a native stream."""
    made = np.random.Generator(np.random.PCG64(0))
    set_words(made, [*words[:3], int(words[3]) | 1, *words[4:]])  # a stream that was never seeded has no odd increment
    return made


def try_out(env: KernelEnv) -> None:
    """Run a short trial in Python: an index out of range is then an error with its line, and not undefined behaviour.

    Actions are drawn within the env's action mask, because a kernel need not handle the actions that it forbids.
    """
    env.action_space.seed(0)
    _, info = env.reset(seed=0)
    deadline = time.perf_counter() + _TRIAL_SECONDS
    for _ in range(_TRIAL_STEPS):
        mask = info.get("action_mask")
        action = env.action_space.sample(mask if mask is not None and mask.any() else None)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        if time.perf_counter() > deadline:
            return
