"""Mean and variance of a stream, with Stable-Baselines3's name and rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from vecenv._batch.finite import unfit_rows
from vecenv.wrappers._moments import Moments


class RunningMeanStd(Moments):
    """Running mean and variance, float64.

    Args:
        epsilon: the initial count.
        shape: of one sample.
    """

    def __init__(self, epsilon: float = 1e-4, shape: tuple[int, ...] = ()) -> None:
        super().__init__(shape, epsilon)
        self._shown: dict[str, np.ndarray] = {}

    @Moments.mean.getter
    def mean(self) -> np.ndarray:
        """Not writable: assign another one to change it. The same array as long as the numbers are the same."""
        return self._show("mean", super().mean)

    @Moments.var.getter
    def var(self) -> np.ndarray:
        """As `mean`."""
        return self._show("var", super().var)

    def update(self, batch: np.ndarray) -> None:
        """Add samples: [n, *shape]. Smaller samples, [n, ...], are broadcast."""
        batch = np.asarray(batch)
        if batch.shape[1:] == self.shape:
            super().update(batch)
        else:
            unfit = unfit_rows(batch)
            fit = batch if unfit is None else batch[~unfit]
            self.skipped += len(batch) - len(fit)
            if len(fit):
                self.update_from_moments(fit.mean(axis=0), fit.var(axis=0), len(fit))

    def copy(self) -> RunningMeanStd:
        """An independent copy."""
        return RunningMeanStd.of(self)

    @classmethod
    def of(cls, other: Any) -> RunningMeanStd:
        """A copy of anything with mean, var and count, such as one of Stable-Baselines3's own."""
        copy = cls(shape=np.shape(other.mean))
        copy.load_state_dict({"mean": other.mean, "var": other.var, "count": other.count})
        return copy

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(shape=np.shape(state["mean"]))
        self.load_state_dict(state)

    def _show(self, name: str, numbers: np.ndarray) -> np.ndarray:
        shown = self._shown.get(name)
        if shown is None or not np.array_equal(shown, numbers, equal_nan=True):
            self._shown[name] = shown = numbers
        return shown
