"""Seeds: from what a user passes to one number per row."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from vecenv._util.checks import brief
from vecenv.errors import SpaceError

Seeding = Literal["gymnasium", "spawn"]
NO_SEED = -1
_LARGEST = 2**63 - 1
LARGEST_OF_RUN = 2**63 - 2**32
"""The largest seed of a whole run: the seeds of its envs, which count on from it, fit too."""


def spread(seed: Any, count: int, seeding: Seeding = "gymnasium") -> np.ndarray:
    """One seed per row as int64, NO_SEED where a row is not to be seeded.

    Args:
        seed: None; an integer (Python's or NumPy's); or one per row, each an integer or None.
        count: number of rows.
        seeding: what an integer means. "gymnasium": seed, seed + 1, ... as Gymnasium does, so that two vector envs with
            neighbouring seeds share most of their streams. "spawn": children of SeedSequence(seed), which never
            overlap.

    Either way the seed of row i depends on nothing but `seed` and i.
    """
    if seed is None:
        return np.full(count, NO_SEED, np.int64)
    if isinstance(seed, Sequence) and not isinstance(seed, (str, bytes)):
        return _explicit(seed, count)
    if isinstance(seed, np.ndarray) and seed.ndim:
        return _explicit(seed, count)
    first = _one(seed, "seed")
    if seeding == "spawn":
        return np.array([spawn(first, row) for row in range(count)], np.int64)
    check_spread(first, count)
    return np.arange(first, first + count, dtype=np.int64)


def check_spread(first: int, count: int) -> None:
    """Raise SpaceError if `first`, `first + 1`, ... are not seeds for all rows."""
    if first + count - 1 > _LARGEST:
        raise SpaceError(f"seed must be at most 2**63 - num_envs = {_LARGEST - count + 1}, got {first}")


def spawn(seed: int, *key: int) -> int:
    """A seed in 0 ... 2**63 - 1 for the child of `seed` with this spawn key."""
    state = np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0]
    return int(state >> np.uint64(1))


def one_seed(seed: Any) -> int | None:
    """A seed that is one integer, Python's or NumPy's, or None. Raises SpaceError for anything else."""
    return None if seed is None else _one(seed, "seed")


def _explicit(seeds: Sequence[Any] | np.ndarray, count: int) -> np.ndarray:
    if len(seeds) != count:
        raise SpaceError(
            f"If seeds are passed as a list the length must match num_envs={count} but got length={len(seeds)}."
        )
    return np.array(
        [NO_SEED if seed is None else _one(seed, f"seed[{row}]") for row, seed in enumerate(seeds)], np.int64
    )


def _one(seed: Any, name: str) -> int:
    if isinstance(seed, (bool, np.bool_)):
        raise SpaceError(f"{name} must be an int, got bool {seed}")
    try:
        number = operator.index(seed)
    except TypeError:
        raise SpaceError(
            f"{name} must be an int, a sequence of int (or None) per env, or None; got {brief(seed)}"
        ) from None
    if not 0 <= number <= _LARGEST:
        raise SpaceError(f"{name} must be in 0 ... 2**63 - 1, got {number}")
    return number
