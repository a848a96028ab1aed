"""Python envs that are copies of a compiled row."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

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
    high, low, increment_high, increment_low, kept, half = map(int, words)
    bits = np.random.PCG64(0)
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low | 1},
        "has_uint32": kept,
        "uinteger": half,
    }
    return np.random.Generator(bits)


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
