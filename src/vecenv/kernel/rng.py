"""Random numbers for kernels: NumPy's `Generator` over PCG64, bit for bit, in Python and in native code.

Every env has a stream of its own, seeded as `gymnasium.utils.seeding.np_random(seed)`. Inside a kernel `rng` is that
stream; `uniform(rng, 0, 1)` and `rng.uniform(0, 1)` are the same. Here are the functions as plain Python sees them,
over a real `numpy.random.Generator`; native code has twins of them in `numba/pcg64.py` and `numba/distributions.py`.

Functions with an argument `out` write into an array that exists already, an array of `state` for example. They draw in
the order in which NumPy draws an array of that shape. Methods of `rng` take NumPy's `size` and return new arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from vecenv.kernel.language.fields import seen

Generator = np.random.Generator
Options = int | np.ndarray | Sequence[float]
"""An int n, for 0 ... n - 1, or the options themselves: an array, a tuple or a list, one-dimensional."""
Weights = np.ndarray | Sequence[float]
"""A probability for each option; the probabilities sum to 1."""

NUMBERS = {
    "binomial": int,
    "choice": None,
    "exponential": float,
    "geometric": int,
    "integers": int,
    "normal": float,
    "poisson": int,
    "random": float,
    "standard_exponential": float,
    "standard_normal": float,
    "uniform": float,
}
"""Functions that draw one number, and its type; None: that of the options. Each has a `fill_` function too."""
IN_PLACE = {"multinomial": "out", "permutation": "out", "sample": "out", "shuffle": "values"}
IN_PLACE |= {f"fill_{name}": "out" for name in NUMBERS}
"""Functions that write into an array, and the argument that is the array."""
METHODS = {
    "binomial": "n, p, size=None",
    "choice": "a, size=None, replace=True, p=None",
    "exponential": "scale=1.0, size=None",
    "geometric": "p, size=None",
    "integers": "low, high=None, size=None, *, endpoint=False",
    "multinomial": "n, pvals",
    "normal": "loc=0.0, scale=1.0, size=None",
    "permutation": "x",
    "poisson": "lam=1.0, size=None",
    "random": "size=None, *, out=None",
    "shuffle": "x",
    "standard_exponential": "size=None, *, out=None",
    "standard_normal": "size=None, *, out=None",
    "uniform": "low=0.0, high=1.0, size=None",
}
"""Methods of `rng` in kernels, and what they take: NumPy's own arguments. With a `size` they return a new array."""

__all__ = [
    "binomial",
    "choice",
    "exponential",
    "fill_binomial",
    "fill_choice",
    "fill_exponential",
    "fill_geometric",
    "fill_integers",
    "fill_normal",
    "fill_poisson",
    "fill_random",
    "fill_standard_exponential",
    "fill_standard_normal",
    "fill_uniform",
    "geometric",
    "integers",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "random",
    "sample",
    "shuffle",
    "standard_exponential",
    "standard_normal",
    "uniform",
]


class Stream(np.random.Generator):
    """The generator that methods get in Python: NumPy's, but its results are as those of native code.

    Its numbers are Python's, and elements of its arrays are too.
    """

    def shuffle(self, x: Any) -> None:  # type: ignore[override]  # kernels shuffle along the first axis
        """As NumPy's."""
        super().shuffle(np.asarray(x))


def _as_seen(name: str) -> Any:
    """A method of NumPy's generator whose results are as kernels see them."""
    method = getattr(np.random.Generator, name)

    @functools.wraps(method)
    def call(self: Stream, *args: Any, **kwargs: Any) -> Any:
        drawn = method(self, *args, **kwargs)
        return drawn if type(drawn) is float else seen(drawn)

    return call


for _name in METHODS:
    if _name != "shuffle":
        setattr(Stream, _name, _as_seen(_name))


# --- one number ------------------------------------------------------------------------------------------------------


def random(rng: Generator, *, out: np.ndarray | None = None) -> Any:
    """A float in [0, 1), as `Generator.random()`. With `out`, a float64 array, fill that instead and return it."""
    return rng.random(out=out)


def uniform(rng: Generator, low: float = 0.0, high: float = 1.0) -> float:
    """A float in [low, high), as `Generator.uniform(low, high)`."""
    return float(rng.uniform(low, high))


def integers(rng: Generator, low: int, high: int | None = None, *, endpoint: bool = False) -> int:
    """An int in [low, high), or in [0, low) without `high`, as `Generator.integers(low, high, endpoint=endpoint)`.

    With `endpoint` the highest number is one of those that are drawn.
    """
    return int(rng.integers(low, high, endpoint=endpoint))


def normal(rng: Generator, loc: float = 0.0, scale: float = 1.0) -> float:
    """A float of the normal distribution, as `Generator.normal(loc, scale)`."""
    return float(rng.normal(loc, scale))


def standard_normal(rng: Generator, *, out: np.ndarray | None = None) -> Any:
    """A float of the normal distribution with mean 0 and deviation 1, as `Generator.standard_normal()`.

    With `out`, a float64 array, fill that instead and return it.
    """
    return rng.standard_normal(out=out)


def exponential(rng: Generator, scale: float = 1.0) -> float:
    """A float of the exponential distribution with this mean, as `Generator.exponential(scale)`."""
    return float(rng.exponential(scale))


