"""Weights for sampling, in a tree of sums."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from vecenv._util.forks import reinit_after_fork
from vecenv.buffers._replay_native import search_tree, update_tree
from vecenv.errors import UnknownRow
from vecenv.kernel.numba.functions import address_of, native_function, table_of

native = functools.cache(native_function)
"""The native code of a function, loaded once."""
_table = table_of("5q")


class SumTree:
    """`size` weights, all 0 at first. Setting or finding one takes log(size) steps of native code.

    Attributes:
        nodes: float64 [2 * leaves]; node 1 is the sum of all, the leaves are the second half.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.leaves = 1 << max(0, size - 1).bit_length()
        self.nodes = np.zeros(2 * self.leaves)
        self._lock = reinit_after_fork(threading.Lock())  # native code runs without the interpreter lock

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.nodes[1])

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return self.nodes[self.leaves + np.asarray(index)]

    def update(self, index: np.ndarray, weights: np.ndarray | float) -> None:
        """Set weights; if an index occurs twice, its last weight counts.

        Raises:
            UnknownRow: an index is not in [0, size).
        """
        index = own_places(index, self.size)
        weights = np.ascontiguousarray(np.broadcast_to(np.asarray(weights, np.float64), index.shape))
        self._run(update_tree, index, weights)

    def search(self, sums: np.ndarray) -> np.ndarray:
        """For each number in [0, total): the first index whose cumulative weight is greater."""
        sums, index = np.ascontiguousarray(sums, np.float64), np.empty(len(sums), np.int64)
        self._run(search_tree, index, sums)
        return index

    def could_be(self, nodes: np.ndarray) -> bool:
        """Whether these are the nodes of a valid tree: weights that are not negative, and their sums."""
        weights = nodes[self.leaves :]
        if not np.isfinite(nodes).all() or weights.min() < 0 or weights[self.size :].any():
            return False
        with np.errstate(over="ignore"):
            return np.array_equal(nodes[1 : self.leaves], nodes[2::2] + nodes[3::2])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=reinit_after_fork(threading.Lock()))

    def _run(self, function: Callable[[int], int], index: np.ndarray, numbers: np.ndarray) -> None:
        nodes = self.nodes
        table = _table(address_of(nodes), self.leaves, address_of(index), len(index), address_of(numbers))
        with self._lock:
            native(function)(table)


def own_places(index: Any, size: int) -> np.ndarray:
    """A copy of indices as native code reads them: it does not check, and another thread may change the caller's.

    Raises:
        UnknownRow: an index is not in [0, size).
    """
    index = np.array(index, np.int64, order="C", ndmin=1)
    if index.size and (index.min() < 0 or index.max() >= size):
        wrong = index[(index < 0) | (index >= size)][0]
        raise UnknownRow(f"there is no {wrong} among {size} places; pass the `index` of a sample")
    return index
