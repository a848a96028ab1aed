"""Sixty-four bits in place of an observation that is too large to keep."""

from __future__ import annotations

import functools

import numpy as np

LARGEST_ROW = 1024
"""Bytes of one env's part of a leaf that are kept as they are."""


def is_digested(leaf_bytes: int) -> bool:
    """Whether rows of this many bytes are kept as a digest."""
    return leaf_bytes > LARGEST_ROW


def digest_rows(column: np.ndarray) -> np.ndarray:
    """One number per row, uint64 [N], of an array [N, ...]; equal rows have equal numbers.

    A sum of 32-bit words times random 64-bit numbers: for any two different rows the chance of equal sums is below
    2**-31, and it takes one pass. It does not protect against rows that were constructed to have the same digest.
    """
    rows = np.ascontiguousarray(column).reshape(len(column), -1)
    data = rows.view(np.uint8).reshape(len(rows), -1)
    if data.shape[1] % 4:
        data = np.pad(data, ((0, 0), (0, -data.shape[1] % 4)))
    words = data.view(np.uint32)
    return words @ _factors(words.shape[1])


@functools.lru_cache(8)
def _factors(count: int) -> np.ndarray:
    return np.random.PCG64(20240229).random_raw(count) | np.uint64(1)
