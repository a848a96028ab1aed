"""The twins of `rng.py`: what emitted code calls to draw numbers, and to fill arrays with them. Needs Numba.

An array is filled in the order in which NumPy draws it: number by number, the last axis first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError

from vecenv.kernel.numba import distributions
from vecenv.kernel.numba import pcg64 as stream
from vecenv.kernel.numba.distributions import binomial, exponential, geometric, normal, poisson
from vecenv.kernel.numba.math import NATIVE, intrinsic, overloaded
from vecenv.kernel.numba.pcg64 import between, interval, uniform, up_to

__all__ = ["binomial", "exponential", "geometric", "normal", "poisson", "uniform"]


def _is_left_out(argument: Any) -> bool:
    return argument is None or isinstance(argument, (types.NoneType, types.Omitted))


# --- one number ------------------------------------------------------------------------------------------------------


def _or_filled(name: str, draw: Any) -> Any:
    """A function that draws one number, or fills its argument `out`."""

    @njit(**NATIVE)
    def write(rng: Any, out: Any) -> None:
        for index in np.ndindex(out.shape):
            out[index] = draw(rng)

    @overloaded(NATIVE)
    def drawn(rng, out=None):  # type: ignore[no-untyped-def]  # Numba compares signatures, annotations too
        if _is_left_out(out):
            return lambda rng, out=None: draw(rng)
        if not isinstance(out, types.Array) or out.dtype != types.float64:
            raise TypingError(f"vecenv: {name}(out=...) needs an array of float64, as in NumPy; use fill_{name}")

        def fill(rng, out=None):  # type: ignore[no-untyped-def]  # as above
            write(rng, out)
            return out

        return fill

    return drawn


random = _or_filled("random", stream.random)
standard_normal = _or_filled("standard_normal", distributions.standard_normal)
standard_exponential = _or_filled("standard_exponential", distributions.standard_exponential)


@overloaded(NATIVE)
def integers(rng, low, high=None, endpoint=False):  # type: ignore[no-untyped-def]  # as above
    ends_before = isinstance(endpoint, types.Omitted) or endpoint is False
    if _is_left_out(high):
        if ends_before:
            return lambda rng, low, high=None, endpoint=False: between(rng, 0, low)
        return lambda rng, low, high=None, endpoint=False: _between(rng, 0, low, endpoint)
    if ends_before:
        return lambda rng, low, high=None, endpoint=False: between(rng, low, high)
    return lambda rng, low, high=None, endpoint=False: _between(rng, low, high, endpoint)


@njit(**NATIVE)
def _between(rng: Any, low: Any, high: Any, endpoint: Any) -> Any:
    return between(rng, low, np.int64(high) + (1 if endpoint else 0))


@overloaded(NATIVE)
def choice(rng, options, p=None):  # type: ignore[no-untyped-def]  # as above
    if isinstance(options, types.BaseTuple):
        if _is_left_out(p):
            return lambda rng, options, p=None: as_array(options)[between(rng, 0, len(options))]
        return lambda rng, options, p=None: as_array(options)[_weighted(rng, as_weights(p))]
    if isinstance(options, types.Integer):
        if _is_left_out(p):
            return lambda rng, options, p=None: between(rng, 0, options)
        return lambda rng, options, p=None: _weighted(rng, as_weights(p))
    if _is_left_out(p):
        return lambda rng, options, p=None: options[between(rng, 0, len(options))]
    return lambda rng, options, p=None: options[_weighted(rng, as_weights(p))]


@njit(**NATIVE)
def _weighted(rng: Any, p: Any) -> Any:
    """An index, drawn with probabilities that are proportional to `p`."""
    total = 0.0
    for index in range(len(p)):
        total += p[index]
    drawn = stream.random(rng)
    reached = 0.0
    for index in range(len(p)):
        reached += p[index]
        if reached / total > drawn:
            return np.int64(index)
    return np.int64(len(p))


def _of_one_type(wanted: Any) -> Any:
    """A function that gives all numbers of a tuple the type that `wanted` tells from their types."""

    @intrinsic
    def converted(typing_context: Any, values: Any) -> Any:
        kind = wanted(values.types)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = cgutils.unpack_tuple(builder, arguments[0], len(values))
            given = signature.args[0].types
            cast = [context.cast(builder, part, its, kind) for part, its in zip(parts, given, strict=True)]
            return context.make_tuple(builder, signature.return_type, cast)

        return types.UniTuple(kind, len(values))(values), generate

    return converted


def _common_type(kinds: Any) -> Any:
    """The type of NumPy's array of such numbers."""
    if any(isinstance(kind, types.Float) for kind in kinds):
        return types.float64
    return types.int64 if any(isinstance(kind, types.Integer) for kind in kinds) else types.boolean


