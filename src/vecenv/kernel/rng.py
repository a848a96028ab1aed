"""Random numbers for kernels: NumPy's `Generator` over PCG64, bit for bit, in Python and in native code.

Every env has a stream of its own, seeded as `gymnasium.utils.seeding.np_random(seed)`. Inside a kernel `rng` is that
stream; `uniform(rng, 0, 1)` and `rng.uniform(0, 1)` are the same. Here are the functions as plain Python sees them,
over a real `numpy.random.Generator`; native code has twins of them in `pcg64.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Generator = np.random.Generator

__all__ = ["choice", "integers", "normal", "permutation", "random", "shuffle", "uniform"]


class Stream(np.random.Generator):
    """The generator that methods get in Python: NumPy's, but its numbers are Python's, as wide as in native code."""

    def integers(self, *args: Any, **kwargs: Any) -> Any:
        """As NumPy's, as an int."""
        return int(super().integers(*args, **kwargs))

    def choice(self, *args: Any, **kwargs: Any) -> Any:
        """As NumPy's, as a Python number."""
        return np.asarray(super().choice(*args, **kwargs)).item()


def random(rng: Generator) -> float:
    """A float in [0, 1), as `Generator.random()`."""
    return float(rng.random())


def uniform(rng: Generator, low: float = 0.0, high: float = 1.0) -> float:
    """A float in [low, high), as `Generator.uniform(low, high)`."""
    return float(rng.uniform(low, high))


def integers(rng: Generator, low: int, high: int | None = None) -> int:
    """An int in [low, high), or in [0, low) without `high`, as `Generator.integers(low, high)`."""
    return int(rng.integers(low, high))


def normal(rng: Generator, loc: float = 0.0, scale: float = 1.0) -> float:
    """A float of the normal distribution, as `Generator.normal(loc, scale)`."""
    return float(rng.normal(loc, scale))


def choice(rng: Generator, options: int | np.ndarray, p: np.ndarray | None = None) -> float:
    """One of `options`, as `Generator.choice(options, p=p)`.

    Args:
        rng: the stream.
        options: an int n, for 0 ... n - 1, or a one-dimensional array.
        p: probability of each option; left out, all are equally likely.
    """
    return np.asarray(rng.choice(options, p=p)).item()


def permutation(rng: Generator, out: np.ndarray) -> None:
    """Write into `out` what `Generator.permutation(len(out))` returns. Kernels allocate nothing."""
    out[:] = rng.permutation(len(out))


def shuffle(rng: Generator, values: np.ndarray) -> None:
    """Shuffle a one-dimensional array in place, as `Generator.shuffle(values)`."""
    rng.shuffle(values)
