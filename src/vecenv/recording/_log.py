"""What went back and forth, in order, for as long as an episode that is going on needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from vecenv._batch import Op, Rows

Kept: TypeAlias = tuple[Any, ...]
"""One entry per leaf: an array, or a list of values where the leaf has no fixed size."""

_OVERHEAD = 1000
"""Bytes of an entry besides its arrays, about."""
_RESET = int(Op.RESET)
_SOME = 512
"""Entries after which it is worth looking for some that nobody needs."""


class Sent(NamedTuple):
    """Actions of some rows; None: of all."""

    size: int
    rows: Rows | None
    ops: Any
    """One for all rows, one for each, or None if none of them is a reset."""
    actions: Kept
    given: dict[int, Any] | None

    def resets(self, position: int) -> bool:
        """Whether the row there is to begin an episode, and its action is of no interest."""
        return bool((self.ops[position] if isinstance(self.ops, np.ndarray) else self.ops) == _RESET)


class Received(NamedTuple):
    """Results of some rows (None: of all), and the starts of those of them that began an episode."""

    size: int
    rows: Rows | None
    obs: Kept
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    began: Rows | None
    starts: Any


class Log:
    """Entries by number, counted from the first that ever was.

    They are kept as plain tuples of arrays, which the garbage collector soon leaves alone: there may be many.

    Args:
        count: number of rows.
        limit: bytes; the oldest entries are dropped when there are more.

    Attributes:
        begin: by row, number of the entry that its episode began with; entries before the oldest are not kept.
    """

    def __init__(self, count: int, limit: int) -> None:
        self.begin = np.zeros(count, np.int64)
        self._entries: list[tuple[Any, ...]] = []
        self._first = 0
        self._limit = limit
        self._bytes = 0
        self._looked = 0

    def add(self, entry: tuple[Any, ...]) -> int:
        """Append an entry, a tuple of the fields of Sent or Received; drop what nobody needs, or what is too much.

        Returns:
            Its number.
        """
        entries = self._entries
        number = self._first + len(entries)
        entries.append(entry)
        self._bytes += entry[0]
        if self._bytes > self._limit or len(entries) - self._looked > _SOME:
            self._prune()
        return number

    def take_back(self, rows: Rows) -> None:
        """Forget that these rows were sent, if that is the last entry."""
        last = _entry(self._entries[-1]) if self._entries else None
        if isinstance(last, Sent) and (
            len(rows) == len(self.begin) if last.rows is None else np.array_equal(last.rows, rows)
        ):
            self._bytes -= self._entries.pop()[0]

    def of_row(
        self, row: int, begin: int | None = None
    ) -> tuple[bool, list[tuple[Sent, int]], list[tuple[Received, int]]]:
        """The entries of a row's episode, each with the row's position in it.

        Args:
            row: which.
            begin: number of the entry it began with; default: that of the current episode.

        Returns:
            Whether all are still there; what was sent; and what was received, of which the first is the observation
            that the first action was chosen by.
        """
        start = int(self.begin[row]) if begin is None else begin
        sent: list[tuple[Sent, int]] = []
        received: list[tuple[Received, int]] = []
        for entry in map(_entry, self._entries[max(0, start - self._first) :]):
            position = position_of(entry.rows, row)
            if position < 0:
                continue
            if isinstance(entry, Received):
                received.append((entry, position))
            elif entry.resets(position):  # which did not come back, or it would be before the beginning
                return True, [], []
            elif received:  # what came before the first observation belongs to a step that was dropped
                sent.append((entry, position))
        return start >= self._first, sent, received

    def is_owed(self, row: int) -> bool:
        """Whether the row was sent and not received."""
        for entry in map(_entry, reversed(self._entries)):
            if position_of(entry.rows, row) >= 0:
                return isinstance(entry, Sent)
        return False

    def _prune(self) -> None:
        self._drop(int(self.begin.min()) - self._first)
        while self._bytes > self._limit and self._entries:
            self._drop(1 + len(self._entries) // 8)
        self._looked = len(self._entries)

    def _drop(self, count: int) -> None:
        if count > 0:
            self._bytes -= sum(entry[0] for entry in self._entries[:count])
            del self._entries[:count]
            self._first += count


def _entry(fields: tuple[Any, ...]) -> Sent | Received:
    return Sent(*fields) if len(fields) == len(Sent._fields) else Received(*fields)


def position_of(rows: Rows | None, row: int) -> int:
    """Where a row is among rows (None: all); -1 if it is not."""
    if rows is None:
        return row
    found = np.flatnonzero(rows == row)
    return int(found[0]) if len(found) else -1


def size_of(kept: Sequence[Any]) -> int:
    """Bytes of what is kept of an entry, about."""
    return _OVERHEAD + sum(part.nbytes if isinstance(part, np.ndarray) else 200 * len(part) for part in kept)


def parts(entries: Sequence[tuple[Any, int]], name: str, leaf: int) -> Iterator[Any]:
    """A leaf of a row over time."""
    return (getattr(entry, name)[leaf][position] for entry, position in entries)
