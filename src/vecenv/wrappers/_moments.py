"""Mean and variance of a stream of batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._batch.finite import all_finite, unfit_rows
from vecenv.errors import SpaceError
from vecenv.kernel.numba.functions import address_of, float32_at, float64_at, native_function, uint8_at
from vecenv.wrappers import _moments_native

_WORDS = 10
_BATCH, _OUT, _ROWS, _COLUMNS, _MEAN, _VAR, _STD, _NUMBERS, _SCRATCH, _COLUMN = range(_WORDS)
"""Words of the native functions' table. All but the sizes, rows and columns, are addresses."""
_COUNT, _EPSILON, _CLIP = range(3)
"""Places in the array `numbers`."""
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

    Args:
        shape: of one sample.
        epsilon: the initial count.

    Attributes:
        skipped: how many samples were left out.
    """

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        self.shape = tuple(shape)
        columns = math.prod(self.shape)
        self._all = np.ones(3 * columns + 3)
        self._mean, self._var, self._std, self._numbers = np.split(self._all, [columns, 2 * columns, 3 * columns])
        self._mean[:], self._numbers[:] = 0.0, (epsilon, np.nan, np.inf)
        self._learnt = self._all[: 2 * columns]
        self._before = self._all.copy()
        """Copy of `_all` from before the running update."""
        self.skipped = 0
        self._scratch, self._column = np.empty(2 * _moments_native.BLOCK), np.empty(0)
        self._table = np.zeros(_WORDS, np.int64)
        self._words = memoryview(self._table)  # type: ignore[arg-type]  # a buffer in every Python
        self._table_at = self._table.ctypes.data
        self._words[_COLUMNS] = columns
        arrays = {_MEAN: self._mean, _VAR: self._var, _STD: self._std, _NUMBERS: self._numbers, _SCRATCH: self._scratch}
        for word, array in arrays.items():
            self._words[word] = array.ctypes.data
        self._dtype: Any = None
        self._batch_shape: tuple[int, ...] = ()
        self._rows = 0
        self._std_of: float | None = None
        """The epsilon that `_std` was computed with; None if it is out of date."""

    # --- numbers -----------------------------------------------------------------------------------------------------

    @property
    def mean(self) -> np.ndarray:
        """A copy, not writable: assign another one to change it."""
        return _frozen(self._mean, self.shape)

    @mean.setter
    def mean(self, mean: Any) -> None:
        self._mean[:] = self._fitting(mean)

    @property
    def var(self) -> np.ndarray:
        """A copy, not writable: assign another one to change it."""
        return _frozen(self._var, self.shape)

    @var.setter
    def var(self, var: Any) -> None:
        self._var[:] = self._fitting(var)
        self._std_of = None

    @property
    def count(self) -> float:
        """How many samples, and the epsilon."""
        return float(self._numbers[_COUNT])

    @count.setter
    def count(self, count: float) -> None:
        self._numbers[_COUNT] = count

    def std(self, epsilon: float) -> np.ndarray:
        """sqrt(var + epsilon), a copy, not writable."""
        self._prepare(epsilon)
        return _frozen(self._std, self.shape)

    # --- learning ----------------------------------------------------------------------------------------------------

    def update(self, batch: np.ndarray) -> None:
        """Add samples: [n, *shape]. With n = 0 nothing changes."""
        batch = self._begin(batch)
        if self._rows:
            self._std_of = None
            self._before[:] = self._all
            _native("update", batch.dtype.char)(self._table_at)
            if not all_finite(self._learnt):
                self._undo_and_update_with_finite(batch)

    def update_from_moments(self, mean: Any, var: Any, count: float) -> None:
        """Add `count` samples, given by their mean and variance."""
        own_mean, own_var, own_count = self.mean, self.var, self.count
        delta, total = mean - own_mean, own_count + count
        with np.errstate(over="ignore", invalid="ignore"):  # the result is checked below
            squares = own_var * own_count + var * count + np.square(delta) * own_count * count / total
            new_mean, new_var = own_mean + delta * count / total, squares / total
        if all_finite(np.asarray(new_mean)) and all_finite(np.asarray(new_var)):
            self.mean, self.var, self.count = new_mean, new_var, total
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
        batch = self._begin(batch)
        self._prepare(epsilon)
        return self._run("normalize", batch, clip)

    def update_and_normalize(self, batch: np.ndarray, epsilon: float, clip: float = math.inf) -> np.ndarray:
        """`update`, then `normalize`, in one pass."""
        batch = self._begin(batch)
        if not self._rows:
            return self.normalize(batch, epsilon, clip)
        self._std_of = self._numbers[_EPSILON] = epsilon
        self._before[:] = self._all
        normalized = self._run("update_and_normalize", batch, clip)
        if all_finite(self._learnt):
            return normalized
        self._undo_and_update_with_finite(batch)
        return self.normalize(batch, epsilon, clip)

    def scale(self, batch: np.ndarray, epsilon: float, clip: float = math.inf) -> np.ndarray:
        """`normalize` without subtracting the mean: rewards are divided by the deviation of returns."""
        return np.clip(batch / self.std(epsilon), -clip, clip).astype(np.float32)

    def unnormalize(self, batch: np.ndarray, epsilon: float) -> np.ndarray:
        """What `normalize` was given, as float64, except where it was clipped."""
        return batch * self.std(epsilon) + self.mean

    # --- keeping -----------------------------------------------------------------------------------------------------

    def copy(self) -> Moments:
        """An independent copy."""
        other = Moments(self.shape)
        other.load_state_dict(self.state_dict())
        return other

    def state_dict(self) -> dict[str, Any]:
        """Mean, var and count; copies."""
        return {
            "mean": self._mean.reshape(self.shape).copy(),
            "var": self._var.reshape(self.shape).copy(),
            "count": self.count,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Bring back what `state_dict` returned; raises SpaceError, and then nothing has changed, unless it fits."""
        mean, var, count = self._fitting(state["mean"]), self._fitting(state["var"]), float(state["count"])
        if not (np.isfinite(mean).all() and np.isfinite(var).all() and math.isfinite(count)):
            raise SpaceError("moments must be finite numbers, got NaN or infinity")
        if (var < 0).any() or count < 0:
            raise SpaceError(f"moments need a variance and a count of at least 0, got {var.min(initial=0)}, {count}")
        self._mean[:], self._var[:], self.count, self._std_of = mean, var, count, None

    def __getstate__(self) -> dict[str, Any]:
        return self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(np.shape(state["mean"]))
        self.load_state_dict(state)

    def __repr__(self) -> str:
        return f"Moments(shape={self.shape}, count={self.count:g})"

    # --- inside ------------------------------------------------------------------------------------------------------

    def _undo_and_update_with_finite(self, batch: np.ndarray) -> None:
        """Undo the running update, add the samples that are finite and count the others as skipped."""
        self._all[:], self._std_of = self._before, None
        samples = batch.reshape(-1, *self.shape)
        unfit = unfit_rows(samples)
        if unfit is not None:
            self.skipped += int(np.count_nonzero(unfit))
            self.update(samples[~unfit])
        else:  # their sums overflow
            self.skipped += len(samples)

    def _begin(self, batch: np.ndarray) -> np.ndarray:
        """The batch as native code reads it. The caller keeps a reference until that has run."""
        if type(batch) is not np.ndarray or batch.dtype is not self._dtype or batch.shape != self._batch_shape:
            batch = self._expect(np.asarray(batch))
        if not batch.flags.c_contiguous:
            batch = np.ascontiguousarray(batch)
        self._words[_BATCH] = address_of(batch)
        return batch

    def _expect(self, batch: np.ndarray) -> np.ndarray:
        """Prepare for batches of this shape and type: usually all batches have the same."""
        if batch.dtype.char not in _KINDS or not batch.dtype.isnative:
            batch = batch.astype(np.float64)
        if batch.shape[batch.ndim - len(self.shape) :] != self.shape:
            raise SpaceError(f"samples must have shape {self.shape}, got a batch of shape {batch.shape}")
        self._dtype, self._batch_shape = batch.dtype, batch.shape
        self._rows = self._words[_ROWS] = batch.size // max(self._words[_COLUMNS], 1)
        if self._words[_COLUMNS] == 1 and self._rows > len(self._column):
            self._column = np.empty(self._rows)
            self._words[_COLUMN] = self._column.ctypes.data
        return batch

    def _prepare(self, epsilon: float) -> None:
        if self._std_of != epsilon:
            np.sqrt(self._var + epsilon, out=self._std)
            self._std_of = epsilon

    def _run(self, name: str, batch: np.ndarray, clip: float) -> np.ndarray:
        out = np.empty(batch.shape, np.float32)
        self._words[_OUT] = address_of(out)
        self._numbers[_CLIP] = clip
        _native(name, batch.dtype.char)(self._table_at)
        return out

    def _fitting(self, values: Any) -> np.ndarray:
        values = np.asarray(values, np.float64)
        if values.shape != self.shape:
            raise SpaceError(f"moments have shape {self.shape}, got values of shape {values.shape}")
        return values.reshape(-1)


@functools.cache
def _native(name: str, kind: str) -> Callable[[int], None]:
    values_at, sums_at, number = _KINDS[kind]
    types = {"values_at": values_at, "sums_at": sums_at, "number": number}
    sizes = {"size": np.dtype(kind).itemsize, "sum_size": np.dtype(number).itemsize}
    return native_function(getattr(_moments_native, name), **types, **sizes)


def _frozen(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    copy = flat.copy().reshape(shape)
    copy.flags.writeable = False
    return copy
