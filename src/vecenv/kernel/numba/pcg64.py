"""NumPy's PCG64 as native code, bit for bit: words, floats and ints of a stream, and its seed.

A stream is a row of six words: state (high, low), increment (high, low), whether half a word is kept for the next draw,
and that half. The increment of a seeded stream is odd, so a row of zeros is one that was never seeded. Only the
compiler imports this module; it needs Numba. The algorithms are those of NumPy's `_pcg64`, `SeedSequence` and
`Generator`. They are never compiled with fastmath: a stream is the same in every precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from vecenv.kernel.numba.math import NATIVE, intrinsic

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_LOW = np.uint64(0xFFFFFFFF)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TO_DOUBLE = 1.0 / 9007199254740992.0


@intrinsic
def advance(typing_context: Any, high: Any, low: Any, increment_high: Any, increment_low: Any) -> Any:
    """The state after one step of the generator."""
    word = types.uint64
    signature = types.UniTuple(word, 2)(word, word, word, word)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        state, increment = (_joined(builder, *arguments[start : start + 2]) for start in (0, 2))
        state = builder.add(builder.mul(state, wide(_MULTIPLIER)), increment)
        return _split(context, builder, signature.return_type, state)

    return signature, generate


@intrinsic
def product(typing_context: Any, first: Any, second: Any) -> Any:
    """High and low word of a product of two words."""
    signature = types.UniTuple(types.uint64, 2)(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return _split(context, builder, signature.return_type, product)

    return signature, generate


def _joined(builder: Any, high: Any, low: Any) -> Any:
    wide = ir.IntType(128)
    return builder.or_(builder.shl(builder.zext(high, wide), wide(64)), builder.zext(low, wide))


def _split(context: Any, builder: Any, pair: Any, value: Any) -> Any:
    word = ir.IntType(64)
    high = builder.trunc(builder.lshr(value, ir.IntType(128)(64)), word)
    return context.make_tuple(builder, pair, (high, builder.trunc(value, word)))


@njit(**NATIVE)
def next_word(rng: Any) -> Any:
    """64 random bits."""
    high, low = advance(rng[0], rng[1], rng[2], rng[3])
    rng[0] = high
    rng[1] = low
    mixed = high ^ low
    turn = high >> np.uint64(58)
    return (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))


@njit(**NATIVE)
def next_half(rng: Any) -> Any:
    """32 random bits; the other half of the word is kept for the next call."""
    if rng[4] != _ZERO:
        rng[4] = _ZERO
        return rng[5]
    word = next_word(rng)
    rng[4] = _ONE
    rng[5] = word >> np.uint64(32)
    return word & _LOW


@njit(**NATIVE)
def random(rng: Any) -> Any:
    return (next_word(rng) >> np.uint64(11)) * _TO_DOUBLE


@njit(**NATIVE)
def uniform(rng: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    low = float(low)
    return low + (float(high) - low) * random(rng)


@njit(**NATIVE)
def up_to(rng: Any, largest: Any) -> Any:
    """A number in 0 ... largest, by Lemire's method."""
    if largest == _ZERO:
        return _ZERO
    if largest == _LOW:
        return next_half(rng)
    count = largest + _ONE
    if largest < _LOW:
        scaled = next_half(rng) * count
        rest = scaled & _LOW
        if rest < count:
            threshold = (_LOW - largest) % count
            while rest < threshold:
                scaled = next_half(rng) * count
                rest = scaled & _LOW
        return scaled >> np.uint64(32)
    if largest == _ALL:
        return next_word(rng)
    high, low = product(next_word(rng), count)
    if low < count:
        threshold = (_ALL - largest) % count
        while low < threshold:
            high, low = product(next_word(rng), count)
    return high


@njit(**NATIVE)
def between(rng: Any, low: Any, high: Any) -> Any:
    """An int in low ... high - 1."""
    return np.int64(low) + np.int64(up_to(rng, np.uint64(np.int64(high) - np.int64(low) - 1)))


@njit(**NATIVE)
def interval(rng: Any, largest: Any) -> Any:
    """A number in 0 ... largest < 2**32, drawn as in NumPy's shuffle: bits are drawn until they are not too large."""
    mask = largest
    for shift in range(5):
        mask = mask | (mask >> np.uint64(1 << shift))
    drawn = next_half(rng) & mask
    while drawn > largest:
        drawn = next_half(rng) & mask
    return np.int64(drawn)


@njit(**NATIVE)
def _mixed(value: Any, constant: Any, factor: Any) -> Any:
    """One round of SeedSequence's hash: the value and the next constant."""
    value = (value ^ constant) & _LOW
    constant = (constant * factor) & _LOW
    value = (value * constant) & _LOW
    return value ^ (value >> np.uint64(16)), constant


@njit(**NATIVE)
def _word(first: Any, second: Any, constant: Any, factor: Any) -> Any:
    """A word of two numbers of the pool, and the next constant."""
    low, constant = _mixed(first, constant, factor)
    high, constant = _mixed(second, constant, factor)
    return low | (high << np.uint64(32)), constant


@njit(**NATIVE)
def seed_stream(rng: Any, seed: Any) -> None:
    """Start the stream as `PCG64(SeedSequence(seed))` does. Its first four words hold the sequence's pool meanwhile."""
    hashed, factor = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
    rng[0], hashed = _mixed(np.uint64(seed) & _LOW, hashed, factor)
    rng[1], hashed = _mixed(np.uint64(seed) >> np.uint64(32), hashed, factor)
    rng[2], hashed = _mixed(_ZERO, hashed, factor)
    rng[3], hashed = _mixed(_ZERO, hashed, factor)
    for source in range(4):
        for target in range(4):
            if source != target:
                given, hashed = _mixed(rng[source], hashed, factor)
                result = (np.uint64(0xCA01F9DD) * rng[target] - np.uint64(0x4973F715) * given) & _LOW
                rng[target] = result ^ (result >> np.uint64(16))
    hashed, factor = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
    start_high, hashed = _word(rng[0], rng[1], hashed, factor)
    start_low, hashed = _word(rng[2], rng[3], hashed, factor)
    stream_high, hashed = _word(rng[0], rng[1], hashed, factor)
    stream_low, hashed = _word(rng[2], rng[3], hashed, factor)
    rng[2] = (stream_high << _ONE) | (stream_low >> np.uint64(63))
    rng[3] = (stream_low << _ONE) | _ONE
    low = rng[3] + start_low  # one step from zero leaves the increment, to which the start is added
    high = rng[2] + start_high + (_ONE if low < start_low else _ZERO)
    rng[0], rng[1] = advance(high, low, rng[2], rng[3])
    rng[4] = _ZERO
    rng[5] = _ZERO
