"""A kernel on the compiled engine and, in the same columns, on the C++ backend: compared bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv._batch.batch import Op
from vecenv.engines.device.engine import DeviceEngine
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.kernel.language.define import Kernel

SCRATCH = ("TODO", "WHO")
"""Columns in which a backend may keep what it likes."""


class Pair:
    """The same rows twice, with the same seeds."""

    def __init__(self, kernel: Kernel, count: int, **kwargs: Any) -> None:
        limit = kernel.max_episode_steps
        self.compiled = CompiledEngine(kernel, count, max_episode_steps=limit, kwargs=kwargs)
        self.device = DeviceEngine(kernel, count, max_episode_steps=limit, kwargs=kwargs)
        self.device._columns["FALLBACK"][...] = self.compiled._columns["FALLBACK"]
        self.generator = np.random.default_rng(1)
        self.episodes = 0
        for engine in (self.compiled, self.device):
            engine.batch.seed[:] = np.arange(count)
            engine.batch.op[:] = Op.RESET
            engine.exchange_all(0, 0, rotate=False)

    def differences(self) -> list[str]:
        """Names of the columns that differ."""
        one, other = self.compiled._columns, self.device._columns
        return [name for name in one if name not in SCRATCH and one[name].tobytes() != other[name].tobytes()]

    def step(self, alive: int, over: int) -> None:
        self.act()
        ended = self.compiled.exchange_all(alive, over, rotate=False)
        assert self.device.exchange_all(alive, over, rotate=False) == ended
        self.episodes += ended

    def act(self) -> None:
        """Random actions, the same for both."""
        leaves = self.compiled.facts.action_layout.leaves
        for one, other, leaf in zip(self.compiled.batch.actions, self.device.batch.actions, leaves, strict=True):
            if leaf.dtype.kind == "f":
                one[...] = self.generator.uniform(-2, 2, one.shape)
            else:
                low, high = leaf.bounds
                one[...] = self.generator.integers(low, np.asarray(high) + 1, one.shape)
            other[...] = one

    def compare(self, steps: int, alive: int, over: int) -> None:
        """Assert that all columns are equal after each of these steps."""
        assert not self.differences(), "after reset"
        for step in range(steps):
            self.step(int(alive), int(over))
            different = self.differences()
            assert not different, f"step {step}: {different}"
