"""Random numbers that depend only on a seed, the number of an episode and a name."""

from __future__ import annotations

import zlib

import numpy as np

from vecenv.wrappers._streams import mixed


class Noise:
    """Independent random numbers per row and name. There is no shared stream, so the order of calls does not matter.

    Args:
        seeds: int64, the seed of each row.
        episodes: int64, the number of each row's episode.
    """

    def __init__(self, seeds: np.ndarray, episodes: np.ndarray) -> None:
        self._keys = mixed(mixed(seeds.astype(np.uint64)) ^ episodes.astype(np.uint64))

    def __len__(self) -> int:
        return len(self._keys)

    def words(self, name: str) -> np.ndarray:
        """64 random bits for each row."""
        return mixed(self._keys ^ np.uint64(zlib.crc32(name.encode())))

    def uniform(self, name: str) -> np.ndarray:
        """float64 in [0, 1) for each row."""
        return (self.words(name) >> np.uint64(11)) * 2.0**-53

    def choice(self, name: str, count: int) -> np.ndarray:
        """An index in 0 ... count - 1 for each row."""
        return np.minimum((self.uniform(name) * count).astype(np.int64), count - 1)

    def seeds(self) -> np.ndarray:
        """A seed for each row, int64 and not negative."""
        return (self.words("seed") >> np.uint64(1)).view(np.int64)
