"""Python envs that are copies of a compiled row."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from vecenv._batch.random_state import set_words
from vecenv._batch.slots import SLOT_MASK, SlotSpace
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
        mask: Any = info.get("action_mask", info.get(SLOT_MASK))
        if mask is not None and not mask.any():
            mask = None
        if mask is not None and isinstance(env.observation_space, SlotSpace):
            slots = env.observation_space.slots
            counts = [int(group.action_space.n) for group in slots.groups]  # type: ignore[attr-defined]  # Discrete
            mask = slots.nest([tuple(mask[part, :n]) for part, n in zip(slots.parts(), counts, strict=True)])
        action = env.action_space.sample(mask)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
        if time.perf_counter() > deadline:
            return


class Trials:
    """Trials of parameters that `bounds` says nothing about: the first time that one is beyond all values before.

    Args:
        kernel: the definition. The default values of its parameters count as tried.
        env_of: makes a Python env from parameters, columns of one row.
    """

    def __init__(self, kernel: Kernel, env_of: Callable[[Mapping[str, np.ndarray]], KernelEnv]) -> None:
        self._kernel, self._env_of = kernel, env_of
        self._tried = {name: _ends(value) for name, value in kernel.defaults.items()}
        self._open = {
            name: (field.low is None, field.high is None)
            for name, field in kernel.params.items()
            if (field.low is None or field.high is None) and not kernel.shared and kernel.defaults[name].size
        }

    def run(self, parameters: Mapping[str, np.ndarray], tried: Collection[str] = ()) -> None:
        """Run a trial with each row of these columns that has the lowest or the highest value so far.

        Args:
            parameters: a column of each.
            tried: names of columns that were in a trial before, which saves to look at them.

        Raises:
            KernelError: Python raises with these parameters. It names the line.
        """
        beyond = {name: self._beyond(name, parameters[name]) for name in self._open if name not in tried}
        for row in sorted({row for rows in beyond.values() for row in rows}):
            try_out(self._env_of(self._kernel.row_of(parameters, row)))
        for name, rows in beyond.items():
            if rows:
                low, high = _ends(parameters[name])
                self._tried[name] = min(low, self._tried[name][0]), max(high, self._tried[name][1])

    def _beyond(self, name: str, column: np.ndarray) -> list[int]:
        flat = column.reshape(len(column), -1)
        if not flat.size:
            return []
        (low, high), (below, above) = self._tried[name], self._open[name]
        rows = [int(flat.min(1).argmin())] if below and not flat.min() >= low else []
        return rows + ([int(flat.max(1).argmax())] if above and not flat.max() <= high else [])


def _ends(values: np.ndarray) -> tuple[float, float]:
    return (values.min().item(), values.max().item()) if values.size else (0, 0)
