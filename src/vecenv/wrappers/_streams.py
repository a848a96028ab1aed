"""Random numbers of each env, which depend on its seed and on how many were drawn, not on other envs."""

from __future__ import annotations

import numpy as np

from vecenv._batch.seeding import NO_SEED

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PER_TURN = np.uint64(2)


class Streams:
    """One stream of uniform numbers per env. A turn of a stream has two numbers, which may be looked at repeatedly.

    Args:
        count: number of envs.
        seed: of all streams; None: a random one.

    Attributes:
        keys, turns: the whole state, one number per env each.
    """

    def __init__(self, count: int, seed: int | None) -> None:
        self.keys = np.random.SeedSequence(seed).generate_state(count, np.uint64)
        self.turns = np.zeros(count, np.uint64)

    def reseed(self, seeds: np.ndarray) -> None:
        """Restart the streams of all envs that have a seed."""
        rows = np.flatnonzero(seeds != NO_SEED)
        self.keys[rows] = mixed(seeds[rows].astype(np.uint64))
        self.turns[rows] = 0

    def look(self, rows: np.ndarray, which: int) -> np.ndarray:
        """Numbers in 0 ... 1, without 1, of each env's turn: the first ones (`which` 0) or the second ones (1)."""
        places = self.keys[rows] + (_PER_TURN * self.turns[rows] + np.uint64(which)) * _GOLDEN
        return (mixed(places) >> np.uint64(11)) * 2.0**-53

    def advance(self, rows: np.ndarray) -> None:
        """Advance to the next turn."""
        self.turns[rows] += np.uint64(1)


def mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64: a random 64-bit number for every number."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
