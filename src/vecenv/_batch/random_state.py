"""The place of an env's random stream as six words, which fit a row of the batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

WORDS = 6
"""State and increment (high and low halves), whether half a draw is kept, and that half."""
CLONES, POLICIES = 2**32 - 1, 2**32 - 2
"""Spawn keys of families of streams. Those of envs have the index of a row as their key."""
_HALF = (1 << 64) - 1


def words_of(generator: Any) -> tuple[int, ...] | None:
    """Where a generator is; None if it is not NumPy's with PCG64, which is what Gymnasium's envs have."""
    bits = getattr(generator, "bit_generator", None)
    if type(bits) is not np.random.PCG64:
        return None
    state = bits.state
    value, increment = state["state"]["state"], state["state"]["inc"]
    halves = value >> 64, value & _HALF, increment >> 64, increment & _HALF
    return *halves, state["has_uint32"], state["uinteger"]


def fresh_words(seed: int | None, count: int, family: int) -> np.ndarray:
    """Words [count, WORDS] of new streams; stream k depends on nothing but the seed, the family and k.

    Args:
        seed: None for streams that differ each time.
        count: number of streams.
        family: a spawn key. Streams of different families have nothing in common, nor have they with `PCG64(seed)`.
    """
    words = np.zeros((count, WORDS), np.uint64)
    drawn = np.random.SeedSequence(seed, spawn_key=(family,)).generate_state(4 * count, np.uint64)
    words[:, :4] = drawn.reshape(count, 4)
    words[:, 3] |= np.uint64(1)  # an increment is odd
    return words


def follow(generator: Any, words: np.ndarray) -> Callable[[], None] | None:
    """A function that writes where the generator then is into `words`, several times faster than `words_of`.

    It reads the generator's memory, whose layout NumPy does not document, so it is compared with `words_of` first;
    None where it is otherwise.
    """
    state = generator.bit_generator.ctypes.state_address
    halves = _memory(ctypes.c_uint64, 4, ctypes.c_uint64.from_address(state).value).reshape(2, 2)
    half = _memory(ctypes.c_uint32, 2, state + ctypes.sizeof(ctypes.c_uint64))
    known = *halves[:, ::-1].ravel().tolist(), *half.tolist()
    if known != words_of(generator):
        return None
    to_halves, to_half = words[:4].reshape(2, 2)[:, ::-1], words[4:6]

    def write() -> None:
        np.copyto(to_halves, halves)
        np.copyto(to_half, half)

    return write


def _memory(kind: Any, count: int, address: int) -> np.ndarray:
    return np.ctypeslib.as_array((kind * count).from_address(address))


def set_words(generator: np.random.Generator, words: Any) -> None:
    """Move a generator to where another one was. It stays the same object, so every holder sees it moved.

    Raises:
        ValueError: it has another kind of stream, or these are no words of one.
    """
    bits = generator.bit_generator
    if type(bits) is not np.random.PCG64:
        raise ValueError(f"the stream is a {type(bits).__name__}, the words are of a PCG64")
    numbers = [int(word) for word in words]
    if len(numbers) != WORDS or not all(0 <= number <= _HALF for number in numbers):
        raise ValueError(f"{WORDS} words of 64 bits are needed, got {numbers}")
    high, low, increment_high, increment_low, kept, half = numbers
    if kept > 1 or half >> 32 or not increment_low & 1:
        raise ValueError(f"no stream has the words {numbers}")
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low},
        "has_uint32": kept,
        "uinteger": half,
    }
