"""Orders of native code to run all rows, and the buffers that observations go to."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import setitem
from typing import Any

import numpy as np

from vecenv._batch.layout import Columns

BUFFERS = 4
"""Buffers that observations rotate through with `copy=False`: an array is unchanged for the next BUFFERS - 1 steps."""


class WholeOrders:
    """Orders to run all rows (`kernel/lower/columns.py`), written again only when the ops change.

    Args:
        table: of the first thread.
        count: number of rows.

    Attributes:
        words: the orders.
        address: of the orders.
        alive, over: the ops in the orders; an `alive` of -1 says that they are being written.
    """

    __slots__ = ("address", "alive", "over", "words")

    def __init__(self, table: np.ndarray, count: int) -> None:
        self.words = np.array([table.ctypes.data, 0, 0, count, 0, 0, 1, 0], np.int64)
        self.address = self.words.ctypes.data
        self.alive, self.over = 0, 0

    def write(self, alive: int, over: int) -> None:
        """Let the orders have these ops."""
        self.alive = -1  # NumPy may run a signal handler while the orders are written
        self.words[4:] = alive, over, 1, alive != 0
        self.over, self.alive = over, alive  # `alive` last: until then they count as unwritten


class Ring:
    """The buffers that observations of steps rotate through.

    Args:
        obs: the columns of observations, one per leaf. The list is changed by every turn.
        places: where the addresses of the columns are in tables of native code. Columns `C_` are for policies, whose
            tables are made for each rollout.
        tables: of the threads.
        named: columns by name; those of observations, `O_` and `C_`, are changed by every turn.
    """

    __slots__ = ("_buffers", "_obs", "_places", "_tables", "_turn")

    def __init__(
        self,
        obs: Columns,
        places: Sequence[int] = (),
        tables: Sequence[np.ndarray] = (),
        named: dict[str, np.ndarray] | None = None,
    ) -> None:
        self._obs, self._turn = obs, 0
        buffers = [list(obs), *([np.empty_like(column) for column in obs] for _ in range(BUFFERS - 1))]
        kinds = "" if named is None else "OC"
        names = [f"{kind}_{leaf}" for kind in kinds for leaf in range(len(obs))]
        # A table's `data` is quicker to write than the table.
        self._tables: list[Any] = [table.data for table in tables for _ in places] + [named] * len(names)
        self._places: list[Any] = [place for _ in tables for place in places] + names
        self._buffers: list[tuple[Columns, list[Any]]] = [
            (columns, [column.ctypes.data for column in columns] * len(tables) + columns * len(kinds))
            for columns in buffers
        ]

    def rotate(self, by: int) -> None:
        """Let observations go to the next buffers, or with -1 to those before."""
        turn = (self._turn + by) % BUFFERS
        columns, values = self._buffers[turn]
        # Stores without a call or a turn of a loop between them, where a signal handler could run.
        if len(values) == 1:
            self._turn, self._obs[:], self._tables[0][self._places[0]] = turn, columns, values[0]
            return
        writing = map(setitem, self._tables, self._places, values)
        self._turn, self._obs[:] = turn, columns
        deque(writing, 0)