as_array = _of_one_type(_common_type)
_as_floats = _of_one_type(lambda kinds: types.float64)


@overloaded(NATIVE)
def as_weights(p):  # type: ignore[no-untyped-def]  # as above
    """Probabilities that can be indexed by a variable."""
    if isinstance(p, types.BaseTuple):
        return lambda p: _as_floats(p)
    return lambda p: p


# --- arrays of whole numbers -----------------------------------------------------------------------------------------


@overloaded(NATIVE)
def shuffle(rng, values):  # type: ignore[no-untyped-def]  # as above
    return _shuffle_numbers if values.ndim == 1 else _shuffle_parts


def _shuffle_numbers(rng, values):  # type: ignore[no-untyped-def]  # as above
    for last in range(len(values) - 1, 0, -1):
        other = interval(rng, np.uint64(last))
        kept = values[other]
        values[other] = values[last]
        values[last] = kept


def _shuffle_parts(rng, values):  # type: ignore[no-untyped-def]  # as above
    for last in range(len(values) - 1, 0, -1):
        first, second = values[interval(rng, np.uint64(last))], values[last]
        for index in np.ndindex(first.shape):
            kept = first[index]
            first[index] = second[index]
            second[index] = kept


@njit(**NATIVE)
def permutation(rng: Any, out: Any) -> None:
    for index in range(len(out)):
        out[index] = index
    shuffle(rng, out)


@overloaded(NATIVE)
def multinomial(rng, n, pvals, out):  # type: ignore[no-untyped-def]  # as above
    return lambda rng, n, pvals, out: _multinomial(rng, n, as_weights(pvals), out)


@njit(**NATIVE)
def _multinomial(rng: Any, n: Any, p: Any, out: Any) -> None:
    left, rest = np.int64(n), 1.0
    for index in range(len(out)):
        out[index] = 0
    for index in range(len(out) - 1):
        count = binomial(rng, left, p[index] / rest)
        out[index] = count
        left -= count
        if left <= 0:
            return
        rest -= p[index]
    out[len(out) - 1] = left


@overloaded(NATIVE)
def sample(rng, n, out, p=None):  # type: ignore[no-untyped-def]  # as above
    if not isinstance(out.dtype, types.Integer):
        raise TypingError("vecenv: sample writes ints; give it an array of ints")
    if _is_left_out(p):
        return lambda rng, n, out, p=None: _sample(rng, np.int64(n), out)
    return lambda rng, n, out, p=None: _sample_weighted(rng, as_weights(p), out)


@njit(**NATIVE)
def _sample(rng: Any, n: Any, out: Any) -> None:
    """Floyd's method; of a large part of many options the last places of a shuffle, as NumPy does it."""
    size = len(out)
    if n > 10_000 and size > n // 50:
        _sample_of_many(rng, n, out)
        return
    for place in range(size):
        drawn = np.int64(up_to(rng, np.uint64(n - size + place)))
        out[place] = n - size + place if _is_among(drawn, out, place) else drawn
    for last in range(size - 1, 0, -1):
        other = np.int64(up_to(rng, np.uint64(last)))
        kept = out[other]
        out[other] = out[last]
        out[last] = kept


