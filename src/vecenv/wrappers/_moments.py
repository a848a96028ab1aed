"""Mean and variance of a stream of batches."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._batch.finite import all_finite, unfit_rows
from vecenv._util.forks import reinit_after_fork
from vecenv.errors import SpaceError
from vecenv.kernel.numba.functions import address_of, float32_at, float64_at, native_function, table_of, uint8_at
from vecenv.wrappers import _moments_native

_table = table_of("6qd")
_KINDS: dict[str, tuple[Any, Any, Any]] = {
    "f": (float32_at, float32_at, np.float32),
    "d": (float64_at, float64_at, np.float64),
    "B": (uint8_at, float64_at, np.float64),
}
"""Types that native code reads as they are: view of the batch, view of sums, type of sums, which is NumPy's choice."""


class Moments:
    """Running mean and population variance, in float64.

    Formulas, order and types of all operations are those of Stable-Baselines3's `RunningMeanStd`, and of Gymnasium's
    with dtype float64: for float32, float64 and uint8 batches the results are equal bit for bit. (Batches of other
    integers are only nearly equal if they are of shape [n] and n > 8192.)

    They are always finite: samples with NaN or infinity are left out, and so is a whole batch whose sums overflow.

    Threads may share one: the moments are an array that is never written once it is here. Updates replace it, one at a
    time, and whoever normalizes has the moments from before an update or those from after it.

    Args:
        shape: of one sample.
        epsilon: the initial count.

    Attributes:
        skipped: how many samples were left out.
    """

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        self.shape = tuple(shape)
        self._columns = columns = math.prod(self.shape)
        self._count, self._epsilon, self._unfit = range(3 * columns, 3 * columns + 3)
        """Places in the array of moments, which is described in `_moments_native.py`."""
        self._moments = np.ones(3 * columns + 3 + 2 * min(columns, _moments_native.BLOCK))
        self._moments[:columns] = 0.0
        self._moments[self._count : self._unfit] = epsilon, np.nan  # deviations are up to date for no epsilon
        self._lock = reinit_after_fork(threading.RLock())
        """Held by updates, so that none is lost. A signal handler may update in the middle of one."""
        self.skipped = 0

    # --- numbers -----------------------------------------------------------------------------------------------------

    @property
    def mean(self) -> np.ndarray:
        """A copy, not writable: assign another one to change it."""
        return self._part(self._moments, 0)

    @mean.setter
    def mean(self, mean: Any) -> None:
        self._replace(mean=self._fitting(mean))

    @property
    def var(self) -> np.ndarray:
        """A copy, not writable: assign another one to change it."""
        return self._part(self._moments, 1)

    @var.setter
    def var(self, var: Any) -> None:
        self._replace(var=self._fitting(var))

    @property
    def count(self) -> float:
        """How many samples, and the epsilon."""
        return self._moments.item(self._count)

    @count.setter
    def count(self, count: float) -> None:
        self._replace(count=count)

    def std(self, epsilon: float) -> np.ndarray:
        """sqrt(var + epsilon), a copy, not writable."""
        return self._part(self._with_std(epsilon), 2)

    def deviation(self, epsilon: float) -> np.float64:
        """`std` of samples that are single numbers."""
        assert self.shape == ()
        return np.sqrt(self._moments[1] + epsilon)

    # --- learning ----------------------------------------------------------------------------------------------------

    def update(self, batch: np.ndarray) -> None:
        """Add samples: [n, *shape]. With n = 0 nothing changes."""
        batch = self._checked(batch)
        with self._lock:
            self._learn("update", batch, self._moments.copy())

    def update_from_moments(self, mean: Any, var: Any, count: float) -> None:
        """Add `count` samples, given by their mean and variance."""
        with self._lock:
            own_mean, own_var, own_count = self.mean, self.var, self.count
            delta, total = mean - own_mean, own_count + count
            with np.errstate(over="ignore", invalid="ignore"):  # the result is checked below
                squares = own_var * own_count + var * count + np.square(delta) * own_count * count / total
                new_mean, new_var = own_mean + delta * count / total, squares / total
            if all_finite(np.asarray(new_mean)) and all_finite(np.asarray(new_var)):
                self._replace(mean=self._fitting(new_mean), var=self._fitting(new_var), count=total)
            else:
                self.skipped += int(count)

    def combine(self, other: Moments) -> None:
        """Add all samples of another one."""
        self.update_from_moments(other.mean, other.var, other.count)

    # --- applying ----------------------------------------------------------------------------------------------------

    def normalize(self, batch: np.ndarray, epsilon: float, clip: float = math.inf) -> np.ndarray:
        """(batch - mean) / sqrt(var + epsilon), at most `clip` from zero: a new float32 array.

        The batch may have any number of leading axes.
        """
        batch, moments = self._checked(batch), self._with_std(epsilon)
        out = np.empty(batch.shape, np.float32)
        sizes = batch.size // (self._columns or 1), self._columns
        table = _table(address_of(batch), address_of(out), *sizes, address_of(moments), 0, clip)
        _native("normalize", batch.dtype.char)(table)
        return out

    def update_and_normalize(self, batch: np.ndarray, epsilon: float, clip: float = math.inf) -> np.ndarray:
        """`update`, then `normalize`, in one pass."""
        batch = self._checked(batch)
        out = np.empty(batch.shape, np.float32)
        with self._lock:
            moments = self._moments.copy()
            moments[self._epsilon] = epsilon
            if self._learn("update_and_normalize", batch, moments, address_of(out), clip):
                return out
        return self.normalize(batch, epsilon, clip)

    def scale(self, batch: np.ndarray, epsilon: float, clip: float = math.inf) -> np.ndarray:
        """`normalize` without subtracting the mean: rewards are divided by the deviation of returns."""
        return np.clip(batch / self.std(epsilon), -clip, clip).astype(np.float32)

    def unnormalize(self, batch: np.ndarray, epsilon: float) -> np.ndarray:
        """What `normalize` was given, as float64, except where it was clipped."""
        moments = self._with_std(epsilon)
        return batch * self._part(moments, 2) + self._part(moments, 0)

    # --- keeping -----------------------------------------------------------------------------------------------------

    def copy(self) -> Moments:
        """An independent copy."""
        other = Moments(self.shape)
        other.load_state_dict(self.state_dict())
        return other

    def state_dict(self) -> dict[str, Any]:
        """Mean, var and count; copies."""
        moments = self._moments
        return {
            "mean": np.array(self._part(moments, 0)),
            "var": np.array(self._part(moments, 1)),
            "count": moments.item(self._count),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned; raises SpaceError, and then nothing has changed, unless it fits."""
        mean, var, count = self._fitting(state["mean"]), self._fitting(state["var"]), float(state["count"])
        if not (np.isfinite(mean).all() and np.isfinite(var).all() and math.isfinite(count)):
            raise SpaceError("moments must be finite numbers, got NaN or infinity")
        if (var < 0).any() or count < 0:
            raise SpaceError(f"moments need a variance and a count of at least 0, got {var.min(initial=0)}, {count}")
        self._replace(mean=mean, var=var, count=count)

    def __getstate__(self) -> dict[str, Any]:
        return self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(np.shape(state["mean"]))
        self.load_state_dict(state)

    def __repr__(self) -> str:
        return f"Moments(shape={self.shape}, count={self.count:g})"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _learn(self, name: str, batch: np.ndarray, moments: np.ndarray, out: int = 0, clip: float = math.inf) -> bool:
        """Add a batch to a copy of the moments, and keep the copy if it is finite. The caller holds the lock.

        If it is not, the finite samples are added one call further and the others are skipped: returns False.
        """
        rows, columns = batch.size // (self._columns or 1), self._columns
        if not rows:
            return False
        scratch = np.empty(rows) if columns == 1 else None
        scratch_at = 0 if scratch is None else address_of(scratch)
        table = _table(address_of(batch), out, rows, columns, address_of(moments), scratch_at, clip)
        _native(name, batch.dtype.char)(table)
        if moments.item(self._unfit) == 0.0:
            self._moments = moments
            return True
        samples = batch.reshape(-1, *self.shape)
        unfit = unfit_rows(samples)
        if unfit is not None:
            self.skipped += int(np.count_nonzero(unfit))
            self.update(samples[~unfit])
        else:  # their sums overflow
            self.skipped += len(samples)
        return False

    def _replace(self, **parts: Any) -> None:
        """Set mean, var or count, in an array of its own."""
        with self._lock:
            moments, columns = self._moments.copy(), self._columns
            places = {"mean": slice(columns), "var": slice(columns, 2 * columns), "count": self._count}
            for name, values in parts.items():
                moments[places[name]] = values
            moments[self._epsilon] = np.nan
            self._moments = moments

    def _with_std(self, epsilon: float) -> np.ndarray:
        """The moments, with deviations for this epsilon."""
        moments = self._moments
        if moments.item(self._epsilon) == epsilon:
            return moments
        with self._lock:
            moments, columns = self._moments.copy(), self._columns
            np.sqrt(moments[columns : 2 * columns] + epsilon, out=moments[2 * columns : 3 * columns])
            moments[self._epsilon] = epsilon
            self._moments = moments
        return moments

    def _part(self, moments: np.ndarray, number: int) -> np.ndarray:
        """A copy of mean (0), var (1) or std (2), not writable."""
        copy = moments[number * self._columns : (number + 1) * self._columns].reshape(self.shape).copy()
        copy.flags.writeable = False
        return copy

    def _checked(self, batch: np.ndarray) -> np.ndarray:
        """The batch as native code reads it. The caller holds it until that has run."""
        if type(batch) is not np.ndarray or batch.dtype.char not in _KINDS or not batch.dtype.isnative:
            batch = np.asarray(batch)
            if batch.dtype.char not in _KINDS or not batch.dtype.isnative:
                batch = batch.astype(np.float64)
        if batch.shape[batch.ndim - len(self.shape) :] != self.shape:
            raise SpaceError(f"samples must have shape {self.shape}, got a batch of shape {batch.shape}")
        return batch if batch.flags.c_contiguous else np.ascontiguousarray(batch)

    def _fitting(self, values: Any) -> np.ndarray:
        values = np.asarray(values, np.float64)
        if values.shape != self.shape:
            raise SpaceError(f"moments have shape {self.shape}, got values of shape {values.shape}")
        return values.reshape(-1)


@functools.cache
def _native(name: str, kind: str) -> Callable[[bytes], None]:
    values_at, sums_at, number = _KINDS[kind]
    types = {"values_at": values_at, "sums_at": sums_at, "number": number}
    sizes = {"size": np.dtype(kind).itemsize, "sum_size": np.dtype(number).itemsize}
    return native_function(getattr(_moments_native, name), **types, **sizes)
