"""Exchanges of all rows, copied at once where the columns lie next to one another in memory, and taken apart later."""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from typing import Any, cast

import numpy as np

from vecenv._batch.batch import Batch, Op, Rows
from vecenv.engines.recording.begins import PythonBegins
from vecenv.engines.recording.digests import is_digested
from vecenv.engines.recording.log import OVERHEAD, Received, Sent

_RESET = int(Op.RESET)


class Span:
    """Columns next to one another in one block of memory, by name and in order. `copy()` returns all as one `bytes`."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        first = next(iter(columns.values()))
        start = first.ctypes.data
        places = {name: column.ctypes.data - start for name, column in columns.items()}
        size = max(places[name] + column.nbytes for name, column in columns.items())
        block = np.frombuffer(cast(mmap, first.base), np.uint8)
        start -= block.ctypes.data
        self.copy: Callable[[], bytes] = block[start : start + size].data.tobytes
        self.entry_size = OVERHEAD + size
        """Bytes of an entry with a copy, about."""
        self._places = places
        self._dtype = np.dtype(
            {
                "names": list(columns),
                "formats": [(column.dtype, column.shape) for column in columns.values()],
                "offsets": list(places.values()),
                "itemsize": size,
            }
        )

    def place(self, name: str) -> slice:
        """Where a column is in a copy."""
        start = self._places[name]
        return slice(start, start + self._dtype[name].itemsize)

    def read(self, data: bytes) -> Any:
        """A copy as columns by name, which are views of it."""
        return np.frombuffer(data, self._dtype)[0]


class Packed:
    """Copies what all rows are sent with, or all their results, as an entry of a log; and reads such entries."""

    def __init__(self, batch: Batch, begins: PythonBegins) -> None:
        self._sent, self._results = map(Span, _columns(batch))
        self._begins, self._words = begins, batch.start
        self._leaves = list(_leaves(batch.actions)), list(_leaves(batch.obs))
        self._ops, self._kinds = self._sent.place("op"), self._results.place("start_kind")

    @classmethod
    def of(cls, batch: Batch, begins: PythonBegins) -> Packed | None:
        """None if rows have values of no fixed size or large ones, or if columns are not in one block of memory."""
        if batch.action_layout.by_value or batch.observation_layout.by_value:
            return None
        if any(is_digested(column.nbytes // len(batch)) for column in batch.obs):
            return None
        columns = [column for span in _columns(batch) for column in span.values()]
        in_one_block = isinstance(batch.op.base, mmap) and all(column.base is batch.op.base for column in columns)
        return cls(batch, begins) if in_one_block else None

    def sent(self) -> tuple[tuple[int, bytes], bool]:
        """An entry of what the rows are sent with, and whether any of them is to be reset."""
        data = self._sent.copy()
        return (self._sent.entry_size, data), _RESET in data[self._ops]

    def results(self) -> tuple[tuple[int, bytes, bytes | None], bytes | None]:
        """An entry of the results; and as in `Received`, which rows began an episode."""
        data = self._results.copy()
        noted = data[self._kinds]
        words = self._begins.take_all(noted)
        if words is None:
            return (self._results.entry_size, data, None), None
        return (self._results.entry_size + len(words), data, words), noted

    def opened(self, entry: tuple[Any, ...]) -> Sent | Received:
        """An entry that `sent` or `results` returned, or whose starts were reduced to those rows that have any."""
        size, data = entry[:2]
        actions, obs = self._leaves
        if len(entry) == 2:
            columns = self._sent.read(data)
            return Sent(size, None, columns["op"], tuple([columns[leaf] for leaf in actions]), None)
        columns, starts = self._results.read(data), entry[2]
        began: Rows | bytes | None = None
        if isinstance(starts, bytes):
            began, starts = data[self._kinds], np.frombuffer(starts, self._words.dtype).reshape(self._words.shape)
        elif starts is not None:
            began, starts = starts
        flags = columns["reward"], columns["terminated"], columns["truncated"]
        return Received(size, None, tuple([columns[leaf] for leaf in obs]), *flags, began, starts)


def _columns(batch: Batch) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What rows are sent with, and their results: each in the order in which `_batch/columns.py` places them."""
    results = {name: getattr(batch, name) for name in ("reward", "terminated", "truncated", "start_kind")}
    return {**_leaves(batch.actions), "op": batch.op}, {**results, **_leaves(batch.obs)}


def _leaves(columns: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"leaf {number}": column for number, column in enumerate(columns)}