@njit(**NATIVE)
def _sample_of_many(rng: Any, n: Any, out: Any) -> None:
    """The last places of 0 ... n - 1 after a shuffle that begins at the end, without an array of all options.

    The turn that fixes a place swaps it with one at or below it. `out` holds that other place first. What lies there is
    found from the turns before: nothing but its own number, unless an earlier turn put the content of its place there.
    """
    first = n - len(out)
    for place in range(len(out) - 1, -1, -1):
        out[place] = np.int64(up_to(rng, np.uint64(first + place)))
    for place in range(len(out)):
        wanted, turn = np.int64(out[place]), place + 1
        while turn < len(out):
            if out[turn] == wanted:
                wanted = first + turn
            turn += 1
        out[place] = wanted


@njit(**NATIVE)
def _sample_weighted(rng: Any, p: Any, out: Any) -> None:
    """Draws of all places that are left, without those that were drawn before; equal ones of a round count once."""
    found = 0
    while found < len(out):
        known, total = found, 0.0
        for index in range(len(p)):
            total += 0.0 if _is_among(index, out, known) else p[index]
        if not total > 0.0:
            return  # too few options; Python raises
        for _ in range(len(out) - known):
            drawn, reached, index = stream.random(rng), 0.0, 0
            while index < len(p) - 1:
                reached += 0.0 if _is_among(index, out, known) else p[index]
                if reached / total > drawn:
                    break
                index += 1
            if not _is_among(index, out, found):
                out[found] = index
                found += 1


@njit(**NATIVE)
def _is_among(value: Any, values: Any, count: Any) -> Any:
    for index in range(count):  # noqa: SIM110  # native code has no generator expressions
        if values[index] == value:
            return True
    return False


# --- filled arrays ---------------------------------------------------------------------------------------------------


@njit(**NATIVE)
def fill_random(rng: Any, out: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = stream.random(rng)


@njit(**NATIVE)
def fill_uniform(rng: Any, out: Any, low: Any = 0.0, high: Any = 1.0) -> None:
    for index in np.ndindex(out.shape):
        out[index] = uniform(rng, low, high)


@overloaded(NATIVE)
def fill_integers(rng, out, low, high=None, endpoint=False):  # type: ignore[no-untyped-def]  # as above
    if _is_left_out(high):
        return lambda rng, out, low, high=None, endpoint=False: _fill_between(rng, out, 0, low, endpoint)
    return lambda rng, out, low, high=None, endpoint=False: _fill_between(rng, out, low, high, endpoint)


@njit(**NATIVE)
def _fill_between(rng: Any, out: Any, low: Any, high: Any, endpoint: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = _between(rng, low, high, endpoint)


@njit(**NATIVE)
def fill_normal(rng: Any, out: Any, loc: Any = 0.0, scale: Any = 1.0) -> None:
    for index in np.ndindex(out.shape):
        out[index] = normal(rng, loc, scale)


@njit(**NATIVE)
def fill_standard_normal(rng: Any, out: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = distributions.standard_normal(rng)


@njit(**NATIVE)
def fill_exponential(rng: Any, out: Any, scale: Any = 1.0) -> None:
    for index in np.ndindex(out.shape):
        out[index] = exponential(rng, scale)


@njit(**NATIVE)
def fill_standard_exponential(rng: Any, out: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = distributions.standard_exponential(rng)


@njit(**NATIVE)
def fill_poisson(rng: Any, out: Any, lam: Any = 1.0) -> None:
    for index in np.ndindex(out.shape):
        out[index] = poisson(rng, lam)


@njit(**NATIVE)
def fill_binomial(rng: Any, out: Any, n: Any, p: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = binomial(rng, n, p)


@njit(**NATIVE)
def fill_geometric(rng: Any, out: Any, p: Any) -> None:
    for index in np.ndindex(out.shape):
        out[index] = geometric(rng, p)


@overloaded(NATIVE)
def fill_choice(rng, out, options, p=None):  # type: ignore[no-untyped-def]  # as above
    def fill(rng, out, options, p=None):  # type: ignore[no-untyped-def]  # as above
        for index in np.ndindex(out.shape):
            out[index] = choice(rng, options, p)

    return fill