def standard_exponential(rng: Generator, *, out: np.ndarray | None = None) -> Any:
    """A float of the exponential distribution with mean 1, as `Generator.standard_exponential()`.

    With `out`, a float64 array, fill that instead and return it.
    """
    return rng.standard_exponential(out=out)


def poisson(rng: Generator, lam: float = 1.0) -> int:
    """How many events happen if `lam` are expected, as `Generator.poisson(lam)`."""
    return int(rng.poisson(lam))


def binomial(rng: Generator, n: int, p: float) -> int:
    """How many of `n` trials succeed, each with probability `p`, as `Generator.binomial(n, p)`."""
    return int(rng.binomial(n, p))


def geometric(rng: Generator, p: float) -> int:
    """The number of the first trial that succeeds, each with probability `p`, as `Generator.geometric(p)`."""
    return int(rng.geometric(p))


def choice(rng: Generator, options: Options, p: Weights | None = None) -> float:
    """One of `options`, as `Generator.choice(options, p=p)`; left out, `p` is the same for all."""
    return np.asarray(rng.choice(options, p=p)).item()


# --- arrays ----------------------------------------------------------------------------------------------------------


def _write(out: np.ndarray, drawn: np.ndarray) -> None:
    """Write numbers into an array; ints that it cannot hold are an error, as those that are assigned one by one."""
    if drawn.dtype.kind == "i" and out.dtype.kind in "iu" and drawn.size:
        limits, low, high = np.iinfo(out.dtype), drawn.min(), drawn.max()
        if low < limits.min or high > limits.max:
            raise OverflowError(f"{low if low < limits.min else high} does not fit an array of {out.dtype}")
    out[...] = drawn


def permutation(rng: Generator, out: np.ndarray) -> None:
    """Write into `out` what `Generator.permutation(len(out))` returns."""
    _write(out, rng.permutation(len(out)))


def shuffle(rng: Generator, values: np.ndarray) -> None:
    """Shuffle an array along its first axis in place, as `Generator.shuffle(values)`."""
    rng.shuffle(values)


def sample(rng: Generator, n: int, out: np.ndarray, p: Weights | None = None) -> None:
    """Write distinct numbers of 0 ... n - 1 into `out`, as `Generator.choice(n, len(out), replace=False, p=p)` does.

    Args:
        rng: the stream.
        n: how many options there are, at least `len(out)`.
        out: a one-dimensional array of ints.
        p: probability of each option; at least `len(out)` are not zero. Left out, all are equally likely.
    """
    _write(out, rng.choice(n, len(out), replace=False, p=p))


def multinomial(rng: Generator, n: int, pvals: Weights, out: np.ndarray) -> None:
    """Write into `out` how many of `n` trials have each result, as `Generator.multinomial(n, pvals)` returns it."""
    _write(out, rng.multinomial(n, pvals))


def fill_random(rng: Generator, out: np.ndarray) -> None:
    """Fill an array with what `Generator.random(out.shape)` returns."""
    _write(out, rng.random(out.shape))


def fill_uniform(rng: Generator, out: np.ndarray, low: float = 0.0, high: float = 1.0) -> None:
    """Fill an array with what `Generator.uniform(low, high, out.shape)` returns."""
    _write(out, rng.uniform(low, high, out.shape))


def fill_integers(
    rng: Generator, out: np.ndarray, low: int, high: int | None = None, *, endpoint: bool = False
) -> None:
    """Fill an array with what `Generator.integers(low, high, out.shape, endpoint=endpoint)` returns."""
    _write(out, rng.integers(low, high, out.shape, endpoint=endpoint))


def fill_normal(rng: Generator, out: np.ndarray, loc: float = 0.0, scale: float = 1.0) -> None:
    """Fill an array with what `Generator.normal(loc, scale, out.shape)` returns."""
    _write(out, rng.normal(loc, scale, out.shape))


def fill_standard_normal(rng: Generator, out: np.ndarray) -> None:
    """Fill an array with what `Generator.standard_normal(out.shape)` returns."""
    _write(out, rng.standard_normal(out.shape))


def fill_exponential(rng: Generator, out: np.ndarray, scale: float = 1.0) -> None:
    """Fill an array with what `Generator.exponential(scale, out.shape)` returns."""
    _write(out, rng.exponential(scale, out.shape))


def fill_standard_exponential(rng: Generator, out: np.ndarray) -> None:
    """Fill an array with what `Generator.standard_exponential(out.shape)` returns."""
    _write(out, rng.standard_exponential(out.shape))


def fill_poisson(rng: Generator, out: np.ndarray, lam: float = 1.0) -> None:
    """Fill an array with what `Generator.poisson(lam, out.shape)` returns."""
    _write(out, rng.poisson(lam, out.shape))


def fill_binomial(rng: Generator, out: np.ndarray, n: int, p: float) -> None:
    """Fill an array with what `Generator.binomial(n, p, out.shape)` returns."""
    _write(out, rng.binomial(n, p, out.shape))


def fill_geometric(rng: Generator, out: np.ndarray, p: float) -> None:
    """Fill an array with what `Generator.geometric(p, out.shape)` returns."""
    _write(out, rng.geometric(p, out.shape))


def fill_choice(rng: Generator, out: np.ndarray, options: Options, p: Weights | None = None) -> None:
    """Fill an array with what `Generator.choice(options, out.shape, p=p)` returns."""
    _write(out, rng.choice(options, out.shape, p=p))
